package desired

import (
	"slices"

	"github.com/winnpm/winnpm/pkg/ipsets"
	"github.com/winnpm/winnpm/pkg/policy"
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
// all sets that are new. At last it finds the numbers of named ports whose pods or namespaces are
// others now.
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
		d.notePolicy("activating", ps.Key)
		c := ps.compile()
		ps.Rules, ps.Sets, ps.active = c.Rules, c.Sets, true
		for _, def := range ps.Sets {
			if d.cache.Hold(def.Name, ps.ref()) {
				d.members.define(def, made)
			}
		}
	}
	d.members.fill(made)
	for _, ps := range came {
		d.namedPorts.use(ps)
	}
	for _, ps := range went {
		d.notePolicy("retiring", ps.Key)
		d.retire(ps)
	}
	d.namedPorts.settle()
}

// notePolicy notes what is being done to a policy.
func (d *State) notePolicy(work string, key policy.Key) {
	if name, is := key.Cluster(); is {
		d.note(work, clusterPolicyKind, "", name)
	} else {
		d.note(work, policyKind, key.Namespace, key.Name)
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

// Hold holds a set, and fills it if it was not there.
func (d *State) Hold(n ipsets.Name, ref ipsets.Ref) {
	if d.cache.Hold(n, ref) {
		def, _ := policy.Definition(n) // of a named port it has nothing but the name
		def.Name = n
		d.fillNew(def)
	}
}

// fillNew fills a set that is new in the cache.
func (d *State) fillNew(def policy.SetDef) {
	d.members.fillAfter(func(made nameSet) { d.members.define(def, made) })
}

// Release lets go of sets, and of their definitions when nobody is left.
func (d *State) Release(ref ipsets.Ref, names ...ipsets.Name) {
	for _, n := range names {
		d.cache.Release(n, ref)
		if d.cache.Has(n) {
			continue
		}
		delete(d.members.defs, n)
		delete(d.namedPorts.sets, n)
	}
}

// id returns a set's id.
func (d *State) id(n ipsets.Name) string { return d.cache.ID(n) }

// DefineOrphans defines the sets that only rules in HNS name, since the policy that mentioned them
// went while no process ran: they are fed as if it still mentioned them, and move with the sets
// that the same rules name. What ends the definition is the last reference.
func (d *State) DefineOrphans() {
	for _, n := range d.cache.TakeOrphans() {
		if n.Kind() == ipsets.KindNamedPort {
			d.defineUnused(n)
		} else if def, ok := policy.Definition(n); ok && d.ours(def) && d.cache.Define(n) {
			d.fillNew(def)
		}
	}
}

// defineUnused feeds the set of a number that only endpoints name. The number counts as unused,
// as one that went out of use while endpoints named it.
func (d *State) defineUnused(n ipsets.Name) {
	set, ok := d.namedPorts.parse(n)
	if !ok || !d.cache.Define(n) {
		return
	}
	d.fillNew(policy.SetDef{Name: n})
	if f := d.namedPorts.byKey[set.portKey]; f != nil {
		for _, v := range f.views {
			d.namedPorts.tell(v)
		}
	}
}

// ours reports whether HNS has in a set what the definition of its name says. A nested label set
// of the predecessor may bear a name of ours: its members are others. Ours are fixed, and the
// permanent one may be missing.
func (d *State) ours(def policy.SetDef) bool {
	if def.Name.Kind() != ipsets.KindNestedLabel {
		return true
	}
	members, exact := d.cache.Contained(def.Name)
	slices.SortFunc(members, ipsets.Compare)
	return exact && slices.Equal(members, slices.SortedFunc(slices.Values(def.Members), ipsets.Compare))
}
