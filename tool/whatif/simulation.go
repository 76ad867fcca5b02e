package whatif

import (
	"context"
	"net/netip"
	"time"

	"github.com/winnpm/winnpm/pkg/dataplane"
	"github.com/winnpm/winnpm/pkg/recorder"
	"github.com/winnpm/winnpm/pkg/state"
	"github.com/winnpm/winnpm/tool/hnssim"
)

// Setup configures a simulated node.
type Setup struct {
	Node      string
	Addrs     []netip.Addr       // addresses of the node
	Local     func(Pod) bool     // reports whether a pod runs on the node
	Rivals    bool               // every pod that claims an address has an endpoint, not only the first
	Unchecked bool               // as dataplane.Config.Unchecked
	Recorder  *recorder.Recorder // may be nil
}

// Simulation is a simulated node with a dataplane that has programmed a world.
type Simulation struct {
	Setup
	Sim       *hnssim.Sim
	Dataplane *dataplane.Dataplane

	apply func(context.Context, *dataplane.Transaction) (state.Report, error)
	world World // the world that is programmed
	now   time.Time
}

// Simulate programs the world on a simulated node, whose clock starts at World.Now. It also returns the
// report of the first transaction.
func (w World) Simulate(ctx context.Context, s Setup) (*Simulation, state.Report, error) {
	n := &Simulation{Setup: s, Sim: hnssim.New(hnssim.Options{}), now: w.Now}
	cfg := dataplane.Config{Node: s.Node, Unchecked: s.Unchecked, Client: n.Sim, Now: func() time.Time { return n.now }}
	if s.Recorder != nil {
		cfg.Client = s.Recorder.Client(n.Sim)
	}
	n.Dataplane = dataplane.New(cfg)
	n.apply = n.Dataplane.ApplyDataplane
	if s.Recorder != nil {
		n.apply = s.Recorder.Dataplane(n.Dataplane).ApplyDataplane
	}
	report, err := n.program(ctx, w)
	return n, report, err
}

// mostTries limits the transactions of one change.
const mostTries = 8

// program programs another world: it applies the difference, and then empty transactions until the
// dataplane has converged. It advances the clock instead of waiting. It returns the report of the first
// transaction. After mostTries transactions it gives up, and the dataplane's warnings tell what is missing.
func (n *Simulation) program(ctx context.Context, after World) (first state.Report, err error) {
	if err := after.SetEndpoints(n.Sim, n.Local, n.Rivals); err != nil {
		return first, err
	}
	tx := n.world.transaction(after, n.Local)
	tx.SetNodeAddrs(n.Addrs)
	n.world = after
	for try := range mostTries {
		report, err := n.apply(ctx, tx)
		if try == 0 {
			first = report
		}
		if err != nil || report.Converged() {
			return first, err
		}
		n.now = n.now.Add(report.RetryAfter)
		tx = dataplane.NewTransaction()
	}
	return first, nil
}
