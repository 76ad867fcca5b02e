package dataplane_test

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/pkg/state"
	"github.com/winnpm/winnpm/test/hnsfault"
	"github.com/winnpm/winnpm/test/looks"
)

// a1K1 lets pods with label pod2 into x/a; a1K2 selects by pod2 itself
// and names sets that nothing else needs.
const (
	a1K1 = `policy x/k1 {podSelector: {matchLabels: {role: a}}, ingress: [{from: [{podSelector: {matchExpressions: [{key: pod2, operator: Exists}]}}]}]}`
	a1K2 = `policy x/k2 {podSelector: {matchExpressions: [{key: pod2, operator: Exists}]}, ingress: [{from: [{podSelector: {matchLabels: {only: k2}}}]}]}`
	a1K3 = `policy x/k3 {podSelector: {}, ingress: [{from: [{podSelector: {matchLabels: {role: a}}}]}]}`
)

// a1World is the state before the label goes: x/b is the last pod with it.
func a1World(t *testing.T) *world {
	w := newWorld(t)
	w.do("namespace x", "endpoint ep-a 10.0.0.1", "endpoint ep-b 10.0.0.2",
		"pod x/a 10.0.0.1 role=a", "pod x/b 10.0.0.2 pod2=yes",
		a1K1, a1K2, "apply")
	return w
}

// a1Steps are the events: the label goes, and then policy events of every kind.
var a1Steps = [][]string{
	{"pod x/b 10.0.0.2 other=label"},
	{a1K3},
	{"delete policy x/k1"},
	{"delete policy x/k2", "delete policy x/k3"},
}

// TestScenario_A1_EveryInterleaving plays the founding report: a whole
// reconcile at every point of every apply, and a whole apply at every point of
// a reconcile. No event may fail, whatever the reconciler does.
func TestScenario_A1_EveryInterleaving(t *testing.T) {
	want := a1World(t)
	for _, step := range a1Steps {
		want.do(append(step, "apply")...)
	}
	points := 0
	// A reconcile inside the apply of every step, at hook n of that apply.
	for n := 0; ; n++ {
		w := a1World(t)
		hit := false
		for _, step := range a1Steps {
			at := 0
			ended := func() {}
			w.sim.OnCall(func(hnsfault.Call, hnsfault.When) {
				if at == n {
					hit = true
					w.sim.OnCall(nil)
					ended = w.meanwhile("Observe", func() error {
						_, err := w.dp.Observe(t.Context(), looks.All(w.dp))
						return err
					})
				}
				at++
			})
			w.do(step...)
			_ = w.apply()
			require.Empty(t, w.report.Errors, "reconcile began at point %d", n)
			w.sim.OnCall(nil)
			ended()
			_ = w.apply()
			require.Empty(t, w.report.Errors, "after the reconcile of point %d", n)
			require.True(t, w.report.Converged())
		}
		require.Empty(t, cmp.Diff(want.sim.Dump(), w.sim.Dump()))
		if !hit {
			break
		}
		points++
	}
	// An apply inside every call of a reconcile.
	for i := range a1Steps {
		for n := 0; ; n++ {
			w := a1World(t)
			for _, step := range a1Steps[:i] {
				w.do(append(step, "apply")...)
			}
			at, ended := 0, (func())(nil)
			w.do(a1Steps[i]...)
			w.sim.OnCall(func(hnsfault.Call, hnsfault.When) {
				if at == n {
					w.sim.OnCall(nil)
					ended = w.meanwhile("ApplyDataplane", func() error { return w.apply() })
				}
				at++
			})
			_, err := w.dp.Observe(t.Context(), looks.All(w.dp))
			require.NoError(t, err)
			w.sim.OnCall(nil)
			if ended == nil {
				break
			}
			ended()
			points++
			w.do("apply")
			require.True(t, w.report.Converged())
			for _, step := range a1Steps[i+1:] {
				w.do(append(step, "apply")...)
			}
			require.Empty(t, cmp.Diff(want.sim.Dump(), w.sim.Dump()))
		}
	}
	require.Greater(t, points, 20)
	t.Logf("%d interleavings", points)
}

