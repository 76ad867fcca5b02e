package desired

import (
	"slices"

	"github.com/winnpm/winnpm/pkg/ipsets"
	"github.com/winnpm/winnpm/pkg/policy"
)

// A policy is active while it selects a pod of this node (ADR 19). Only then does it have rules,
// hold its sets and use named ports. An idle policy has only its text, the matcher of its subject
// and its warnings: its peers cost this node nothing, however many pods the cluster
// has.

// count adds more to the number of local pods that a policy selects.
func (d *State) count(ps *policyState, more int) {
	ps.selects += more
	d.switched[ps] = struct{}{}
}

// deselect ends the selection of a pod by all policies, because it is not on this node any more
// or has no address.
func (d *State) deselect(p *Placement) {
	for _, s := range p.selected {
		d.count(s.policyState, -1)
	}
	p.selected = nil
}

// activate makes policies active that select a local pod now, and makes policies idle that select
// none any more, for example because they were replaced. The new ones hold their sets, filled,
// before the others release theirs, and before any rule is rendered. It looks at the pods once for
// all new sets. Then it recomputes the numbers of named ports whose pods or namespaces
// changed.
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

// notePolicy notes the present work on a policy.
func (d *State) notePolicy(work string, key policy.Key) {
	if name, is := key.Cluster(); is {
		d.note(work, clusterPolicyKind, "", name)
	} else {
		d.note(work, policyKind, key.Namespace, key.Name)
	}
}

// retire makes a policy idle. It releases the sets that its successor does not mention; the
// others stay held by the same reference.
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
		def, _ := policy.Definition(n) // the definition of a named port has only the name
		def.Name = n
		d.fillNew(def)
	}
}

// fillNew fills a set that is new in the cache.
func (d *State) fillNew(def policy.SetDef) {
	d.members.fillAfter(func(made nameSet) { d.members.define(def, made) })
}

// Release releases sets, and drops the definitions of those without other references.
func (d *State) Release(ref ipsets.Ref, names ...ipsets.Name) {
	for _, n := range names {
		d.cache.Release(n, ref)
		if d.cache.Has(n) {
			continue
		}
		delete(d.members.defs, n)
		if n.Kind() == ipsets.KindNamedPort {
			d.namedPorts.release(n)
		}
	}
}

// id returns a set's id.
func (d *State) id(n ipsets.Name) string { return d.cache.ID(n) }

// DefineOrphans defines the sets that only rules in HNS name, because the policy that mentioned them
// was deleted while no agent ran. They get members as if it still mentioned them, so they change
// together with the other sets of the same rules. The definition ends with the last reference.
func (d *State) DefineOrphans() {
	for _, n := range d.cache.TakeOrphans() {
		if n.Kind() == ipsets.KindNamedPort {
			d.defineUnused(n)
		} else if def, ok := policy.Definition(n); ok && d.ours(def) && d.cache.Define(n) {
			d.fillNew(def)
		}
	}
}

// defineUnused defines the set of a number of a named port that only endpoints name. The number
// counts as unused, as one that went out of use while endpoints named it.
func (d *State) defineUnused(n ipsets.Name) {
	set, ok := d.namedPorts.parse(n)
	if !ok || !d.cache.Define(n) {
		return
	}
	d.fillNew(policy.SetDef{Name: n})
	for _, v := range d.namedPorts.byKey[set.portKey].views {
		d.renderUsers(v, false)
	}
}

// ours reports whether a set in HNS has the members that its name defines. A nested label set of
// the predecessor may have the same name as one of ours and other members. The members of ours are
// fixed; only the permanent one may be missing.
func (d *State) ours(def policy.SetDef) bool {
	if def.Name.Kind() != ipsets.KindNestedLabel {
		return true
	}
	members, exact := d.cache.Contained(def.Name)
	slices.SortFunc(members, ipsets.Compare)
	return exact && slices.Equal(members, slices.SortedFunc(slices.Values(def.Members), ipsets.Compare))
}
