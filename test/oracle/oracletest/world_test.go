// Package oracletest holds the dataplane on the simulator against the oracle:
// random clusters, brought in at once, in pieces, or through a history.
package oracletest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/winnpm/winnpm/pkg/dataplane"
	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/pkg/state"
	"github.com/winnpm/winnpm/test/cnis"
	"github.com/winnpm/winnpm/test/hnsfault"
	"github.com/winnpm/winnpm/test/looks"
	"github.com/winnpm/winnpm/test/oracle"
	"github.com/winnpm/winnpm/test/oracle/gen"
)

const reconcileInterval = 5 * time.Minute

// setup is what a node may look like before we come.
type setup struct {
	foreign []hns.EndpointPolicy // of the CNI
	shared  bool                 // pods with one address have one endpoint
}

func drawSetup(t *rapid.T) setup {
	var s setup
	if rapid.Bool().Draw(t, "foreign policies") {
		s.foreign = rapid.SampledFrom(cnis.All()).Draw(t, "CNI").Endpoint
	}
	s.shared = rapid.Bool().Draw(t, "shared endpoints")
	return s
}

// tester is what *testing.T and *rapid.T have in common.
type tester interface {
	require.TestingT
	Fatalf(format string, args ...any)
	Context() context.Context
}

// world is one node: the simulator, the dataplane on it, and a clock that only
// moves when there is something to wait for.
type world struct {
	t     tester
	setup setup
	sim   *hnsfault.Sim
	dp    *dataplane.Dataplane
	now   time.Time
	story []string       // what happened, for whoever reads a failure
	tiers map[string]int // verdicts of endpoints that have tiers, by what decided
	lost  map[types.UID]time.Time
}

func newWorld(t tester, s setup) *world {
	w := &world{
		t: t, setup: s, sim: hnsfault.New(hnsfault.Options{Foreign: s.foreign}),
		now: gen.Now, tiers: map[string]int{}, lost: map[types.UID]time.Time{},
	}
	w.dp = dataplane.New(dataplane.Config{
		Client: w.sim, Node: gen.Node, Now: func() time.Time { return w.now },
		MaxBatchedACLs: 30,
	})
	return w
}

// note adds a line to the story.
func (w *world) note(format string, args ...any) {
	w.story = append(w.story, fmt.Sprintf(format, args...))
}

// fail ends the run with everything that a reader needs.
func (w *world) fail(c oracle.Cluster, format string, args ...any) {
	w.t.Fatalf("%s\nstory:\n%s\ncluster:\n%s\n%s", fmt.Sprintf(format, args...), strings.Join(w.story, "\n"), describe(c), w.sim.Dump())
}

// apply hands a transaction over. Nothing fails in this world, so no request
// may be refused, unless its endpoint went away in the meantime.
func (w *world) apply(tx *dataplane.Transaction) state.Report {
	report, err := w.dp.ApplyDataplane(w.t.Context(), tx)
	require.NoError(w.t, err)
	for _, call := range w.sim.Calls() {
		if call.Err != nil && !hns.EndpointGone(call.Err) {
			w.t.Fatalf("refused: %v", call.Err)
		}
	}
	w.sim.ResetCalls()
	w.note("apply: %d objects, plan %q, pending %d, again in %v", report.Objects, report.Plan, report.Pending, report.RetryAfter)
	return report
}

// settle applies empty transactions when the last report asks for them, until
// nothing is outstanding.
func (w *world) settle(report state.Report) {
	for range 20 {
		if report.Converged() {
			return
		}
		w.now = w.now.Add(report.RetryAfter)
		report = w.apply(dataplane.NewTransaction())
	}
	w.t.Fatalf("does not settle: %+v", report)
}

// reconcile lets two reconcile intervals pass in peace.
func (w *world) reconcile() {
	for range 2 {
		w.now = w.now.Add(reconcileInterval)
		_, err := w.dp.Observe(w.t.Context(), looks.All(w.dp))
		require.NoError(w.t, err)
		w.settle(w.apply(dataplane.NewTransaction()))
	}
}

// start brings a cluster in at once.
func (w *world) start(c oracle.Cluster, tidy bool) {
	w.plug(c, tidy)
	list := events(oracle.Cluster{}, c, true)
	w.settle(w.tell(list, len(list)))
}

// lostFor is how long a lost pod counts: the default grace period and a minute.
const lostFor = 90 * time.Second

// lose returns the lost pods after a change, without those whose time is over.
func (w *world) lose(before, after oracle.Cluster) []corev1.Pod {
	return slices.DeleteFunc(oracle.Lose(before, after), func(pod corev1.Pod) bool {
		if _, known := w.lost[pod.UID]; !known {
			w.lost[pod.UID] = w.now
			w.note("lost: %s/%s %v", pod.Namespace, pod.Name, oracle.Address(&pod))
		}
		return !w.now.Before(w.lost[pod.UID].Add(lostFor))
	})
}

// check holds a settled world against the oracle, then lets the reconciler
// clear up what only it may, and looks again.
func (w *world) check(c oracle.Cluster, g *gen.Gen) {
	w.compare(c, g.Probes(6))
	w.checkQuiet()
	w.reconcile()
	c.Lost = w.lose(c, c)
	w.compare(c, g.Probes(2))
	w.checkSets(c)
	w.checkQuiet()
}
