package endpoints

import (
	"cmp"
	"net/netip"
	"slices"
	"time"

	"github.com/winnpm/winnpm/pkg/desired"
	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/pkg/ipsets"
	"github.com/winnpm/winnpm/pkg/policy"
	"github.com/winnpm/winnpm/pkg/state"
)

// read replaces the recorded state of an endpoint by the state that a read showed, and creates the
// state of a new endpoint. If the rules were known before, changes of our rules are drift.
func (d *Table) read(e hns.Endpoint) *Tracked {
	ep := d.byID[e.ID]
	if ep == nil {
		ep = &Tracked{
			ID: e.ID, holds: map[ipsets.RefKind][]ipsets.Name{},
			rejected:  map[policy.Key]quarantine{},
			changedIn: state.Span{From: d.generation, To: d.generation}, // also for an endpoint that has our rules and should have none
		}
		d.byID[e.ID] = ep
		for _, addr := range desired.IPv4(e.Addrs) {
			d.found = append(d.found, state.EndpointSeen{ID: e.ID, Addr: addr.String()})
		}
	}
	d.address(ep, desired.IPv4(e.Addrs))
	ep.ipv6 = slices.DeleteFunc(slices.Clone(e.Addrs), netip.Addr.Is4)
	ep.netns = e.Netns
	parts := e.Parts(d.Spellings.ours)
	if ep.Known() {
		d.foundACLs(ep, parts.Ours)
	}
	if lists := ep.possible(); len(lists) > 0 && !ep.leavesOpen(lists[0], ep.shield()) { // by its last known list
		ep.exposed = true
	}
	ep.exposed = ep.exposed && ep.leavesOpen(parts.Ours, ep.shield())
	if now := d.Clock; ep.exposed && now.Sub(d.lost) >= d.cfg.LookPeriod { // not each time that another program removes it
		d.lost = now
	}
	ep.state.rules = rulesKnown
	ep.blind = 0
	ep.seen = d.Clock
	d.fresh[ep.ID] = &e
	ep.foreign, ep.open = parts.Foreign, parts.Defaults
	d.applied(ep, parts.Ours, hns.Basis(e.Addrs, parts.Ours, ep.open))
	return ep
}

// address replaces the addresses of an endpoint.
func (d *Table) address(ep *Tracked, addrs []netip.Addr) {
	for _, addr := range ep.addrs {
		d.byAddr[addr] = slices.DeleteFunc(d.byAddr[addr], func(o *Tracked) bool { return o == ep })
		if len(d.byAddr[addr]) == 0 {
			delete(d.byAddr, addr)
		}
	}
	ep.addrs = addrs
	for _, addr := range addrs {
		d.byAddr[addr] = append(d.byAddr[addr], ep)
	}
}

// applied records the actual rules of an endpoint, and its version with
// them.
func (d *Table) applied(ep *Tracked, acls []hns.ACL, version hns.Version) {
	if slices.Equal(acls, ep.list) {
		acls = ep.list // once in memory
	}
	ep.Actual, ep.Version, ep.attempts = acls, version, nil
	d.hold(ep, ipsets.RefActual, namesOf(d.cache.Lookup, acls))
}

// unknown records a write with an unknown outcome: the endpoint may now have this list, or any
// that it may have had before. Only pins hold the sets of these lists until the endpoint is read.
// As that may never happen, a list that is tried again is kept once.
func (d *Table) unknown(ep *Tracked, list []hns.ACL) {
	ep.attempts = ep.possible()
	if !slices.ContainsFunc(ep.attempts, func(other []hns.ACL) bool { return slices.Equal(other, list) }) {
		ep.attempts = append(slices.Clip(ep.attempts), list)
	}
	ep.Actual, ep.Version = nil, ""
	delete(d.fresh, ep.ID)
	ep.state.brokeOff()
	d.pin(ep)
	d.hold(ep, ipsets.RefActual, nil)
}

// gone drops the state of an endpoint that no longer exists.
func (d *Table) gone(id string) {
	ep := d.byID[id]
	if ep == nil {
		return
	}
	delete(d.byID, id)
	delete(d.fresh, id)
	delete(d.dirty, ep)
	d.leave(ep)
	if home := d.desired.Home(ep.addrs); len(home) > 0 && !home[0].IsLost() {
		d.listSoon()
	}
	d.address(ep, nil)
	for kind := range ep.holds {
		d.hold(ep, kind, nil)
	}
	d.cache.See(id, ipsets.SeesActual)
}

// HasAddr reports whether HNS has an endpoint with an address. It also returns true while this is
// unknown, because the endpoints could not be listed or some of them are unread.
func (d *Table) HasAddr(addr netip.Addr) bool {
	return len(d.byAddr[addr]) > 0 || len(d.unread) > 0 || d.listing.err != nil || d.listing.unsettled
}

// TakeLook records the result of a look at an endpoint. If the look failed, the next transaction
// reads the endpoint.
func (d *Table) TakeLook(id string, e hns.Endpoint, err error) {
	switch ep := d.byID[id]; {
	case ep == nil:
	case err != nil:
		ep.seen, ep.state.check = d.Clock, true
	default:
		d.TakeRead(id, e, nil)
	}
}

// Oldest returns the endpoint that was read longest ago, "" for none, when that was, and the
// number of endpoints that need looks. Endpoints that a transaction will read do not.
func (d *Table) Oldest() (id string, seen time.Time, n int) {
	var oldest *Tracked
	for _, ep := range d.byID {
		if ep.Pending() || !ep.Known() || ep.state.check {
			continue
		}
		n++
		if oldest == nil || cmp.Or(ep.seen.Compare(oldest.seen), cmp.Compare(ep.ID, oldest.ID)) < 0 {
			oldest = ep
		}
	}
	if oldest == nil {
		return "", time.Time{}, 0
	}
	return oldest.ID, oldest.seen, n
}

// LookAge returns the time since the oldest last read of a known endpoint.
func (d *Table) LookAge() (age time.Duration) {
	for _, ep := range d.byID {
		if ep.Known() {
			age = max(age, d.Clock.Sub(ep.seen))
		}
	}
	return age
}

// Lost returns when an endpoint was last found without its block.
func (d *Table) Lost() time.Time { return d.lost }
