package scale

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/winnpm/winnpm/pkg/dataplane"
	"github.com/winnpm/winnpm/tool/hnssim"
)

const (
	batch       = 30 // ACLs in one Add, as by default
	gracePeriod = 5 * time.Minute
	interval    = 500 * time.Millisecond // from one transaction to the next under load
)

// node is one node: the dataplane on the meter.
type node struct {
	t     testing.TB
	world *world
	meter *meter
	dp    *dataplane.Dataplane
	reads reads // of the next transaction
}

// newNode returns a node whose HNS has an endpoint for each local pod.
func newNode(t testing.TB, w *world) *node {
	n := &node{t: t, world: w, meter: newMeter()}
	for _, p := range w.pods {
		if p.Local {
			n.plug(p.Addr)
		}
	}
	n.restart()
	return n
}

// plug gives an address an endpoint, as the CNI does.
func (n *node) plug(addr netip.Addr) {
	n.reads.enumerate = true
	n.reads.unknown = append(n.reads.unknown, endpointOf(addr))
	require.NoError(n.t, n.meter.sim.CreateEndpoint(hnssim.NewEndpoint{ID: endpointOf(addr), Addrs: []netip.Addr{addr}}))
}

// endpointOf returns the GUID of an address's endpoint.
func endpointOf(addr netip.Addr) string {
	ip := addr.As4()
	return fmt.Sprintf("%08x-5ca1-4e00-9000-0000%02x%02x%02x%02x", ip, ip[0], ip[1], ip[2], ip[3])
}

// restart puts a new process in the place of the old one.
func (n *node) restart() {
	n.reads = reads{network: true, enumerate: true}
	for _, e := range n.meter.sim.Endpoints() {
		n.reads.unknown = append(n.reads.unknown, e.ID)
	}
	n.dp = dataplane.New(dataplane.Config{
		Client: n.meter, Node: "n1", Now: n.meter.clock, GracePeriod: gracePeriod, MaxBatchedACLs: batch,
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
		n.meter.pass(report.RetryAfter)
		tx = dataplane.NewTransaction()
	}
	n.t.Fatal("not converged")
}

// cost applies transactions one after the other, each when an interval has
// passed since the one before began, and returns what they took. It fails when
// one asks HNS for anything else than the model says.
func (n *node) cost(txs ...*dataplane.Transaction) cost {
	n.t.Helper()
	var sum cost
	began := n.meter.clock()
	for i, tx := range txs {
		if early := began.Add(time.Duration(i) * interval).Sub(n.meter.clock()); early > 0 {
			n.meter.pass(early)
		}
		sum.join(n.transact(tx))
	}
	sum.fake = n.meter.clock().Sub(began)
	return sum
}

func (n *node) transact(tx *dataplane.Transaction) cost {
	n.t.Helper()
	before := stateOf(n.meter.sim)
	n.meter.take()
	used := usageOf(func() { n.apply(tx) })
	asked, simulator := n.meter.take()
	want := expected(before, stateOf(n.meter.sim), n.reads)
	n.reads = reads{}
	require.Equal(n.t, want, asked)
	return cost{counts: asked, events: tx.Len(), used: used.minus(simulator)}
}
