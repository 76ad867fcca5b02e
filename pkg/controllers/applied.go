package controllers

import (
	"time"

	"k8s.io/klog/v2"

	"github.com/winnpm/winnpm/pkg/state"
)

// appliedLog writes log lines about transactions. Where HNS is fast there are dozens of
// transactions in a second. One that comes soon after a line is summed up in the next
// line, unless it had errors, or began or ended that something is outstanding.
type appliedLog struct {
	every     time.Duration // one line in so long
	last      time.Time     // the last line
	converged bool          // as it said

	transactions, objects int // since then
	calls                 map[string]int
	took                  time.Duration
}

// add takes one transaction.
func (l *appliedLog) add(logger klog.Logger, r state.Report, now time.Time) {
	if l.calls == nil {
		l.calls = map[string]int{}
	}
	l.transactions++
	l.objects += r.Objects
	l.took += r.Took
	for op, calls := range r.Calls {
		l.calls[op] += calls
	}
	if now.Sub(l.last) < l.every && len(r.Errors) == 0 && r.Converged() == l.converged {
		return
	}
	logger.Info("applied", "generation", r.Generation, "transactions", l.transactions, "objects", l.objects, "calls", l.calls,
		"pending", r.Pending, "warnings", len(r.Warnings), "errors", r.Errors, "took", l.took)
	*l = appliedLog{every: l.every, last: now, converged: r.Converged()}
}
