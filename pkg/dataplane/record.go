package dataplane

import (
	"fmt"
	"slices"
	"time"

	"github.com/winnpm/winnpm/pkg/backoff"
	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/pkg/state"
)

// keptReports is how many reports a dump has.
const keptReports = 20

// record ends a transaction, and returns its report.
func (r *run) record() state.Report {
	r.progress.Note("recording", "", "", "")
	if r.setsFailed || r.inDoubt() {
		r.sets.Failed(r.started, r.clock)
	} else {
		r.sets = backoff.Retry{}
	}
	r.planLater()
	found, starts := r.endpoints.Report()
	rep := state.Report{
		Generation: r.generation,
		Started:    r.started,
		Took:       r.clock.Sub(r.started),
		Busy:       r.busy,
		Objects:    r.tx.Len(),
		Changes:    r.changes.List(),
		Plan:       r.writtenText(),
		Calls:      r.calls,
		Pending:    r.endpoints.Outstanding(),
		Repairs:    r.endpoints.Repairs(),
		Warnings:   r.warnings(),
		Rivals:     r.desired.Rivals(),
		RetryAfter: r.retryAfter(),
		ProbeAfter: r.probeAfter(),

		NewEndpoints: found,
		Starts:       starts,
		Spellings:    r.endpoints.Spellings.New(),
		Waiting:      r.waiting(),
	}
	if n := len(rep.Waiting); n > 0 {
		rep.Unprogrammed = rep.Waiting[n-1].To
	}
	for _, err := range r.errs {
		rep.Errors = append(rep.Errors, err.Error())
	}
	rep.Longest = r.progress.End()
	r.reports = append(r.reports, rep)
	if len(r.reports) > keptReports {
		r.reports = slices.Delete(r.reports, 0, len(r.reports)-keptReports)
	}
	return rep
}

// writtenText counts in one line the objects that HNS was asked to write; empty for none.
func (r *run) writtenText() string {
	if len(r.written) == 0 {
		return ""
	}
	count := map[hns.Verb]int{}
	for w := range r.written {
		count[w.verb]++
	}
	return fmt.Sprintf("sets +%d ~%d -%d, endpoints %d", count[hns.Add], count[hns.Update], count[hns.Remove], count[""])
}

// waiting returns the transactions whose changes are not all in HNS. A pod whose endpoint HNS does not
// list does not count, unless endpoints could not be listed or read.
func (n *nodeState) waiting() []state.Span {
	if !n.sets.At.IsZero() || n.due || n.held || n.endpoints.Missing() {
		return []state.Span{{From: 0, To: n.generation}}
	}
	return n.endpoints.Spans()
}

// retryAfter returns the time until outstanding work is tried again, 0 for none.
func (n *nodeState) retryAfter() time.Duration {
	next := backoff.Due{First: n.sets.At}
	if n.due {
		next.At(n.clock)
	}
	n.endpoints.DueAgain(&next, n.cfg.DryRun)
	return next.After(n.clock)
}

// probeAfter returns the time until the agent asks HNS again about an object that HNS rejected or
// that could not be read, until it removes an unused set, or until a lost pod ends. 0 means never.
func (n *nodeState) probeAfter() time.Duration {
	next := backoff.Due{First: n.desired.LostDue()}
	if n.cfg.DryRun {
		return next.After(n.clock)
	}
	if n.sets.At.IsZero() { // else nothing is written before
		for _, a := range n.refused {
			next.At(a.At)
		}
		next.At(n.readAgain.At)
	}
	if !n.endpoints.Unsettled() { // else nothing is removed
		for _, a := range n.removals {
			next.At(a.At)
		}
		if spare := n.cache.NextSpare(n.clock.Add(-n.cfg.GracePeriod)); !spare.IsZero() {
			next.At(spare.Add(n.cfg.GracePeriod))
		}
	}
	n.endpoints.AskAgain(&next)
	return next.After(n.clock)
}

// nextDue returns when the next empty transaction is due, zero for never.
func (n *nodeState) nextDue() time.Time {
	after := (state.Report{RetryAfter: n.retryAfter(), ProbeAfter: n.probeAfter()}).Next()
	switch {
	case after > time.Millisecond:
		return n.clock.Add(after)
	case after > 0:
		return n.clock
	}
	return time.Time{}
}
