package endpoints

import (
	"cmp"

	"github.com/winnpm/winnpm/pkg/backoff"
)

// Outstanding counts the endpoints that wait for an update, and the pods whose endpoint was
// not seen.
func (d *State) Outstanding() int { return len(d.pending()) + len(d.Waiting()) }

// Behind reports whether HNS may lack something of an endpoint. A pod whose endpoint was not seen
// does not count: there is nothing to program, unless the enumeration failed, or what it showed is
// not read yet.
func (d *State) Behind() bool {
	return (d.listing.err != nil || d.hasUnread()) && len(d.Waiting()) > 0 || len(d.pending()) > 0
}

// DueAgain adds when endpoints are enumerated, read or written again. With readOnly only
// enumerations and endpoints that nobody has read count.
func (d *State) DueAgain(next *backoff.Due, readOnly bool) {
	next.At(d.listing.retry.At)
	if d.listing.wanted {
		next.At(d.clock)
	}
	for _, n := range d.unread {
		if n.Tries == 0 {
			next.At(d.clock)
		}
	}
	for _, ep := range d.byID {
		if !readOnly && (ep.Pending() || !ep.Known() || ep.state.check) {
			next.At(cmp.Or(ep.retryAt, d.clock))
		}
	}
}

// AskAgain adds when HNS is asked again for what it refused or could not show.
func (d *State) AskAgain(next *backoff.Due) {
	now := d.clock
	for _, n := range d.unread {
		next.At(n.At)
	}
	for _, ep := range d.byID {
		if ep.owner == "" {
			continue
		}
		for _, q := range ep.rejected {
			if q.At.After(now) {
				next.At(q.At)
			}
		}
	}
	if len(d.DueQuarantines(now)) > 0 { // what is due and cannot be tried waits for something else
		next.At(now)
	}
}
