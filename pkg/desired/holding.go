package desired

import (
	"slices"

	"github.com/winnpm/winnpm/pkg/ipsets"
	"github.com/winnpm/winnpm/pkg/policy"
)

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
		if n.Kind() == ipsets.KindNamedPort {
			d.namedPorts.forget(n)
		}
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
			d.namedPorts.define(n)
		} else if def, ok := policy.Definition(n); ok && d.ours(def) && d.cache.Define(n) {
			d.fillNew(def)
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
