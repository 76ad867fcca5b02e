package desired

import (
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
