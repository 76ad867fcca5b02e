package dataplane_test

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/pkg/state"
	"github.com/winnpm/winnpm/test/hnsfault"
)

const (
	yieldEach = 1
	never     = 1 << 20
)

// turns applies the transaction, which yields after so many endpoints.
func (w *world) turns(n int) []string {
	w.t.Helper()
	w.tx.Yield = after(n)
	w.do("apply")
	return writtenEndpoints(w.sim)
}

// after returns what says at the n-th time that the next transaction is due.
func after(n int) func() bool {
	asked := 0
	return func() bool { asked++; return asked >= n }
}

// turnsAll selects all pods of turnsWorld, turnsV1 those that a test labels, and the others one
// pod each.
const (
	turnsAll = `policy x/all {podSelector: {}, ingress: [{ports: [{port: 80}]}]}`
	turnsV1  = `policy x/v1 {podSelector: {matchLabels: {v: "1"}}, ingress: [{ports: [{port: 81}]}]}`
	turnsOne = `policy x/one {podSelector: {matchLabels: {app: w09}}, ingress: [{ports: [{port: 443}]}]}`
	turnsTwo = `policy x/two {podSelector: {matchLabels: {app: w08}}, ingress: [{ports: [{port: 443}]}]}`
)

// turnsWorld is a node with pods x/w00, x/w01 … on ep-00, ep-01 …, each with its
// name as label app, and no policy that selects one.
func turnsWorld(t *testing.T, pods int) *world {
	w := newWorld(t)
	w.do("namespace x")
	for i := range pods {
		w.do(fmt.Sprintf("endpoint ep-%02d 10.0.1.%d", i, i+1))
		w.pod0(i, "")
	}
	w.do("apply", "calls")
	return w
}

func (w *world) pod0(i int, label string) {
	w.t.Helper()
	w.do(fmt.Sprintf("pod x/w%02d 10.0.1.%d app=w%02d %s", i, i+1, i, label))
}

// TestTransactionYields: it leaves the other endpoints to the next one, which is
// due at once and goes on where it ended; each makes one update at least.
func TestTransactionYields(t *testing.T) {
	w := turnsWorld(t, 5)
	w.do(turnsAll)
	require.Equal(t, []string{"ep-00", "ep-01"}, w.turns(2))
	require.Equal(t, 3, w.report.Pending)
	require.Equal(t, []state.Span{{From: w.report.Generation, To: w.report.Generation}}, w.report.Waiting)
	require.Equal(t, time.Millisecond, w.report.RetryAfter)
	require.Equal(t, []string{"ep-02"}, w.turns(0))
	require.Equal(t, []string{"ep-03", "ep-04"}, w.turns(2))
	require.Empty(t, w.report.Waiting)
	require.True(t, w.report.Converged())
}

// TestWaiting: what an endpoint waits for begins with the first change that is not
// there, however often its wish changes.
func TestWaiting(t *testing.T) {
	w := turnsWorld(t, 10)
	w.do(turnsAll)
	w.turns(7)
	first := w.report.Generation
	w.do(turnsOne)
	require.Equal(t, []string{"ep-07", "ep-08"}, w.turns(2))
	require.Equal(t, []state.Span{{From: first, To: w.report.Generation}}, w.report.Waiting, "of both policies")
	w.do(turnsV1)
	w.pod0(9, "v=1")
	w.sim.Inject(hnsfault.Fault{Op: hns.OpACLAdd, Target: "ep-09"})
	_ = w.apply()
	require.Equal(t, []state.Span{{From: first, To: w.report.Generation}}, w.report.Waiting)
}

