package dataplane_test

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/winnpm/winnpm/pkg/dataplane"
	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/test/effort"
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
	require.Greater(t, slices.Min(slices.Collect(maps.Values(rounds))), 7*pods, "%v", rounds)
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

// manyPeers is a policy on the pods of a label, app=web or w00, with so many rules.
func manyPeers(name, app string, peers int) string {
	var from strings.Builder
	for i := range peers {
		fmt.Fprintf(&from, "{podSelector: {matchLabels: {peer: p%d}}},", i)
	}
	return fmt.Sprintf("policy x/%s {podSelector: {matchLabels: {app: %s}}, ingress: [{from: [%s]}]}", name, app, from.String())
}

// TestManyPeers: an endpoint takes a few requests, however many rules it has, and one
// that is new is closed by the first.
func TestManyPeers(t *testing.T) {
	for _, peers := range []int{200, 2000}[:effort.Of(1, 2)] {
		for _, running := range []bool{true, false} {
			t.Run(fmt.Sprintf("%d, running=%t", peers, running), func(t *testing.T) {
				w := newWorld(t)
				w.do("namespace x", "endpoint ep 10.0.0.4", "pod x/web 10.0.0.4 app=web")
				want := map[string]int{hns.OpACLUpdate: 1, hns.OpEndpointGet: 2}
				if running {
					w.do("apply")
				} else { // the first read serves the block, which is read after
					want = map[string]int{hns.OpACLAdd: 1, hns.OpACLUpdate: 1, hns.OpEndpointGet: 2 + 2}
				}
				w.sim.ResetCalls()
				w.do(manyPeers("p", "web", peers), "apply")
				require.True(t, w.report.Converged())
				for op, n := range want {
					require.Equal(t, n, w.sim.Counts()[op], op)
				}
				require.Len(t, w.wrote("ep"), want[hns.OpACLAdd]+1)
				if !running {
					require.Equal(t, []string{"azure-acl-npm-block-in"}, w.wrote("ep")[0])
				}
				w.do("trace 10.9.9.9 -> 10.0.0.4 TCP/80 ep in block")
			})
		}
	}
}

// TestTurnEndsWithinAnEndpoint: a transaction may end between the block and the rules of one endpoint,
// the next one goes on with it, and a pod that is new is closed throughout.
func TestTurnEndsWithinAnEndpoint(t *testing.T) {
	w := newWorld(t)
	w.do("namespace x")
	for i := range 2 {
		w.do(fmt.Sprintf("endpoint ep-%02d 10.0.1.%d", i, i+1))
		w.pod0(i, "")
	}
	w.do(manyPeers("big", "w00", 100))
	w.sim.OnCall(func(c hnsfault.Call, when hnsfault.When) {
		if when == hnsfault.After && c.Target == "ep-00" && c.Op == hns.OpACLAdd {
			w.do("trace 10.9.9.9 -> 10.0.1.1 TCP/80 ep-00 in block")
		}
	})
	require.Equal(t, []string{"ep-00"}, w.turns(2), "it is asked between the reads, and after the write")
	require.False(t, w.report.Converged())
	w.do(`policy x/one {podSelector: {matchLabels: {app: w01}}, ingress: [{ports: [{port: 443}]}]}`)
	var order []string
	for range 2 {
		order = append(order, w.turns(yieldEach)...)
	}
	require.Equal(t, []string{"ep-00", "ep-01"}, order, "in the order in which they joined: both are of one namespace")
	require.True(t, w.report.Converged())
}

// TestAddsWhereNoUpdateWorks: where HNS takes no Update, many rules come with Adds, as a bisection
// adds what it tests.
func TestAddsWhereNoUpdateWorks(t *testing.T) {
	w := newWorld(t)
	w.do("namespace x", "endpoint ep 10.0.0.4", "pod x/web 10.0.0.4 app=web", "apply")
	w.sim.Inject(hnsfault.Fault{Op: hns.OpACLUpdate, Target: "ep", Times: -1, Code: 0x803B000D})
	w.do(manyPeers("p", "web", 40))
	_ = w.apply()
	require.Len(t, w.rulesOf("ep"), 41)
	require.True(t, w.report.Converged())
}

// TestWhatATransactionReadCanWait: the sets and the GUIDs were read by the first
// transaction, so neither is looked at at once.
func TestWhatATransactionReadCanWait(t *testing.T) {
	w := newWorld(t)
	began := w.now
	w.settle()
	look, at := w.dp.NextLook()
	require.Equal(t, dataplane.Look{Enumerate: true}, look)
	require.Equal(t, 5*time.Second, at.Sub(began).Round(time.Second))
}

// Whoever has been read longest ago is next, so that everything is read within a
// minute, however many endpoints there are, and HNS rests in between.
func TestLooksAlternate(t *testing.T) {
	for _, endpoints := range []int{0, 1, 2, 3, 10, effort.Of(40, 110)} {
		t.Run(fmt.Sprint(endpoints), func(t *testing.T) {
			w := newWorld(t)
			w.do("namespace x", `policy x/all {podSelector: {}, ingress: [{from: [{podSelector: {matchLabels: {app: api}}}]}]}`)
			for i := range endpoints {
				w.do(fmt.Sprintf("endpoint ep-%03d 10.0.1.%d", i, i+1), fmt.Sprintf("pod x/w%03d 10.0.1.%d", i, i+1))
			}
			w.do("apply")
			began := w.now
			read := map[string]time.Time{"sets": began, "enumerated": began} // when it was read last
			for i := range endpoints {
				read[fmt.Sprintf("ep-%03d", i)] = began
			}
			longest := map[string]time.Duration{}
			looks := 0
			see := func(what string) {
				longest[what] = max(longest[what], w.now.Sub(read[what]))
				read[what] = w.now
			}
			for w.now.Sub(began) < 10*time.Minute {
				look, at := w.dp.NextLook()
				if at.After(w.now) {
					w.now = at
				}
				looks++
				require.Less(t, looks, 2*(10*(endpoints+1)+120), "far more than a minute needs")
				switch {
				case look.Enumerate:
					see("enumerated")
				case look.Sets:
					see("sets")
				}
				for _, id := range look.Endpoints {
					see(id)
				}
				due, err := w.dp.Observe(t.Context(), look)
				require.NoError(t, err)
				require.False(t, due)
			}
			require.Len(t, longest, endpoints+2)
			for what, gap := range longest {
				limit := 67 * time.Second // all was read at the start
				if what == "enumerated" {
					limit = 6 * time.Second
				}
				require.LessOrEqual(t, gap, limit, what)
			}
		})
	}
}
