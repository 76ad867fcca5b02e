package endpoints

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/winnpm/winnpm/pkg/acl"
	"github.com/winnpm/winnpm/pkg/ipsets"
)

// RenderDirty renders the marked endpoints in order of their GUIDs, because the order decides
// their turns in the queue.
func (d *State) RenderDirty() {
	if len(d.dirty) == 0 {
		return
	}
	for _, ep := range slices.SortedFunc(maps.Keys(d.dirty), func(a, b *Endpoint) int { return cmp.Compare(a.ID, b.ID) }) {
		d.render(ep)
	}
	clear(d.dirty)
}

// MarkHolders marks the endpoints whose rules name a set, desired or actual.
func (d *State) MarkHolders(n ipsets.Name) {
	for _, ref := range d.cache.Refs(n) {
		if ep := d.byID[ref.Owner]; ep != nil && (ref.Kind == ipsets.RefRule || ref.Kind == ipsets.RefActual) {
			d.mark(ep)
		}
	}
}

// mark marks an endpoint to be rendered again.
func (d *State) mark(ep *Endpoint) { d.dirty[ep] = true }

// render computes the desired rules of an endpoint, holds the sets that they
// name, and queues or unqueues the update.
func (d *State) render(ep *Endpoint) {
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
		if ep.Pending() && ep.flow != d.flowOf(ep) {
			d.Join(ep)
		}
	}
	d.Queue(ep)
}
