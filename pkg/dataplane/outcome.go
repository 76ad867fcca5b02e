package dataplane

import (
	"cmp"
	"slices"
	"time"

	"github.com/winnpm/winnpm/pkg/backoff"
	"github.com/winnpm/winnpm/pkg/state"
)

// outcome ends a run.
func (d *core) outcome(r *run) state.Report {
	d.progress.note("recording", "", "", "")
	now := d.clock
	d.settleDrift()
	d.forgetSubqueues()
	slices.SortFunc(d.ruled, func(a, b state.PodStart) int { return cmp.Compare(a.Pod, b.Pod) })
	rep := state.Report{
		Generation: d.generation,
		Started:    r.started,
		Took:       now.Sub(r.started),
		Busy:       r.busy,
		Objects:    r.tx.Len(),
		Changes:    r.changes.list(),
		Plan:       r.written.String(),
		Calls:      r.calls,
		Pending:    len(d.pending()) + len(d.waiting()),
		Warnings:   d.activeWarnings().warnings(),
		RetryAfter: d.retryAfter(now),
		ProbeAfter: d.probeAfter(now),

		NewEndpoints: d.found,
		Starts:       d.ruled,
		Repairs:      d.drift.TakeRepairs(),
		Spellings:    d.spellings.New(),
		Waiting:      d.outstandingWork(),
		Yielded:      r.yielded,
	}
	if n := len(rep.Waiting); n > 0 {
		rep.Unprogrammed = rep.Waiting[n-1].To
	}
	d.found, d.ruled = nil, nil
	for _, err := range r.errs {
		rep.Errors = append(rep.Errors, err.Error())
	}
	rep.Longest = d.progress.end()
	d.reports = append(d.reports, rep.Clone())
	if len(d.reports) > keptReports {
		d.reports = slices.Delete(d.reports, 0, len(d.reports)-keptReports)
	}
	return rep
}

// outstandingWork returns the transactions of which something is not in HNS
// yet. A pod whose endpoint was not seen does not count: there is nothing to program,
// unless the listing failed, or what it showed is not read yet.
func (d *core) outstandingWork() []state.Span {
	if !d.sets.At.IsZero() || d.setWork.due || d.setWork.held || (d.listing.err != nil || d.hasUnread()) && len(d.waiting()) > 0 {
		return []state.Span{{From: 0, To: d.generation}}
	}
	var all, out []state.Span
	for _, ep := range d.endpoints {
		if ep.pending() {
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

// retryAfter returns when the next thing is due, 0 for nothing.
func (d *core) retryAfter(now time.Time) time.Duration {
	var next backoff.Due
	next.At(d.sets.At)
	next.At(d.listing.retry.At)
	if d.listing.wanted {
		next.At(now)
	}
	if d.setWork.due {
		next.At(now)
	}
	for _, n := range d.unread {
		if n.Tries == 0 {
			next.At(now)
		}
	}
	for _, ep := range d.endpoints {
		if !d.cfg.DryRun && (ep.pending() || !ep.known() || ep.state.check) {
			next.At(cmp.Or(ep.retryAt, now))
		}
	}
	return next.After(now)
}

// probeAfter returns when HNS is asked again for what it refused or could not
// read, 0 for nothing.
func (d *core) probeAfter(now time.Time) time.Duration {
	var next backoff.Due
	if d.cfg.DryRun {
		return 0
	}
	d.setsAgain(&next, now)
	for _, n := range d.unread {
		next.At(n.At)
	}
	for _, ep := range d.endpoints {
		if ep.owner == "" {
			continue
		}
		for _, ref := range ep.refused {
			if ref.At.After(now) {
				next.At(ref.At)
			}
		}
		for _, c := range ep.compromises {
			if c.At.After(now) {
				next.At(c.At)
			}
		}
	}
	if len(d.probes(now))+len(d.tierProbes(now)) > 0 { // what is due and cannot be tried waits for something else
		next.At(now)
	}
	return next.After(now)
}
