package metrics

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/winnpm/winnpm/pkg/controllers"
	"github.com/winnpm/winnpm/pkg/policy"
	"github.com/winnpm/winnpm/pkg/state"
)

// transactions are the metrics of what the worker does. One transaction handles
// everything that came in since the last, so its time is that of each of them.
type transactions struct {
	programmed   prometheus.Histogram
	addPolicy    *prometheus.SummaryVec            // by had_error
	byKind       map[string]*prometheus.SummaryVec // by operation and had_error
	warningGauge *prometheus.GaugeVec              // by reason

	warningsMu sync.Mutex      // guards following, and the gauge against halves of two reports
	reasons    map[string]bool // that have a series
}

// newTransactions returns the metrics by reference, because of their lock.
func newTransactions() *transactions {
	t := &transactions{
		programmed: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "npm_event_to_programmed_seconds",
			Help:    "Time from an event of the API server until all that follows from it is in HNS.",
			Buckets: prometheus.ExponentialBuckets(0.016, 2, 16), // to 8.7 minutes
		}),
		addPolicy: newMillisVec("npm_add_policy_exec_time",
			"Milliseconds of the transaction that brought a new or changed policy in.", "had_error"),
		byKind: map[string]*prometheus.SummaryVec{},
		warningGauge: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "npm_warnings",
			Help: "Active warnings: what users asked for and HNS does not have, left out or not programmed yet.",
		}, []string{"reason"}),
		reasons: map[string]bool{},
	}
	for _, kind := range []string{"pod", "namespace", "policy"} {
		t.byKind[kind] = newMillisVec("npm_controller_"+kind+"_exec_time",
			"Milliseconds of the transaction that brought the change of a "+kind+" in.", "operation", "had_error")
	}
	for _, hadError := range []string{no, yes} {
		t.addPolicy.WithLabelValues(hadError)
		for _, summary := range t.byKind {
			for _, operation := range verbs {
				summary.WithLabelValues(operation, hadError)
			}
		}
	}
	for _, reason := range []string{
		string(state.ReasonHNSRejected), string(state.ReasonHNSUnavailable), string(state.ReasonForeignWrites), string(state.ReasonAddressContested), string(state.ReasonIPv6Blocked),
		string(policy.ReasonIPv6Peer), string(policy.ReasonInvalid), string(policy.ReasonOverBudget), string(policy.ReasonUnsupportedPeer), string(policy.ReasonNodesUnknown),
	} {
		t.reasons[reason] = true
	}
	t.setWarnings(nil)
	return t
}

func (t *transactions) collectors() []prometheus.Collector {
	out := []prometheus.Collector{t.programmed, t.addPolicy, t.warningGauge}
	for _, summary := range t.byKind {
		out = append(out, summary)
	}
	return out
}

// Applied takes what one transaction did.
func (m *Metrics) Applied(a controllers.Applied) {
	t := m.transactions
	m.starts.applied(a.Report.Starts)
	hadError := yesNo(a.Err != nil || len(a.Report.Errors) > 0)
	took := millis(a.Report.Took)
	for _, change := range a.Report.Changes {
		var into []prometheus.Observer // of nodes the predecessor measured nothing
		if summary := t.byKind[change.Kind]; summary != nil {
			into = append(into, summary.WithLabelValues(change.Operation, hadError))
		}
		if change.Kind == "policy" && change.Operation != remove {
			into = append(into, t.addPolicy.WithLabelValues(hadError))
		}
		for _, summary := range into {
			for range change.Count {
				summary.Observe(took)
			}
		}
	}
	for _, since := range a.Programmed {
		t.programmed.Observe(since.Seconds())
	}
	if a.Err == nil { // else the report may be empty, and all warnings are still active
		t.setWarnings(a.Report.Warnings)
	}
}

// setWarnings shows the active warnings, by reason.
func (t *transactions) setWarnings(warnings []state.Warning) {
	counts := map[string]int{}
	for _, w := range warnings {
		counts[string(w.Reason)]++
	}
	t.warningsMu.Lock()
	defer t.warningsMu.Unlock()
	for reason := range counts {
		t.reasons[reason] = true
	}
	for reason := range t.reasons {
		t.warningGauge.WithLabelValues(reason).Set(float64(counts[reason]))
	}
}
