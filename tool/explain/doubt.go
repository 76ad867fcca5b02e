package explain

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/winnpm/winnpm/pkg/policy"
	"github.com/winnpm/winnpm/pkg/state"
)

// namedRivals is how many pods that claim an address are named.
const namedRivals = 4

// rivals returns the pods that claim the address of a pod and do not give way, with
// that pod, sorted.
func (c *Cluster) rivals(pod *state.Pod) []*state.Pod {
	var out []*state.Pod
	for i := range c.dump.Pods {
		p := &c.dump.Pods[i]
		if p.Addr == pod.Addr && !p.Finished && !p.HostNetwork && !p.Deleting {
			out = append(out, p)
		}
	}
	return out
}

// doubt says of an end that nobody can tell whose its address is, and what follows;
// "" when that is known.
func (c *Cluster) doubt(e End) string {
	if e.pod == nil || !e.pod.InDoubt {
		return ""
	}
	if until := e.pod.LostUntil; !until.IsZero() {
		return fmt.Sprintf("%s, and its containers may run until %s: until then rules that deny include its address, and rules that allow do not", e.pod.Pod, until.UTC().Format(time.RFC3339))
	}
	var names []string
	rivals := c.rivals(e.pod)
	for _, p := range rivals[:min(len(rivals), namedRivals)] {
		names = append(names, p.Pod)
	}
	if more := len(rivals) - len(names); more > 0 {
		names = append(names, fmt.Sprintf("%d more", more))
	}
	return fmt.Sprintf("%s is claimed by %s, of several namespaces: until only one of them claims it, it is in no set, and an endpoint that has it is blocked as the policies of each of them say",
		e.addr, strings.Join(names, ", "))
}

// contested reports whether a pod was asked about that is not known to have its address.
func (e End) contested() bool {
	return e.named != nil && !e.named.HostNetwork && (e.pod == nil || e.pod.Pod != e.named.Pod || e.pod.InDoubt)
}

// Isolating returns the policies that isolate a pod of the dump in a direction, sorted:
// in doubt also those of the pods that claim its address. The list is not to be changed.
func (c *Cluster) Isolating(pod *state.Pod, ingress bool) []string {
	if c.isolating == nil {
		c.isolating = isolating(c.dump.Policies)
	}
	dir := policy.Egress
	if ingress {
		dir = policy.Ingress
	}
	out := []string{}
	if !pod.InDoubt {
		if own, ok := c.isolating[dir][pod.Pod]; ok {
			return slices.Clip(own)
		}
		return out
	}
	for _, p := range c.rivals(pod) {
		if p.InDoubt && p.Local {
			out = append(out, c.isolating[dir][p.Pod]...)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// isolating returns the policies that isolate in each direction, by pod, sorted.
func isolating(policies []state.Policy) *[2]map[string][]string {
	out := &[2]map[string][]string{{}, {}}
	for _, p := range policies {
		for dir, is := range [2]bool{policy.Ingress: p.Ingress, policy.Egress: p.Egress} {
			for _, pod := range p.Selected {
				if is {
					out[dir][pod] = append(out[dir][pod], p.Policy)
				}
			}
		}
	}
	for _, lists := range out {
		for pod, list := range lists {
			slices.Sort(list)
			lists[pod] = slices.Compact(list)
		}
	}
	return out
}
