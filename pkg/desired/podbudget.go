package desired

import (
	"fmt"

	"github.com/winnpm/winnpm/pkg/acl"
	"github.com/winnpm/winnpm/pkg/policy"
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
func (ps *policyState) sizeOn(pod *PodState) int {
	if ps.sized > 0 {
		return ps.sized
	}
	n := acl.SizeOf(ps.entries(pod), len(state.ACLID(ps.Key)))
	if !ps.namesPorts() {
		ps.sized = n
	}
	return n
}

// fit sets p.cut and p.closed, and ends p.silent. Its cost is linear in the number of policies that select the pod,
// plus the length of those with named ports.
func (d *State) fit(p *PodState) {
	p.silent = false
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

// policyWarnings returns the warnings of the policies that select pods of this node and need too
// many ACLs or numbers of named ports there. The texts have no counts, because other tenants could
// change them all the time.
func (d *State) policyWarnings() (out []state.Warning) {
	told := map[state.Warning]bool{}
	for _, p := range d.local {
		for _, s := range p.selected {
			if p.cut == 0 && !p.closed && !p.silent && len(s.views) == 0 {
				continue // nothing is over a limit
			}
			for _, message := range d.excesses(p, s.policyState) {
				object, kind := ObjectOf(s.Key)
				w := state.Warning{Object: object, Kind: kind, Reason: state.ReasonOverBudget, Message: message}
				if !told[w] {
					told[w] = true
					out = append(out, w)
				}
			}
		}
	}
	return out
}

// excesses returns the texts of the warnings about a policy that exceeds a limit on a pod.
func (d *State) excesses(p *PodState, ps *policyState) (out []string) {
	limit := d.cfg.Budgets.ACLs
	if p.cut > 0 && len(ps.views) > 0 {
		out = append(out, fmt.Sprintf("pods of other namespaces serve its named ports under so many numbers that the policies of a pod need more than %d ACLs (MaxACLsPerPod): "+
			"only the lowest numbers of each of these namespaces are accepted, and a ClusterNetworkPolicy that denies or passes the port denies all ports there; "+
			"use port numbers instead of names", limit))
	}
	if p.closed && ps.Tier == policy.Namespaced {
		out = append(out, fmt.Sprintf("the policies of a pod that it selects come to more than %d ACLs (MaxACLsPerPod), where a long ACL counts as several: "+
			"it isolates that pod and allows nothing. Merge peers, or give ports as ranges", limit))
	}
	if p.silent && ps.Tier != policy.Namespaced {
		out = append(out, fmt.Sprintf("with the other policies of a pod that it selects it comes to more than %d ACLs (MaxACLsPerPod), where a long ACL counts as several: "+
			"only its Deny rules are in force there. Make fewer rules, or order them so that less is passed", limit))
	}
	if over := ps.overNumbers(); over != "" {
		surplus := "connections to the other numbers are blocked"
		if ps.own() == "" {
			surplus = "the other numbers are not accepted, and a rule that denies or passes the port denies all ports of that namespace"
		}
		out = append(out, fmt.Sprintf("a named port of its egress rules is served under more than %d numbers in one namespace: %s; "+
			"%s; use port numbers instead of names, or serve the port under fewer numbers", maxNumbers, over, surplus))
	}
	return out
}

// overNumbers returns the first view of the policy that is over maxNumbers, "" for none.
func (ps *policyState) overNumbers() (first string) {
	for _, views := range ps.views {
		for _, v := range views {
			if text := v.key.String(); len(v.over) > 0 && (first == "" || text < first) {
				first = text
			}
		}
	}
	return first
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
func (t podPorts) Served(at acl.Reach) (out []acl.ServedPort) {
	for _, v := range t.policy.views[at] {
		out = append(out, v.served(t.policy.numbersOn(t.pod))...)
	}
	return out
}

// numbersOn returns the limit of numbers per namespace other than the policy's own that holds for
// the policy on a pod. A rule of a ClusterNetworkPolicy has one number at least.
func (ps *policyState) numbersOn(pod *PodState) int {
	if ps.own() == "" {
		return max(1, numbersEach[pod.cut])
	}
	return numbersEach[pod.cut]
}
