package endpoints

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/winnpm/winnpm/pkg/acl"
	"github.com/winnpm/winnpm/pkg/desired"
	"github.com/winnpm/winnpm/pkg/ipsets"
)

// Render applies the effects of a change of the desired state: it starts the search for the
// endpoints of new pods, marks endpoints to be read again, and renders those whose rules may have
// changed, in order of their GUIDs, because the order decides their turns in the queue.
func (d *Table) Render(came desired.Effects) {
	for _, p := range came.Came {
		d.seek(p)
	}
	for addr := range came.Check {
		for _, ep := range d.byAddr[addr] {
			ep.state.check = true
		}
	}
	for addr := range came.Changed {
		for _, ep := range d.byAddr[addr] {
			d.dirty[ep] = true
		}
	}
	for _, ep := range d.byID {
		if came.All {
			d.dirty[ep] = true
		}
	}
	for _, ep := range slices.SortedFunc(maps.Keys(d.dirty), func(a, b *Tracked) int { return cmp.Compare(a.ID, b.ID) }) {
		d.render(ep)
	}
	clear(d.dirty)
}

// MarkHolders marks the endpoints whose rules name a set, desired or actual.
func (d *Table) MarkHolders(n ipsets.Name) {
	for _, ref := range d.cache.Refs(n) {
		if ep := d.byID[ref.Owner]; ep != nil && (ref.Kind == ipsets.RefRule || ref.Kind == ipsets.RefActual) {
			d.dirty[ep] = true
		}
	}
}

// render computes the desired rules of an endpoint, holds the sets that they
// name, and queues or unqueues the update.
func (d *Table) render(ep *Tracked) {
	d.relist(ep) // other defaults of the CNI, or sets that HNS rejects now, are no change of the desired rules
	before := ep.list
	home := d.desired.Home(ep.addrs)
	ep.desired = acl.List{}
	ep.owner = ""
	if len(home) > 0 {
		ep.owner = home[0].UID
		if ep.bornFor == "" {
			ep.bearFor(home[0])
		}
		ep.desired = d.desired.ListOf(home, len(ep.ipv6) > 0)
	}
	d.hold(ep, ipsets.RefRule, ep.desired.Names())
	if len(ep.rejected) > 0 {
		ep.forgetChanged()
	}
	if d.relist(ep); !slices.Equal(before, ep.list) {
		ep.tries, ep.retryAt, ep.repair = 0, time.Time{}, false // due at once
		if ep.Bisecting() {
			ep.endBisection()
		}
		if ep.changedIn.To = d.generation; !ep.Pending() {
			ep.changedIn.From = d.generation
		}
		if ep.Pending() && ep.flow != d.flowOf(ep) {
			d.Join(ep)
		}
	}
	d.Queue(ep)
}
