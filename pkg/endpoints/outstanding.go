package endpoints

import (
	"cmp"
	"slices"

	"github.com/winnpm/winnpm/pkg/backoff"
	"github.com/winnpm/winnpm/pkg/state"
)

// Outstanding counts the endpoints that wait for an update, and the pods whose endpoint was
// not seen.
func (d *State) Outstanding() int { return len(pending(d.byID)) + len(d.Waiting()) }

// Missing reports whether pods wait for an endpoint that HNS may have and did not show.
func (d *State) Missing() bool {
	return (d.listing.err != nil || d.hasUnread()) && len(d.Waiting()) > 0
}

// Spans returns the transactions of which something is not on endpoints yet.
func (d *State) Spans() (out []state.Span) {
	var all []state.Span
	for _, ep := range d.byID {
		if ep.Pending() {
			all = append(all, ep.changedIn)
		}
	}
	slices.SortFunc(all, func(a, b state.Span) int { return cmp.Compare(a.From, b.From) })
	for _, s := range all {
		if n := len(out); n > 0 && s.From <= out[n-1].To+1 {
			out[n-1].To = max(out[n-1].To, s.To)
		} else {
			out = append(out, s)
		}
	}
	return out
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
