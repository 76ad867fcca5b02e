package desired

import (
	"fmt"
	"maps"

	"github.com/winnpm/winnpm/pkg/policy"
	"github.com/winnpm/winnpm/pkg/progress"
	"github.com/winnpm/winnpm/pkg/render"
	"github.com/winnpm/winnpm/pkg/state"
)

// This file enforces the limit of ACLs that the policies of one pod may take in HNS. If a pod is
// over the limit, the agent first uses fewer numbers of named ports per other namespace, because
// the pod's own namespace does not control these numbers. If that is not enough, all NetworkPolicies
// of the pod close on it: they isolate it, and allow nothing. All of them are in the pod's own
// namespace, so no other namespace pays for them.

// numbersEach has the limits of numbers of a named port per namespace other than the policy's own.
// PodState.cut is the index of the limit that holds on a pod.
var numbersEach = [...]int{maxNumbers, 16, 4, 1, 0}

// sizeOn returns the number of ACLs of the policy's rules on a pod. Without named ports it is the
// same on every pod, and is computed once.
func (p *policyState) sizeOn(pod *PodState) int {
	if p.sized > 0 {
		return p.sized
	}
	n := render.SizeOf(&p.Policy, podPorts{pod, p})
	if !p.namesPorts() {
		p.sized = n
	}
	return n
}

// fit sets p.cut and p.closed. Its cost is linear in the number of policies that select the pod,
// plus the length of those with named ports.
func (d *State) fit(p *PodState) {
	for p.cut = 0; ; p.cut++ {
		n := 0
		for _, s := range p.of(policy.Namespaced) {
			n += s.sizeOn(p)
		}
		if p.closed = n > d.cfg.Budgets.ACLs; !p.closed || p.cut == len(numbersEach)-1 {
			return
		}
	}
}

// closedWarnings returns a warning for each policy that is closed on a pod of this node, and for each policy with
// named ports on a pod where the limit of numbers is lower than maxNumbers.
func (d *State) closedWarnings() (out []state.Warning) {
	cut, closed := map[policy.Key]bool{}, map[policy.Key]bool{}
	for _, p := range d.local {
		for _, s := range p.of(policy.Namespaced) {
			closed[s.Key] = closed[s.Key] || p.closed
		}
		if p.cut == 0 {
			continue
		}
		for _, ps := range p.selected {
			if len(ps.views) > 0 && !cut[ps.Key] {
				cut[ps.Key] = true
				object, kind := ObjectOf(ps.Key)
				out = append(out, state.Warning{Object: object, Kind: kind, Reason: state.ReasonOverBudget, Message: fmt.Sprintf(
					"pods of other namespaces serve its named ports under so many numbers that the policies of a pod need more than %d ACLs (MaxACLsPerPod): "+
						"only the lowest numbers of each of these namespaces are accepted, and a ClusterNetworkPolicy that denies or passes the port denies all ports there; "+
						"use port numbers instead of names", d.cfg.Budgets.ACLs)})
			}
		}
	}
	maps.DeleteFunc(closed, func(_ policy.Key, is bool) bool { return !is })
	for key := range closed {
		out = append(out, state.Warning{Object: key.String(), Kind: progress.NetworkPolicy, Reason: state.ReasonOverBudget, Message: fmt.Sprintf(
			"the policies of a pod that it selects come to more than %d ACLs (MaxACLsPerPod), where a long ACL counts as several: "+
				"it isolates that pod and allows nothing. Merge peers, or give ports as ranges", d.cfg.Budgets.ACLs)})
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

// Served returns the numbers of the policy's named ports within a reach.
func (t podPorts) Served(at render.Reach) (out []render.ServedPort) {
	for _, v := range t.policy.views[at] {
		out = append(out, v.served(t.policy.numbersOn(t.pod))...)
	}
	return out
}

// numbersOn returns the limit of numbers per namespace other than the policy's own that holds for
// the policy on a pod. A rule of a ClusterNetworkPolicy has one number at least.
func (p *policyState) numbersOn(pod *PodState) int {
	if p.own() == "" {
		return max(1, numbersEach[pod.cut])
	}
	return numbersEach[pod.cut]
}

// TierWarnings returns a warning for each ClusterNetworkPolicy of which some pod of this
// node has less than it asks for, because the pod has too many ACLs. lists are those of the node.
func (d *State) TierWarnings(lists []*render.TierList) (out []state.Warning) {
	silent := map[policy.Key]bool{}
	for _, l := range lists {
		for _, key := range l.Silent {
			silent[key] = true
		}
	}
	for key := range silent {
		object, kind := ObjectOf(key)
		out = append(out, state.Warning{Object: object, Kind: kind, Reason: state.ReasonOverBudget, Message: fmt.Sprintf(
			"with the other policies of a pod that it selects it comes to more than %d ACLs (MaxACLsPerPod), where a long ACL counts as several: "+
				"only its Deny rules are in force there. Make fewer rules, or order them so that less is passed", d.cfg.Budgets.ACLs)})
	}
	return out
}
