package dataplane

import (
	"slices"
	"time"

	"github.com/winnpm/winnpm/pkg/backoff"
	"github.com/winnpm/winnpm/pkg/state"
)

// record ends a transaction, and returns what it reached.
func (r *run) record() state.Report {
	d := r.d
	d.progress.Note("recording", "", "", "")
	now := d.clock
	d.settleDrift()
	found, starts := d.endpoints.Report()
	rep := state.Report{
		Generation: d.generation,
		Started:    r.started,
		Took:       now.Sub(r.started),
		Busy:       r.busy,
		Objects:    r.tx.Len(),
		Changes:    r.changes.List(),
		Plan:       r.written.String(),
		Calls:      r.calls,
		Pending:    d.endpoints.Outstanding(),
		Warnings:   d.activeWarnings().warnings(),
		Rivals:     d.desired.Rivals(),
		RetryAfter: d.retryAfter(now),
		ProbeAfter: d.probeAfter(now),

		NewEndpoints: found,
		Starts:       starts,
		Repairs:      d.drift.TakeRepairs(),
		Spellings:    d.spellings.New(),
		Waiting:      d.outstandingWork(),
		Yielded:      r.yielded,
	}
	if n := len(rep.Waiting); n > 0 {
		rep.Unprogrammed = rep.Waiting[n-1].To
	}
	for _, err := range r.errs {
		rep.Errors = append(rep.Errors, err.Error())
	}
	rep.Longest = d.progress.End()
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
	if !d.sets.At.IsZero() || d.setWork.due || d.setWork.held || d.endpoints.Missing() {
		return []state.Span{{From: 0, To: d.generation}}
	}
	return d.endpoints.Spans()
}

// retryAfter returns when the next thing is due, 0 for nothing.
func (d *core) retryAfter(now time.Time) time.Duration {
	var next backoff.Due
	next.At(d.sets.At)
	if d.setWork.due {
		next.At(now)
	}
	d.endpoints.DueAgain(&next, d.cfg.DryRun)
	return next.After(now)
}

// nextDue returns when the next transaction is due, zero for never.
func (d *core) nextDue() (at time.Time) {
	now := d.clock
	if after := (state.Report{RetryAfter: d.retryAfter(now), ProbeAfter: d.probeAfter(now)}).Next(); after > time.Millisecond {
		return now.Add(after)
	} else if after > 0 {
		return now
	}
	return time.Time{}
}

// probeAfter returns the time until the agent asks HNS again about an object that HNS rejected or
// that could not be read, or until a lost pod ends. 0 means never.
func (d *core) probeAfter(now time.Time) time.Duration {
	next := backoff.Due{First: d.desired.LostDue()}
	if d.cfg.DryRun {
		return next.After(now)
	}
	d.setsAgain(&next, now)
	d.endpoints.AskAgain(&next)
	return next.After(now)
}
