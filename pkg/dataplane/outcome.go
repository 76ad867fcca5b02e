package dataplane

import (
	"cmp"
	"slices"
	"time"

	"github.com/winnpm/winnpm/pkg/state"
)

// outcome ends a run.
func (d *core) outcome(r *run) state.Report {
	d.progress.note("recording", "", "", "")
	now := d.clock
	d.settleDrift()
	d.forgetSubqueues()
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
		Repairs:      d.drift.repairs,
		Spellings:    d.newSpellings(),
		Waiting:      d.outstandingWork(),
		Yielded:      r.yielded,
	}
	if n := len(rep.Waiting); n > 0 {
		rep.Unprogrammed = rep.Waiting[n-1].To
	}
	d.found, d.drift.repairs = nil, nil
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
	if !d.sets.at.IsZero() || d.setWork.due || d.setWork.held || (d.listing.err != nil || d.hasUnread()) && len(d.waiting()) > 0 {
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
	var next due
	next.at(d.sets.at)
	next.at(d.listing.retry.at)
	if d.listing.wanted {
		next.at(now)
	}
	if d.setWork.due {
		next.at(now)
	}
	for _, n := range d.unread {
		if n.tries == 0 {
			next.at(now)
		}
	}
	for _, ep := range d.endpoints {
		if !d.cfg.DryRun && (ep.pending() || !ep.known() || ep.state.check) {
			next.at(cmp.Or(ep.retryAt, now))
		}
	}
	return next.after(now)
}

// probeAfter returns when HNS is asked again for what it refused or could not
// read, 0 for nothing.
func (d *core) probeAfter(now time.Time) time.Duration {
	var next due
	if d.cfg.DryRun {
		return 0
	}
	d.setsAgain(&next, now)
	for _, n := range d.unread {
		next.at(n.at)
	}
	for _, ep := range d.endpoints {
		if ep.owner == "" {
			continue
		}
		for _, ref := range ep.refused {
			if ref.at.After(now) {
				next.at(ref.at)
			}
		}
		for _, c := range ep.compromises {
			if c.at.After(now) {
				next.at(c.at)
			}
		}
	}
	if len(d.probes(now))+len(d.tierProbes(now)) > 0 { // what is due and cannot be tried waits for something else
		next.at(now)
	}
	return next.after(now)
}
