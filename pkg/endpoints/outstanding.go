package endpoints

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/winnpm/winnpm/pkg/backoff"
	"github.com/winnpm/winnpm/pkg/desired"
	"github.com/winnpm/winnpm/pkg/state"
)

// Outstanding is what endpoints wait for, and the warnings about them.
type Outstanding struct {
	Pending  int             // endpoints that wait for an update, and pods whose endpoint was not seen
	Oldest   time.Duration   // how long the first of them has waited
	Missing  bool            // pods wait for an endpoint that HNS may have but did not show
	Spans    []state.Span    // the transactions whose changes are not all on endpoints yet
	Retry    backoff.Due     // when endpoints are enumerated, read or written again
	Probe    backoff.Due     // when HNS is asked again about quarantined policies and unread endpoints
	Warnings []state.Warning // in no order
}

// Outstanding returns what the endpoints wait for.
func (d *Table) Outstanding() (out Outstanding) {
	if err := d.listing.err; err != nil {
		out.Warnings = append(out.Warnings, state.Warning{Object: d.cfg.Node, Kind: "Node", Reason: state.ReasonHNSUnavailable, Message: oneLine(err)})
	}
	out.Retry.At(d.listing.retry.At)
	if d.listing.wanted {
		out.Retry.At(d.Clock)
	}
	for id, n := range d.unread {
		if n.Tries == 0 {
			out.Retry.At(d.Clock)
		}
		out.Probe.At(n.At)
		if n.err != nil {
			out.Warnings = append(out.Warnings, state.Warning{Object: id, Kind: "Endpoint", Reason: state.ReasonHNSUnavailable,
				Message: fmt.Sprintf("HNS lists the endpoint and does not show it, so a pod may be without rules: %s", oneLine(n.err))})
		}
	}
	quiet := endpointState{rules: rulesKnown}
	for _, ep := range d.byID {
		if ep.state != quiet || ep.lastErr != nil || len(ep.rejected)+len(ep.ipv6) > 0 {
			d.outstandingAt(ep, &out)
		}
	}
	if len(out.Spans) > 1 {
		out.Spans = merged(out.Spans)
	}
	waiting := d.Waiting()
	for _, p := range waiting {
		out.Pending++
		out.Oldest = max(out.Oldest, d.Clock.Sub(p.Placed))
	}
	out.Missing = len(waiting) > 0 && (d.listing.err != nil || d.hasUnread())
	if len(d.drift.objects) > 0 {
		out.Warnings = d.warnOfDrift(out.Warnings)
	}
	return out
}

// outstandingAt adds what one endpoint waits for.
func (d *Table) outstandingAt(ep *Tracked, out *Outstanding) {
	if ep.Pending() {
		out.Pending++
		out.Oldest = max(out.Oldest, d.Clock.Sub(ep.since))
		out.Spans = append(out.Spans, ep.changedIn)
	}
	if !d.cfg.DryRun && (ep.Pending() || !ep.Known() || ep.state.check) {
		out.Retry.At(cmp.Or(ep.retryAt, d.Clock))
	}
	for _, q := range ep.rejected {
		if untried := q.At.After(d.Clock) || !ep.Pending() && ep.Known(); untried && ep.owner != "" { // else it waits for something else
			out.Probe.At(q.At)
		}
	}
	out.Warnings = d.warn(out.Warnings, ep)
}

// merged returns spans in order. Spans that overlap or touch become one.
func merged(spans []state.Span) (out []state.Span) {
	slices.SortFunc(spans, func(a, b state.Span) int { return cmp.Compare(a.From, b.From) })
	for _, s := range spans {
		if n := len(out); n > 0 && s.From <= out[n-1].To+1 {
			out[n-1].To = max(out[n-1].To, s.To)
		} else {
			out = append(out, s)
		}
	}
	return out
}

// Waiting returns the local pods whose endpoint was not seen yet, by name.
func (d *Table) Waiting() []*desired.PodState {
	var out []*desired.PodState
	for p := range d.desired.Locals() {
		if len(d.byAddr[p.Addr]) == 0 && !p.IsLost() {
			out = append(out, p)
		}
	}
	slices.SortFunc(out, func(a, b *desired.PodState) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return out
}

// Unsettled reports whether there may be unknown endpoints whose rules need sets: the last
// enumeration failed, or was empty although pods run, or listed an endpoint that is not
// read yet.
func (d *Table) Unsettled() bool {
	return d.listing.unsettled || d.listing.err != nil || d.hasUnread()
}

// Report adds what happened since the last report: the endpoints that were seen for the first time,
// the pods that have their rules for the first time, by name, repairs and learned spellings.
func (d *Table) Report(rep *state.Report) {
	rep.NewEndpoints, rep.Starts = d.found, d.ruled
	d.found, d.ruled = nil, nil
	slices.SortFunc(rep.Starts, func(a, b state.PodStart) int { return cmp.Compare(a.Pod, b.Pod) })
	if len(d.drift.objects) > 0 {
		rep.Repairs = d.repairs()
	}
	rep.Spellings = slices.Clone(d.Spellings.list[d.Spellings.told:])
	d.Spellings.told = len(d.Spellings.list)
}

// Count sets the numbers about endpoints.
func (d *Table) Count(s *state.Stats) {
	out := d.Outstanding()
	s.Pending, s.OldestPending, s.Conflicts = out.Pending, out.Oldest, d.conflicts
	for _, ep := range d.byID {
		s.ACLs += len(ep.Actual)
	}
	d.countDrift(s)
}
