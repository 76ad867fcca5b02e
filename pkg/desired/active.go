package desired

import (
	"slices"

	"github.com/winnpm/winnpm/pkg/ipsets"
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

// retire makes a policy idle. It releases its sets, but for those that its successor
// mentions: these stay held, by the same reference.
func (d *State) retire(ps *policyState) {
	d.namedPorts.leave(ps)
	successor := map[ipsets.Name]bool{}
	if is := d.policies[ps.Key]; is != nil && is != ps { // an idle policy has no sets
		for _, def := range is.Sets {
			successor[def.Name] = true
		}
	}
	var left []ipsets.Name
	for _, def := range ps.Sets {
		if !successor[def.Name] {
			left = append(left, def.Name)
		}
	}
	ps.Rules, ps.Sets, ps.acls, ps.sized, ps.active = nil, nil, nil, 0, false
	d.Release(ps.ref(), left...)
}
