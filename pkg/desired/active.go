package desired

import (
	"slices"

	"github.com/winnpm/winnpm/pkg/ipsets"
	"github.com/winnpm/winnpm/pkg/policy"
	"github.com/winnpm/winnpm/pkg/progress"
)

// A policy is active while it selects a pod of this node (ADR 19). Only then it has
// rules, holds its sets and uses named ports. An idle one is its text, the matcher of
// its subject and what was left out of it: what its peers are costs this node nothing,
// however many pods the cluster has.

// count notes that a policy selects so many local pods more.
func (d *State) count(ps *policyState, more int) {
	ps.selects += more
	d.switched[ps] = struct{}{}
}

// deselect ends that policies select a pod: it is none of this node's any more,
// or has no address.
func (d *State) deselect(p *Placement) {
	for _, s := range p.selected {
		d.count(s.policyState, -1)
	}
	p.selected = nil
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
	slices.SortFunc(came, func(a, b *policyState) int { return a.Compare(&b.Policy) })
	made := nameSet{}
	for _, ps := range came {
		d.note("activating", ps)
		ps.compile()
		d.hold(ps.Sets, ps.ref(), made)
	}
	d.members.fill(made)
	for _, ps := range came {
		d.namedPorts.use(ps)
	}
	for _, ps := range went {
		d.note("retiring", ps)
		d.retire(ps)
	}
}

// note tells what is being done to a policy.
func (d *State) note(doing string, ps *policyState) {
	if name, is := ps.Key.Cluster(); is {
		d.progress.Note(doing, progress.ClusterNetworkPolicy, "", name)
	} else {
		d.progress.Note(doing, progress.NetworkPolicy, ps.Key.Namespace, ps.Key.Name)
	}
}

// hold defines the sets of a policy that becomes active.
func (d *State) hold(defs []policy.SetDef, ref ipsets.Ref, made nameSet) {
	for _, def := range defs {
		d.members.define(def, ref, made)
		d.progress.Piece()
	}
}

// letGo releases the sets of a policy that becomes idle, but for those that its successor
// mentions: these stay held, by the same reference.
func (d *State) letGo(defs []policy.SetDef, ref ipsets.Ref, successor []policy.SetDef) {
	var left []ipsets.Name
	for _, def := range defs {
		if !defined(successor, def.Name) {
			left = append(left, def.Name)
		}
	}
	d.Release(ref, left...)
}

// retire makes a policy idle.
func (d *State) retire(ps *policyState) {
	d.namedPorts.leave(ps)
	sets := ps.Sets
	ps.Rules, ps.Sets, ps.group, ps.sized, ps.active = nil, nil, nil, 0, false
	var successor []policy.SetDef
	if is := d.policies[ps.Key]; is != nil {
		successor = is.Sets
	}
	d.letGo(sets, ps.ref(), successor)
}

// defined reports whether a set is among definitions, which are sorted by name. An idle
// policy has none.
func defined(defs []policy.SetDef, n ipsets.Name) bool {
	_, ok := slices.BinarySearchFunc(defs, n, func(def policy.SetDef, n ipsets.Name) int {
		return ipsets.Compare(def.Name, n)
	})
	return ok
}
