package explain

import (
	"fmt"
	"slices"
	"strings"

	"github.com/winnpm/winnpm/pkg/dataplane"
)

// namedRivals is how many pods that claim an address are named.
const namedRivals = 4

// rivals returns the pods that claim the address of a pod and do not give way, with
// that pod, sorted.
func (c *Cluster) rivals(pod *dataplane.PodDump) []*dataplane.PodDump {
	var out []*dataplane.PodDump
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
func (c *Cluster) doubt(e end) string {
	if e.pod == nil || !e.pod.InDoubt {
		return ""
	}
	var names []string
	rivals := c.rivals(e.pod)
	for _, p := range rivals[:min(len(rivals), namedRivals)] {
		names = append(names, p.Pod)
	}
	if more := len(rivals) - len(names); more > 0 {
		names = append(names, fmt.Sprintf("%d more", more))
	}
	return fmt.Sprintf("%s is claimed by %s, of several namespaces: until one is left it is in no set, and an endpoint that has it is blocked as the policies of each of them say",
		e.addr, strings.Join(names, ", "))
}

// subjects returns the pods whose policies decide at the endpoints of a pod: itself,
// and in doubt every other one to which they may belong.
func (c *Cluster) subjects(pod *dataplane.PodDump) []string {
	if !pod.InDoubt {
		return []string{pod.Pod}
	}
	var out []string
	for _, p := range c.rivals(pod) {
		if p.InDoubt && p.Local {
			out = append(out, p.Pod)
		}
	}
	return out
}

// isolating returns the policies that isolate a pod in a direction, sorted.
func (c *Cluster) isolating(pod *dataplane.PodDump, ingress bool) []string {
	out := []string{}
	subjects := c.subjects(pod)
	for i := range c.dump.Policies {
		p := &c.dump.Policies[i]
		about := func(pod string) bool { return slices.Contains(p.Selected, pod) }
		if (ingress && p.Ingress || !ingress && p.Egress) && slices.ContainsFunc(subjects, about) {
			out = append(out, p.Policy)
		}
	}
	slices.Sort(out)
	return out
}
