package scale

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/winnpm/winnpm/pkg/dataplane"
	"github.com/winnpm/winnpm/test/hnsfault"
	"github.com/winnpm/winnpm/tool/hnssim"
)

const (
	batch       = 30 // ACLs in one Add, as by default
	gracePeriod = 5 * time.Minute
	latency     = 10 * time.Millisecond // of each call of the DLLs
)

// start is where every fake clock begins.
var start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// node is one node: the dataplane on the simulator, with a clock that each call of the DLLs
// moves.
type node struct {
	t     testing.TB
	world *world
	sim   *hnsfault.Sim
	dp    *dataplane.Dataplane
	reads reads     // of the next transaction
	now   time.Time // when the calls were counted last
}

// newNode returns a node whose HNS has an endpoint for each local pod.
func newNode(t testing.TB, w *world) *node {
	n := &node{t: t, world: w, now: start, sim: hnsfault.New(hnsfault.Options{Foreign: hnssim.DefaultForeign()})}
	for _, p := range w.pods {
		if p.Local {
			n.plug(p.Addr)
		}
	}
	n.restart()
	return n
}

// programmed returns a node with everything in HNS.
func programmed(t testing.TB, w *world) *node {
	n := newNode(t, w)
	n.apply(w.transaction())
	n.reads = reads{}
	return n
}

// clock returns the fake time.
func (n *node) clock() time.Time { return n.now.Add(time.Duration(n.sim.DLLCalls()) * latency) }

// pass moves the fake clock.
func (n *node) pass(d time.Duration) { n.now = n.now.Add(d) }

// take returns the calls since the last take.
func (n *node) take() cost {
	c := cost{counts: counts{n.sim.Counts(), n.sim.DLLCalls()}, sent: n.sim.Written()}
	n.now = n.clock()
	n.sim.ResetCalls()
	return c
}

// cost is what transactions took.
type cost struct {
	counts
	sent int // bytes of content
}

// plug gives an address an endpoint, as the CNI does.
func (n *node) plug(addr netip.Addr) {
	n.reads.enumerate = true
	n.reads.unknown = append(n.reads.unknown, endpointOf(addr))
	require.NoError(n.t, n.sim.CreateEndpoint(hnssim.SimEndpoint{ID: endpointOf(addr), Addrs: []netip.Addr{addr}}))
}

// endpointOf returns the GUID of an address's endpoint.
func endpointOf(addr netip.Addr) string {
	ip := addr.As4()
	return fmt.Sprintf("%08x-5ca1-4e00-9000-0000%02x%02x%02x%02x", ip, ip[0], ip[1], ip[2], ip[3])
}

// restart puts a new process in the place of the old one.
func (n *node) restart() {
	n.reads = reads{network: true, enumerate: true}
	for _, e := range n.sim.Endpoints() {
		n.reads.unknown = append(n.reads.unknown, e.ID)
	}
	n.dp = dataplane.New(dataplane.Config{
		Client: n.sim, Node: "n1", Now: n.clock, GracePeriod: gracePeriod, MaxBatchedACLs: batch,
	})
}

// apply applies a transaction, and empty ones until everything is in HNS.
func (n *node) apply(tx *dataplane.Transaction) {
	n.t.Helper()
	for range 50 {
		report, err := n.dp.ApplyDataplane(n.t.Context(), tx)
		if err != nil || len(report.Errors) > 0 {
			n.t.Fatal(err, report.Errors)
		}
		if report.Converged() {
			return
		}
		n.pass(report.RetryAfter)
		tx = dataplane.NewTransaction()
	}
	n.t.Fatal("not converged")
}

// cost applies transactions and returns what they took. It fails when one asks HNS for
// anything else than the model says.
func (n *node) cost(txs ...*dataplane.Transaction) cost {
	n.t.Helper()
	sum := cost{counts: counts{calls: map[string]int{}}}
	for _, tx := range txs {
		before := stateOf(n.sim)
		n.take()
		n.apply(tx)
		took := n.take()
		require.Equal(n.t, expected(before, stateOf(n.sim), n.reads), took.counts)
		n.reads = reads{}
		for op, calls := range took.calls {
			sum.calls[op] += calls
		}
		sum.dll += took.dll
		sum.sent += took.sent
	}
	return sum
}
