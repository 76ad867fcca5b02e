package desired

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/winnpm/winnpm/pkg/policy"
	"github.com/winnpm/winnpm/pkg/progress"
	"github.com/winnpm/winnpm/pkg/render"
	"github.com/winnpm/winnpm/pkg/state"
)

// What the policies of one pod come to in HNS is bounded. First fewer numbers of named
// ports count of each other namespace, as these are no doing of the pod's namespace. Where
// that is not enough, the largest policies close first, by
// themselves, until the others fit: which ones these are follows from their texts, and
// all that select a pod are of its own namespace. A policy that is closed on a pod
// isolates it as ever, and has no rules there.

// numbersEach are how many numbers of a named port count of each namespace but the
// policy's own, by how often they were cut on a pod.
var numbersEach = [...]int{maxNumbers, 16, 4, 1, 0}

// sizeOn tells what the policy's rules come to on a pod. Where no port of the pod has
// a part in it that is found once.
func (p *policyState) sizeOn(pod *PodState) render.Size {
	if p.sized != nil {
		return *p.sized
	}
	s := render.SizeOf(&p.Compiled, podPorts{pod, p})
	if !p.namesPorts() {
		p.sized = &s
	}
	return s
}

// closedOn returns the policies that select a pod and have no room on it, in
// order. It costs the policies that select the pod, and the text of those whose size
// follows from pods.
func (d *State) closedOn(p *PodState) []*policyState {
	type sized struct {
		ps *policyState
		render.Size
	}
	all := make([]sized, len(p.selected))
	var sum render.Size
	for p.cut = 0; ; p.cut++ {
		sum = render.Size{}
		for i, ps := range p.selected {
			all[i] = sized{ps, ps.sizeOn(p)}
			sum = sum.Add(all[i].Size)
		}
		if sum.Within(d.cfg.Budgets) {
			return nil
		}
		if p.cut == len(numbersEach)-1 {
			break
		}
	}
	slices.SortFunc(all, func(a, b sized) int {
		return cmp.Or(cmp.Compare(a.Bytes, b.Bytes), cmp.Compare(a.ACLs, b.ACLs), a.ps.Key.Compare(b.ps.Key))
	})
	var closed []*policyState
	sum = render.Size{}
	for _, s := range all {
		if sum = sum.Add(s.Size); !sum.Within(d.cfg.Budgets) {
			closed = append(closed, s.ps)
		}
	}
	return closed
}

// closed returns the policies that have no room on some pod of this node, nil for
// none.
func (d *State) closed() map[policy.Key]bool {
	var out map[policy.Key]bool
	for _, p := range d.local {
		for _, ps := range p.closed {
			if !slices.Contains(p.selected, ps) {
				continue
			}
			if out == nil {
				out = map[policy.Key]bool{}
			}
			out[ps.Key] = true
		}
	}
	return out
}

// closedWarnings returns a warning for each of them, and for each policy with named ports
// on a pod where fewer numbers of other namespaces count.
func (d *State) closedWarnings() (out []state.Warning) {
	cut := map[policy.Key]bool{}
	for _, p := range d.local {
		if p.cut == 0 {
			continue
		}
		all := slices.Clone(p.selected)
		for _, s := range p.clusters {
			if s.policy.named != nil {
				all = append(all, s.policy.named)
			}
		}
		for _, ps := range all {
			if len(ps.views) > 0 && !cut[ps.Key] {
				cut[ps.Key] = true
				object, kind := ObjectOf(ps.Key)
				out = append(out, state.Warning{Object: object, Kind: kind, Reason: state.ReasonOverBudget, Message: fmt.Sprintf(
					"with the numbers under which pods of other namespaces serve its named ports, the policies of a pod come to more than %d ACLs (MaxACLsPerPod) or %d bytes "+
						"(MaxACLBytesPerPod): the higher numbers of these namespaces are accepted nowhere, and a ClusterNetworkPolicy that denies or passes the port denies all ports there; write numbers", d.cfg.Budgets.ACLs, d.cfg.Budgets.ACLBytes)})
			}
		}
	}
	for key := range d.closed() {
		out = append(out, state.Warning{Object: key.String(), Kind: progress.NetworkPolicy, Reason: state.ReasonOverBudget, Message: fmt.Sprintf(
			"with the other policies of a pod that it selects it comes to more than %d ACLs (MaxACLsPerPod) or %d bytes (MaxACLBytesPerPod), and is among the largest: "+
				"it isolates that pod and allows nothing. Merge peers, or give ports as ranges", d.cfg.Budgets.ACLs, d.cfg.Budgets.ACLBytes)})
	}
	return out
}

// podPorts resolves the named ports of one policy for one pod.
type podPorts struct {
	pod    *PodState
	policy *policyState
}

func (t podPorts) Own(name string, proto policy.Protocol) (uint16, bool) {
	return t.pod.port(name, proto)
}

func (t podPorts) Served(at render.Reach) []render.ServedPort {
	return t.policy.served(at, numbersEach[t.pod.cut])
}
