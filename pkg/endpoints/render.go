package endpoints

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/winnpm/winnpm/pkg/acl"

	"github.com/winnpm/winnpm/pkg/ipsets"
	"github.com/winnpm/winnpm/pkg/policy"
	"github.com/winnpm/winnpm/pkg/progress"
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

// mark has an endpoint rendered again, because policies changed or, with none,
// something else.
func (d *State) mark(ep *Endpoint, by ...policy.Key) {
	d.dirty[ep] = append(d.dirty[ep], by...)
}

// settleCauses leaves of several policies the one that the fewest endpoints
// are marked for: a policy on all pods does not make one on a single pod wait.
func (d *State) settleCauses() {
	marks := map[policy.Key]int{}
	for _, by := range d.dirty {
		for _, key := range by {
			marks[key]++
		}
	}
	for ep, by := range d.dirty {
		if len(by) > 1 {
			d.dirty[ep] = []policy.Key{slices.MinFunc(by, func(a, b policy.Key) int {
				return cmp.Or(cmp.Compare(marks[a], marks[b]), a.Compare(b))
			})}
		}
	}
}

// render computes what an endpoint should have, holds the sets that this
// needs, and queues or unqueues the update.
func (d *State) render(ep *Endpoint) {
	defer d.progress.Within("rendering", progress.Endpoint, "", ep.ID)()
	before := d.listFor(ep)
	home := d.desired.Home(ep.addrs)
	ep.desired = acl.List{}
	ep.owner = ""
	if len(home) > 0 {
		ep.owner = home[0].UID
		ep.bearFor(home[0])
		ep.desired = d.desired.ListOf(home, len(ep.ipv6) > 0)
	}
	d.hold(ep, ipsets.RefRule, ep.desired.Names())
	ep.forgetChanged()
	if !slices.Equal(before, d.listFor(ep)) {
		ep.tries, ep.retryAt, ep.repair = 0, time.Time{}, false // due at once
		ep.endBisection()
		if ep.changedIn.To = d.generation; !ep.Pending() {
			ep.changedIn.From = d.generation
		}
		by := d.dirty[ep]
		if len(by) > 0 {
			ep.changedBy = by[0]
		}
		if len(by) > 0 || d.cause(ep).subqueue() != ep.subqueue {
			d.rejoin(ep)
		}
	}
	d.Queue(ep)
}