// meanwhile runs what while a call of HNS is made, and returns when that waits for the apply lock in
// a method of the dataplane. The function that it returns waits for its end.
func (w *world) meanwhile(method string, what func() error) (ended func()) {
	done := make(chan error, 1)
	go func() { done <- what() }()
	for len(done) == 0 && !waitsIn(method) {
		runtime.Gosched()
	}
	require.Empty(w.t, done, "%s did not wait for the apply lock", method)
	return func() {
		w.t.Helper()
		require.NoError(w.t, <-done)
	}
}

// TestScenario_A1_UnknownOutcome is the case that only pins save: a write of
// the endpoint has an unknown outcome, so neither the wanted nor the applied
// list is sure to be there. Every write of every step is lost (done or not),
// then a reconcile comes in at once. HNS must never refuse a delete, and no
// later event may fail.
func TestScenario_A1_UnknownOutcome(t *testing.T) {
	want := a1World(t)
	for _, step := range a1Steps {
		want.do(append(step, "apply")...)
	}
	faults := 0
	for _, mode := range []hnsfault.Mode{hnsfault.Refuse, hnsfault.LoseReply} {
		for i := range a1Steps {
			for nth := 1; ; nth++ {
				w := a1World(t)
				for _, step := range a1Steps[:i] {
					w.do(append(step, "apply")...)
				}
				w.sim.Inject(hnsfault.Fault{Op: "ACL/Update", Nth: nth, Mode: mode, Err: hns.ErrUnavailable})
				for j, step := range a1Steps[i:] {
					w.do(step...)
					_ = w.apply()
					requireOnlyInjected(t, w.report, fmt.Sprintf("mode %v step %d fault %d event %d", mode, i, nth, j))
					w.do("observe")
					_ = w.apply()
					requireOnlyInjected(t, w.report, fmt.Sprintf("mode %v step %d fault %d reconcile %d", mode, i, nth, j))
				}
				if len(w.sim.UnusedFaults()) > 0 {
					break
				}
				faults++
				w.settle()
				require.Empty(t, cmp.Diff(want.sim.Dump(), w.sim.Dump()))
			}
		}
	}
	require.Greater(t, faults, 5)
}

// requireOnlyInjected checks that HNS refused nothing because of our order: the
// injected fault says that the service is unavailable, a refusal something else.
func requireOnlyInjected(t *testing.T, r state.Report, at string) {
	t.Helper()
	for _, err := range r.Errors {
		require.Contains(t, err, hns.ErrUnavailable.Error(), at)
	}
}

// TestScenario_A2_AddAndRemoveAcrossFailure: a set joins and leaves a pod, in
// either order, while HNS fails in between. The net difference is empty.
func TestScenario_A2_AddAndRemoveAcrossFailure(t *testing.T) {
	for _, tc := range []struct{ name, before, between string }{
		{"added and removed", "app=db", "app=web"},
		{"removed and added", "app=web", "app=db"},
	} {
		for _, mode := range []string{"refuse", "lose"} {
			t.Run(tc.name+" "+mode, func(t *testing.T) {
				w := newWorld(t)
				w.do("namespace x", "endpoint ep 10.0.0.1", "policy x/web "+webFromAPI, "pod x/p 10.0.0.1 "+tc.before, "apply")
				dump := w.sim.Dump()

				op := "ACL/Add"
				if tc.between == "app=db" {
					op = "ACL/Update"
				}
				w.do("fault "+op+" ep "+mode, "pod x/p 10.0.0.1 "+tc.between, "! apply")
				require.Equal(t, 1, w.report.Pending)
				require.Len(t, w.dp.Dump().Pending, 1)

				w.do("pod x/p 10.0.0.1 "+tc.before, "wait 1m")
				w.settle()
				if mode == "refuse" {
					require.Zero(t, w.report.Calls["ACL/Update"]+w.report.Calls["ACL/Add"], "the net difference is empty")
				}
				require.Empty(t, cmp.Diff(dump, w.sim.Dump()))
				require.Empty(t, w.dp.Dump().Pending)
			})
		}
	}
}
