package debug

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"github.com/winnpm/winnpm/pkg/state"
)

// applied is what Metrics.Applied takes of one transaction.
type applied struct {
	Report     state.Report
	Err        error
	Programmed []time.Duration
}

func sampleApplied() applied {
	return applied{
		Report: state.Report{
			Took: 250 * time.Millisecond,
			Changes: []state.ObjectChange{
				{Kind: "namespace", Operation: "update", Count: 1},
				{Kind: "node", Operation: "create", Count: 1},
				{Kind: "pod", Operation: "create", Count: 4},
				{Kind: "policy", Operation: "create", Count: 1},
				{Kind: "policy", Operation: "delete", Count: 8},
				{Kind: "policy", Operation: "update", Count: 2},
			},
			Warnings: []state.Warning{{Reason: "Invalid"}, {Reason: "HNSRejected"}, {Reason: "Invalid"}},
		},
		Programmed: []time.Duration{time.Second, 1500 * time.Millisecond},
	}
}

// TestApplied: one transaction, without and with an error of either kind.
func TestApplied(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		change   func(*applied)
		hadError string
		warnings map[string]float64
	}{
		"all well":     {func(*applied) {}, "false", map[string]float64{`npm_warnings{reason="HNSRejected"}`: 1, `npm_warnings{reason="Invalid"}`: 2}},
		"a call fails": {func(a *applied) { a.Report.Errors = []string{"no"} }, "true", map[string]float64{`npm_warnings{reason="HNSRejected"}`: 1, `npm_warnings{reason="Invalid"}`: 2}},
		"as a whole":   {func(a *applied) { a.Err = context.Canceled }, "true", map[string]float64{}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := NewMetrics(quiet())
			before := read(t, m.node)
			a := sampleApplied()
			test.change(&a)
			m.Applied(a.Report, a.Err, a.Programmed)

			want := map[string]float64{
				"npm_event_to_programmed_seconds_count": 2,
				"npm_event_to_programmed_seconds_sum":   2.5,
			}
			summary := func(name, operation string, n float64) {
				labels := `{had_error="` + test.hadError + `"`
				if operation != "" {
					labels += `,operation="` + operation + `"`
				}
				want[name+"_count"+labels+"}"], want[name+"_sum"+labels+"}"] = n, 250*n
			}
			summary("npm_add_policy_exec_time", "", 3)
			summary("npm_controller_namespace_exec_time", "update", 1)
			summary("npm_controller_pod_exec_time", "create", 4)
			summary("npm_controller_policy_exec_time", "create", 1)
			summary("npm_controller_policy_exec_time", "update", 2)
			summary("npm_controller_policy_exec_time", "delete", 8)
			for series, n := range test.warnings {
				want[series] = n
			}
			require.Empty(t, cmp.Diff(want, changed(before, read(t, m.node))))
		})
	}
}

// TestWarningsEnd: a reason that stands no more is 0, one that is new has a
// series, and a transaction that failed as a whole says nothing of either.
func TestWarningsEnd(t *testing.T) {
	t.Parallel()
	m := NewMetrics(quiet())
	apply := func(err error, reasons ...state.Reason) map[string]float64 {
		var a applied
		a.Err = err
		for _, r := range reasons {
			a.Report.Warnings = append(a.Report.Warnings, state.Warning{Reason: r})
		}
		m.Applied(a.Report, a.Err, a.Programmed)
		return changed(read(t, NewMetrics(quiet()).node), with(read(t, m.node), "npm_warnings"))
	}
	require.Equal(t, map[string]float64{`npm_warnings{reason="Invalid"}`: 2}, apply(nil, "Invalid", "Invalid"))
	require.Equal(t, map[string]float64{`npm_warnings{reason="Invalid"}`: 2}, apply(context.Canceled))
	require.Equal(t, map[string]float64{`npm_warnings{reason="New"}`: 1}, apply(nil, "New"))
	require.Equal(t, map[string]float64{`npm_warnings{reason="New"}`: 0}, apply(nil))
}
