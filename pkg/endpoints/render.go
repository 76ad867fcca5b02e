package endpoints

import (
	"cmp"
	"maps"
	"slices"

	"github.com/winnpm/winnpm/pkg/ipsets"
)

// RenderDirty renders the marked endpoints, in order: it decides whose turn
// comes first.
func (d *State) RenderDirty() {
	if len(d.dirty) == 0 {
		return
	}
	d.settleCauses()
	for _, ep := range slices.SortedFunc(maps.Keys(d.dirty), func(a, b *Endpoint) int { return cmp.Compare(a.ID, b.ID) }) {
		d.render(ep)
	}
	clear(d.dirty)
}

// MarkHolders marks the endpoints whose rules name a set, desired or actual.
func (d *State) MarkHolders(n ipsets.Name) {
	for _, ref := range d.cache.Refs(n) {
		if ep := d.byID[ref.Owner]; ep != nil && (ref.Kind == ipsets.RefRule || ref.Kind == ipsets.RefApplied) {
			d.mark(ep)
		}
	}
}
