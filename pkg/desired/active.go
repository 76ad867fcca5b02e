package desired

import (
	"slices"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/winnpm/winnpm/pkg/ipsets"
	"github.com/winnpm/winnpm/pkg/policy"
	"github.com/winnpm/winnpm/pkg/progress"
)

// A policy is active while it selects a pod of this node (ADR 19). Only then it has
// rules, holds its sets and uses named ports. An idle one is its text, the matcher of
// its subject and what was left out of it: what its peers are costs this node nothing,
// however many pods the cluster has.

// newPolicyState returns an idle policy.
func newPolicyState(np *networkingv1.NetworkPolicy) *policyState {
	ps := &policyState{Compiled: policy.Compile(np), spec: &np.Spec}
	ps.warnings, ps.ruleCount = wordProblems(ps.Key.String(), progress.NetworkPolicy, ps.Problems, ps.Found), len(ps.Rules)
	ps.Rules, ps.Sets = nil, nil
	return ps
}

// count notes that a policy selects so many local pods more.
func (d *State) count(ps *policyState, more int) {
	ps.selects += more
	if ps.active != (ps.selects > 0) {
		d.switched[ps] = struct{}{}
	}
}

// deselect ends that policies select a pod: it is none of this node's any more,
// or has no address.
func (d *State) deselect(p *Placement) {
	for _, ps := range p.selected {
		d.count(ps, -1)
	}
	for _, s := range p.clusters {
		d.countCluster(s.policy, -1)
	}
	p.selected, p.clusters = nil, nil
}

// activate makes the policies active that came to select a local pod, and idle those that
// select none any more, as one that was replaced. The first hold their sets, full, before
// the others let go of theirs, and before anything is rendered. It looks at the pods once for
// all sets that are new.
func (d *State) activate() {
	var came, went []*policyState
	for ps := range d.switched {
		switch {
		case ps.selects > 0 && !ps.active:
			came = append(came, ps)
		case ps.selects == 0 && ps.active:
			went = append(went, ps)
		}
	}
	clear(d.switched)
	slices.SortFunc(came, func(a, b *policyState) int { return a.Key.Compare(b.Key) })
	made := nameSet{}
	for _, ps := range came {
		d.progress.Note("activating", progress.NetworkPolicy, ps.Key.Namespace, ps.Key.Name)
		ps.compile()
		for _, def := range ps.Sets {
			d.members.define(def, ps.ref(), made)
			d.progress.Piece()
		}
	}
	d.members.fill(made)
	for _, ps := range came {
		d.namedPorts.use(ps)
	}
	for _, ps := range went {
		d.progress.Note("retiring", progress.NetworkPolicy, ps.Key.Namespace, ps.Key.Name)
		d.retire(ps)
	}
}

// compile makes an idle policy active, with its rules and the definitions of its sets.
func (p *policyState) compile() {
	c := policy.Compile(&networkingv1.NetworkPolicy{
		ObjectMeta: metav1.ObjectMeta{Namespace: p.Key.Namespace, Name: p.Key.Name}, Spec: *p.spec,
	})
	p.Rules, p.Sets, p.active = c.Rules, c.Sets, true
}

// retire makes a policy idle. Its sets that its successor mentions stay held,
// by the same reference.
func (d *State) retire(ps *policyState) {
	d.namedPorts.leave(ps)
	sets := ps.Sets
	ps.Rules, ps.Sets, ps.group, ps.sized, ps.active = nil, nil, nil, 0, false
	var left []ipsets.Name
	is := d.policies[ps.Key]
	for _, def := range sets {
		if is == nil || !defined(is.Sets, def.Name) {
			left = append(left, def.Name)
		}
	}
	d.Release(ps.ref(), left...)
}

// defined reports whether a set is among definitions, which are sorted by name. An idle
// policy has none.
func defined(defs []policy.SetDef, n ipsets.Name) bool {
	_, ok := slices.BinarySearchFunc(defs, n, func(def policy.SetDef, n ipsets.Name) int {
		return ipsets.Compare(def.Name, n)
	})
	return ok
}
