package desired

import (
	"maps"
	"slices"

	"github.com/winnpm/winnpm/pkg/ipsets"
	"github.com/winnpm/winnpm/pkg/policy"
)

// DefineOrphans defines the sets that only rules in HNS name, since the
// policy that mentioned them went while no process ran: they are fed as if it
// still mentioned them, and move with the sets that the same rules name. What
// ends the definition is the last reference.
func (d *State) DefineOrphans() {
	for _, n := range d.cache.TakeOrphans() {
		if n.Kind() == ipsets.KindNamedPort {
			d.namedPorts.define(n)
		} else if def, ok := policy.Definition(n); ok && d.ours(def) {
			d.members.restore(def)
		}
	}
}

// RestoreOrphans defines the sets that only rules in HNS named when a dump was made, and
// that were fed. They need not be in HNS as their names say: it may refuse a member, or
// have lost a set. They are held until the caller lets go, which it does once what names
// them holds them.
func (d *State) RestoreOrphans(fed []ipsets.Name) (letGo func()) {
	ref := ipsets.Ref{Kind: ipsets.RefSelector, Owner: "restored"} // no policy's key
	held, made := nameSet{}, nameSet{}                             // a dump may name one twice
	for _, n := range fed {
		if !held[n] && d.restoreOrphan(n, ref, made) {
			held[n] = true
		}
	}
	d.members.fill(made)
	return func() { d.Release(ref, slices.Collect(maps.Keys(held))...) }
}

// restoreOrphan defines one set, if its name tells what belongs into it. Leaves that this
// made and that are not filled yet are put to made.
func (d *State) restoreOrphan(n ipsets.Name, ref ipsets.Ref, made nameSet) bool {
	if n.Kind() == ipsets.KindNamedPort {
		return d.namedPorts.hold(n, ref)
	}
	def, ok := policy.Definition(n)
	if ok {
		d.members.define(def, ref, made)
	}
	return ok
}

// ours reports whether HNS has in a set what the definition of its name says. A
// nested label set of the predecessor may bear a name of ours: its members are
// others. Ours are fixed, and the permanent one may be missing.
func (d *State) ours(def policy.SetDef) bool {
	if def.Name.Kind() != ipsets.KindNestedLabel {
		return true
	}
	members, exact := d.cache.Contained(def.Name)
	slices.SortFunc(members, ipsets.Compare)
	return exact && slices.Equal(members, slices.SortedFunc(slices.Values(def.Members), ipsets.Compare))
}
