package dataplane_test

import (
	"bytes"
	"fmt"
	"maps"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"github.com/winnpm/winnpm/pkg/dataplane"
	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/pkg/state"
	"github.com/winnpm/winnpm/test/hnsfault"
	"github.com/winnpm/winnpm/test/looks"
)

const (
	cDeny     = `policy x/deny {podSelector: {}}`
	cWeb      = `policy x/web {podSelector: {matchLabels: {app: web}}, ingress: [{from: [{podSelector: {matchLabels: {app: api}}}], ports: [{port: 80}]}]}`
	cVersions = `policy x/versions {podSelector: {matchExpressions: [{key: app, operator: In, values: [v1, v2]}]}, ingress: [{from: [{podSelector: {matchLabels: {app: api}}}]}]}`
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

// TestScenario_A3_OneWriter: a second caller comes in the middle of an apply, at every HNS call of it.
// It asks HNS for nothing until the first is through, and both get what they wanted.
func TestScenario_A3_OneWriter(t *testing.T) {
	points := 0
	for ; ; points++ {
		w := newWorld(t)
		w.do("namespace x", "endpoint ep-1 10.0.0.1", "endpoint ep-2 10.0.0.2", "pod x/web 10.0.0.1 app=web", "apply",
			"pod x/other 10.0.0.2 app=db", cDeny)
		second := w.tx
		w.tx = dataplane.NewTransaction()
		w.do(cWeb, "node 10.1.0.4")

		var calls, inside, overlaps atomic.Int32
		ended := (func())(nil)
		w.sim.OnCall(func(_ hnsfault.Call, when hnsfault.When) {
			if when == hnsfault.After {
				inside.Add(-1)
				return
			}
			if inside.Add(1) > 1 {
				overlaps.Add(1)
			}
			if int(calls.Add(1)) == points+1 {
				ended = w.meanwhile("ApplyDataplane", func() error {
					report, err := w.dp.ApplyDataplane(t.Context(), second)
					require.Empty(t, report.Errors, "the second caller, at call %d", points)
					return err
				})
			}
		})
		w.transact()
		require.Empty(t, w.report.Errors, "the first caller, at call %d", points)
		if ended == nil {
			break
		}
		ended()
		require.Zero(t, overlaps.Load(), "HNS calls of both callers at once, at call %d", points)
		require.Empty(t, w.dp.Dump().Pending)
		w.sim.OnCall(nil)
		w.do("trace 10.0.1.1 -> 10.0.0.2 TCP/80 ep-2 in block", "trace 10.1.0.4 -> 10.0.0.1 TCP/80 ep-1 in allow")
	}
	require.Greater(t, points, 1)
}

// waitsIn reports whether some goroutine stands in a method of the dataplane and waits
// for the apply lock.
func waitsIn(method string) bool {
	buf := make([]byte, 1<<20)
	buf = buf[:runtime.Stack(buf, true)]
	for stack := range bytes.SplitSeq(buf, []byte("\n\n")) {
		head, frames, _ := strings.Cut(string(stack), "\n")
		if strings.Contains(head, "[chan send") && strings.Contains(frames, ")."+method+"(") {
			return true
		}
	}
	return false
}

// dWorld is three local web pods and some peers.
func dWorld(t *testing.T) *world {
	w := newWorld(t)
	w.do("endpoint ep-1 10.0.0.1", "endpoint ep-2 10.0.0.2", "endpoint ep-3 10.0.0.3")
	w.do("namespace x team=x", "namespace y kind=evil", "namespace z",
		"pod x/w1 10.0.0.1 app=web", "pod x/w2 10.0.0.2 app=web", "pod x/w3 10.0.0.3 app=web",
		"pod x/api 10.0.1.1 app=api remote", "pod x/db 10.0.1.2 app=db remote",
		"pod y/evil 10.0.1.3 app=api remote", "pod z/z 10.0.1.4 remote")
	w.do("apply")
	return w
}

// dPeers are the addresses of the remote pods, and one that is no pod's.
var dPeers = []string{"10.0.1.1", "10.0.1.2", "10.0.1.3", "10.0.1.4", "10.9.9.9"}

// TestScenario_D1_PolicyEdited: one ACL write per endpoint, and after each
// single write every verdict is the one before or the one after.
func TestScenario_D1_PolicyEdited(t *testing.T) {
	specs := map[string]string{
		"one port":   `{podSelector: {matchLabels: {app: web}}, ingress: [{from: [{podSelector: {matchLabels: {app: api}}}], ports: [{port: 80}]}]}`,
		"other port": `{podSelector: {matchLabels: {app: web}}, ingress: [{from: [{podSelector: {matchLabels: {app: api}}}], ports: [{port: 81}]}]}`,
		"other peer": `{podSelector: {matchLabels: {app: web}}, ingress: [{from: [{podSelector: {matchLabels: {app: db}}}], ports: [{port: 80}]}]}`,
		"namespace":  `{podSelector: {matchLabels: {app: web}}, ingress: [{from: [{namespaceSelector: {matchLabels: {kind: evil}}}]}]}`,
		"cidr":       `{podSelector: {matchLabels: {app: web}}, ingress: [{from: [{ipBlock: {cidr: 10.0.1.0/24, except: [10.0.1.3/32]}}]}]}`,
		"egress":     `{podSelector: {matchLabels: {app: web}}, policyTypes: [Egress], egress: [{to: [{podSelector: {matchLabels: {app: db}}}]}]}`,
		"deny":       `{podSelector: {matchLabels: {app: web}}, policyTypes: [Ingress, Egress]}`,
	}
	names := slices.Sorted(maps.Keys(specs))
	ends := map[string]*world{} // by spec
	for name, spec := range specs {
		ends[name] = dWorld(t)
		ends[name].do("policy x/p "+spec, "apply")
	}
	for _, from := range names {
		for _, to := range names {
			if from == to {
				continue
			}
			t.Run(from+" to "+to, func(t *testing.T) {
				w := dWorld(t)
				w.do("policy x/p "+specs[from], "apply")
				all := probes(w.sim, dPeers, 80, 81, 443)
				before := verdicts(t, w.sim, all)

				end := ends[to]
				after := verdicts(t, end.sim, all)
				stop := watchI4(t, w.sim, before, after)
				w.do("policy x/p "+specs[to], "apply")
				require.Positive(t, stop())
				for _, ep := range []string{"ep-1", "ep-2", "ep-3"} {
					require.Equal(t, 1, len(w.wrote(ep)), ep)
				}
				require.Empty(t, cmp.Diff(end.sim.Dump(), w.sim.Dump()))
			})
		}
	}
}

// TestScenario_D11_NamespaceDeleted with its pods and policies, events in any
// order: the same dump, and nothing left once the endpoints are gone.
func TestScenario_D11_NamespaceDeleted(t *testing.T) {
	const p = `policy x/p {podSelector: {}, ingress: [{from: [{podSelector: {}}, {namespaceSelector: {matchLabels: {team: x}}}]}]}`
	const q = `policy x/q {podSelector: {matchLabels: {app: web}}, policyTypes: [Egress], egress: [{to: [{podSelector: {matchExpressions: [{key: app, operator: NotIn, values: [db]}]}}]}]}`
	events := []string{"delete namespace x", "delete policy x/p", "delete policy x/q",
		"delete pod x/w1", "delete pod x/w2", "delete pod x/w3", "delete pod x/api", "delete pod x/db"}
	var want string
	for seed := range uint64(40) {
		rnd := rand.New(rand.NewPCG(seed, 11))
		w := dWorld(t)
		w.do(p, q, "apply")
		order := slices.Clone(events)
		rnd.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
		gone := 0
		for _, event := range order {
			w.do(event)
			if strings.HasPrefix(event, "delete pod x/w") && rnd.IntN(2) == 0 {
				w.do("no-endpoint ep-" + strings.TrimPrefix(event, "delete pod x/w"))
				gone++
			}
			if rnd.IntN(2) == 0 {
				w.do("apply")
			}
		}
		w.do("apply")
		for _, e := range w.sim.Endpoints() {
			require.NoError(t, w.sim.DeleteEndpoint(e.ID))
		}
		w.do("observe", "apply")
		require.True(t, w.report.Converged(), "seed %d", seed)
		got := w.sim.Dump() + setsText(w.dp.Dump())
		if want == "" {
			want = got
			require.NotContains(t, got, "ns-x")
		}
		require.Empty(t, cmp.Diff(want, got), "seed %d: %v", seed, order)
		require.Empty(t, w.dp.Dump().Endpoints)
	}
}
