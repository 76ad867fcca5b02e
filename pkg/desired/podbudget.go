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

// This file enforces the budget of ACLs and bytes that the policies of one pod may take in HNS. If
// a pod is over its budget, the agent first uses fewer numbers of named ports per other namespace,
// because the pod's own namespace does not control these numbers. If that is not enough, it closes
// the largest policies until the others fit. All policies that select a pod are in the pod's own
// namespace, so no other namespace pays for them. A policy that is closed on a pod still isolates
// it, and has no allow rules there.

// numbersEach has the limits of numbers of a named port per namespace other than the policy's own.
// PodState.cut is the index of the limit that holds on a pod.
var numbersEach = [...]int{maxNumbers, 16, 4, 1, 0}

// sizeOn returns the size of the policy's rules on a pod. Without named ports the size is the same
// on every pod, and is computed once.
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

// closedOn returns the policies that select a pod but do not fit into its budget, smallest first. It
// also sets p.cut. Its cost is linear in the number of policies that select the pod, plus the
// length of those with named ports.
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

// closed returns the policies that are closed on at least one pod of this node, or nil.
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

// closedWarnings returns a warning for each policy that is closed on a pod, and for each policy with
// named ports on a pod where the limit of numbers is lower than maxNumbers.
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
					"pods of other namespaces serve its named ports under so many numbers that the policies of a pod need more than %d ACLs (MaxACLsPerPod) or %d bytes "+
						"(MaxACLBytesPerPod): only the lowest numbers of each of these namespaces are accepted, and a ClusterNetworkPolicy that denies or passes the port denies all ports there; "+
						"use port numbers instead of names", d.cfg.Budgets.ACLs, d.cfg.Budgets.ACLBytes)})
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
