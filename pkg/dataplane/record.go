package dataplane

import (
	"fmt"
	"slices"

	"github.com/winnpm/winnpm/pkg/backoff"
	"github.com/winnpm/winnpm/pkg/endpoints"
	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/pkg/state"
)

// keptReports is how many reports a dump has.
const keptReports = 20

// record ends a transaction, and returns its report.
func (r *run) record() state.Report {
	r.progress.Note("recording", "", "", "")
	if r.setsFailed || r.cache.InDoubt() {
		r.sets.Failed(r.started, r.clock)
	} else {
		r.sets = backoff.Retry{}
	}
	out := r.outstanding()
	rep := state.Report{
		Generation: r.generation,
		Started:    r.started,
		Took:       r.clock.Sub(r.started),
		Busy:       r.busy,
		Objects:    r.tx.Len(),
		Changes:    r.changes,
		Rivals:     r.desired.Rivals(),
		Plan:       r.writtenText(),
		Calls:      r.calls,
		Pending:    out.Pending,
		Waiting:    out.Spans,
		Warnings:   r.warnings(out.Warnings),
		RetryAfter: out.Retry.After(r.clock),
		ProbeAfter: out.Probe.After(r.clock),
	}
	r.endpoints.Report(&rep)
	if n := len(rep.Waiting); n > 0 {
		rep.Unprogrammed = rep.Waiting[n-1].To
	}
	for _, err := range r.errs {
		rep.Errors = append(rep.Errors, err.Error())
	}
	r.progress.move(place{})
	rep.Longest = r.progress.longest
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

// outstanding returns what the node waits for: sets, endpoints and lost pods. A pod whose endpoint
// HNS does not list is no outstanding change, unless endpoints could not be listed or read. It also
// records whether writes of sets are left to the next transaction.
func (n *nodeState) outstanding() endpoints.Outstanding {
	mayWrite := !n.cfg.DryRun && n.sets.Tries == 0 && !n.cache.InDoubt()
	n.due = mayWrite && len(n.planSets()) > 0
	n.held = !n.cache.Settled() && n.cache.HeldBack()
	out := n.endpoints.Outstanding()
	if !n.sets.At.IsZero() || n.due || n.held || out.Missing {
		out.Spans = []state.Span{{From: 0, To: n.generation}}
	}
	out.Retry.At(n.sets.At)
	if n.due {
		out.Retry.At(n.clock)
	}
	if n.cfg.DryRun {
		out.Probe = backoff.Due{First: n.lostDue}
		return out
	}
	out.Probe.At(n.lostDue)
	if n.sets.At.IsZero() { // else nothing is written before
		for _, a := range n.refused {
			out.Probe.At(a.At)
		}
		out.Probe.At(n.readAgain.At)
	}
	if n.cache.HasSpare() && !n.endpoints.Unsettled() { // else nothing is removed
		for _, a := range n.removals {
			out.Probe.At(a.At)
		}
		if spare := n.cache.NextSpare(n.clock.Add(-n.cfg.GracePeriod)); !spare.IsZero() {
			out.Probe.At(spare.Add(n.cfg.GracePeriod))
		}
	}
	return out
}
