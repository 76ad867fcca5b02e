package dataplane_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/pkg/state"
)

const (
	bGood  = `policy x/good {podSelector: {}, ingress: [{from: [{podSelector: {matchLabels: {app: api}}}], ports: [{port: 80}]}]}`
	bLater = `policy x/later {podSelector: {}, ingress: [{ports: [{port: 443}]}]}`
)

// TestScenario_B1_BacksOff: an endpoint whose writes never get through is tried
// after 1, 2, 4 … 30 s, or a little sooner, and stops nobody.
func TestScenario_B1_BacksOff(t *testing.T) {
	w := newWorld(t)
	w.do("namespace x", "endpoint ep-1 10.0.0.1", "endpoint ep-2 10.0.0.2",
		"pod x/odd 10.0.0.1 app=odd", "pod x/web 10.0.0.2 app=web", "apply", bGood)
	for _, op := range []string{"ACL/Add", "ACL/Update"} {
		for range 7 {
			w.do("fault " + op + " ep-1 refuse")
		}
	}
	var waits []time.Duration
	for range 7 {
		_ = w.apply()
		waits = append(waits, w.report.RetryAfter)
		w.now = w.now.Add(w.report.RetryAfter)
	}
	for i, want := range []time.Duration{1, 2, 4, 8, 16, 30, 30} {
		require.LessOrEqual(t, waits[i], want*time.Second)
		require.GreaterOrEqual(t, waits[i], want*time.Second*4/5)
	}
	w.do("trace 10.0.0.9 -> 10.0.0.2 TCP/80 ep-2 in block", bLater, "apply",
		"trace 10.0.0.9 -> 10.0.0.2 TCP/443 ep-2 in allow")
	require.True(t, w.report.Converged())
}

// TestScenario_B2_HNSRejectsOneSet: policies that need the set are quarantined, the
// rest is applied; when the set's content changes it is tried again.
func TestScenario_B2_HNSRejectsOneSet(t *testing.T) {
	policies := []string{
		`policy x/labels {podSelector: {matchLabels: {app: web}}, ingress: [{from: [{podSelector: {matchLabels: {app: evil}}}]}]}`,
		`policy x/api {podSelector: {matchLabels: {app: web}}, ingress: [{from: [{podSelector: {matchLabels: {app: api}}}], ports: [{port: 80}]}]}`,
		`policy x/nested {podSelector: {matchLabels: {app: web}}, ingress: [{from: [{namespaceSelector: {}}], ports: [{port: 99}]}]}`,
	}
	for _, rejected := range []string{"podlabel-app:evil", "ns-y", "nslabel-all-namespaces"} {
		t.Run(rejected, func(t *testing.T) {
			w := newWorld(t)
			w.sim.RejectSet(func(s hns.SetPolicy) bool {
				return s.Name == rejected && (s.Type == hns.NestedIPSet || len(s.Values) == 1)
			})
			w.do("namespace x", "namespace y", "endpoint ep 10.0.0.1", "pod x/web 10.0.0.1 app=web",
				"pod x/api 10.0.1.1 app=api remote", "pod x/evil 10.0.1.2 app=evil remote", "pod y/p 10.0.1.3 remote")
			w.do(policies...)
			w.do("! apply")
			w.settle()
			w.do("trace 10.0.1.1 -> 10.0.0.1 TCP/80 ep in allow", "trace 10.0.1.9 -> 10.0.0.1 TCP/80 ep in block")
			require.NotEmpty(t, w.report.Warnings)
			for _, warning := range w.report.Warnings {
				require.Equal(t, state.ReasonHNSRejected, warning.Reason)
			}
			switch rejected {
			case "podlabel-app:evil":
				w.do("trace 10.0.1.2 -> 10.0.0.1 TCP/80 ep in block", "pod x/evil2 10.0.9.9 app=evil remote")
				w.settle()
				w.do("trace 10.0.1.2 -> 10.0.0.1 TCP/80 ep in allow", "trace 10.0.9.9 -> 10.0.0.1 TCP/80 ep in allow")
				require.Empty(t, w.report.Warnings)
			case "ns-y":
				w.do("trace 10.0.1.3 -> 10.0.0.1 TCP/99 ep in block", "trace 10.0.1.1 -> 10.0.0.1 TCP/99 ep in allow",
					"pod y/q 10.0.9.9 remote")
				w.settle()
				w.do("trace 10.0.1.3 -> 10.0.0.1 TCP/99 ep in allow")
				require.Empty(t, w.report.Warnings)
			default:
				w.do("trace 10.0.1.1 -> 10.0.0.1 TCP/99 ep in block")
			}
		})
	}
}

// objects returns the objects of a report's warnings.
func objects(r state.Report) []string {
	var out []string
	for _, w := range r.Warnings {
		out = append(out, w.Object)
	}
	return out
}
