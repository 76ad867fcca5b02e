package desired

import (
	"github.com/winnpm/winnpm/pkg/ipsets"
	"github.com/winnpm/winnpm/pkg/policy"
)

// Release lets go of sets, and of their definitions when nobody is left.
func (d *State) Release(ref ipsets.Ref, names ...ipsets.Name) {
	gone := nameSet{}
	for _, n := range names {
		d.cache.Release(n, ref)
		if d.cache.Has(n) {
			continue
		}
		gone[n] = true
		if n.Kind() == ipsets.KindNamedPort {
			d.namedPorts.forget(n)
		}
	}
	d.members.undefine(gone)
}

// fill fills a set that was just defined.
func (d *State) fill(n ipsets.Name) {
	if n.Kind() == ipsets.KindNamedPort {
		d.namedPorts.fill(n)
	} else if def, is := inside(n); is { // only rules name it
		d.members.fillNew(def)
	} else {
		d.members.fill(nameSet{n: true})
	}
}

// Hold holds a set, and fills it if it was not there.
func (d *State) Hold(n ipsets.Name, ref ipsets.Ref) {
	if d.cache.Hold(n, ref) {
		d.fill(n)
		d.progress.Piece()
	}
}

// id returns a set's id.
func (d *State) id(n ipsets.Name) string { return d.cache.ID(n) }

// inside returns the definition of a set of the addresses in blocks.
func inside(n ipsets.Name) (policy.SetDef, bool) {
	if n.Kind() != ipsets.KindInBlocks {
		return policy.SetDef{}, false
	}
	return policy.Definition(n)
}