// TestTurnsOfNamespaces: a policy of another namespace comes next, whatever waits in one: a policy
// on all of its pods, or the changes of all its pods. Within the namespace updates have their order.
func TestTurnsOfNamespaces(t *testing.T) {
	const other = `policy y/one {podSelector: {}, ingress: [{ports: [{port: 443}]}]}`
	twoNamespaces := func(t *testing.T) *world {
		w := turnsWorld(t, 9)
		w.do("namespace y", "endpoint ep-y 10.0.2.1", "pod y/v 10.0.2.1", "apply", "calls")
		return w
	}
	t.Run("policies", func(t *testing.T) {
		w := twoNamespaces(t)
		w.do(turnsAll)
		require.Equal(t, []string{"ep-00", "ep-01", "ep-02"}, w.turns(3))
		w.do(other, turnsTwo)
		require.Equal(t, []string{"ep-03", "ep-y", "ep-04"}, w.turns(3))
		require.Equal(t, []string{"ep-05", "ep-06", "ep-07", "ep-08"}, w.turns(never))
	})
	t.Run("policies that come together", func(t *testing.T) {
		w := twoNamespaces(t)
		w.do(turnsAll, other)
		require.Equal(t, []string{"ep-00", "ep-y", "ep-01"}, w.turns(3))
	})
	t.Run("pods", func(t *testing.T) {
		w := twoNamespaces(t)
		w.do(turnsV1, turnsAll)
		w.turns(never)
		for i := range 9 {
			w.pod0(i, "v=1")
		}
		require.Equal(t, []string{"ep-00", "ep-01"}, w.turns(2))
		w.do(other)
		require.Equal(t, []string{"ep-02", "ep-y"}, w.turns(2))
	})
	t.Run("a newborn endpoint", func(t *testing.T) { // it is open until then
		w := turnsWorld(t, 9)
		w.do(turnsV1, turnsAll)
		w.turns(never)
		for i := range 9 {
			w.pod0(i, "v=1")
		}
		w.turns(2)
		w.do("endpoint ep-09 10.0.1.10")
		w.pod0(9, "")
		require.Equal(t, []string{"ep-09"}, w.turns(1), "nothing else waits to be read")
	})
}

// TestNobodyStarves: HNS manages one endpoint in each transaction, and each brings
// a policy on one pod and changes the one on all. Every endpoint has its turn all the same:
// one in each.
func TestNobodyStarves(t *testing.T) {
	const pods = 10
	w := turnsWorld(t, pods)
	rounds := map[string]int{}
	for round := range 10 * pods {
		w.do([]string{turnsOne, "delete policy x/one", turnsTwo, "delete policy x/two"}[round%4], strings.Replace(turnsAll, "80", strconv.Itoa(1+round), 1))
		for _, ep := range w.turns(yieldEach) {
			require.LessOrEqual(t, round-rounds[ep], 3*pods, "%s in round %d", ep, round)
			rounds[ep] = round
		}
	}
	require.Len(t, rounds, pods)
	require.Greater(t, slices.Min(slices.Collect(values(rounds))), 7*pods, "%v", rounds)
}

func values(m map[string]int) func(func(int) bool) {
	return func(yield func(int) bool) {
		for _, v := range m {
			if !yield(v) {
				return
			}
		}
	}
}

// TestOpenEndpointsAreAheadForAWhile: pods of one namespace that begin all the time have
// their endpoints closed first, but keep another one from its turn for a while only.
func TestOpenEndpointsAreAheadForAWhile(t *testing.T) {
	w := newWorld(t)
	w.do("namespace x", "namespace z", "endpoint ep-z 10.0.2.1", "pod z/v 10.0.2.1", `policy x/all {podSelector: {}, ingress: [{ports: [{port: 80}]}]}`, "apply", "calls")
	begins := func(i int) {
		w.do(fmt.Sprintf("endpoint ep-%02d 10.0.1.%d", i, i+1))
		w.pod0(i, "")
	}
	w.do(`policy z/other {podSelector: {}, ingress: [{ports: [{port: 443}]}]}`)
	begins(99) // one always waits
	for i := range 40 {
		begins(i)
		if slices.Contains(w.turns(yieldEach), "ep-z") {
			require.Greater(t, i, 5, "what is open goes first")
			return
		}
	}
	require.Fail(t, "never served")
}
