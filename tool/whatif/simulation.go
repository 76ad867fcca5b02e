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

// Setup says which part of a world a simulated node programs, and how.
type Setup struct {
	Node      string
	Addrs     []netip.Addr       // of the node
	Local     func(Pod) bool     // reports which pods run there
	Rivals    bool               // all pods that claim an address have an endpoint, not only the first
	Unchecked bool               // as dataplane.Config.Unchecked
	Recorder  *recorder.Recorder // records the transactions; nil: nothing does
}

// Simulation is a simulated node with a dataplane that has programmed a world.
type Simulation struct {
	Setup
	Sim       *hnssim.Sim
	Dataplane *dataplane.Dataplane

	apply func(context.Context, *dataplane.Transaction) (state.Report, error)
	world World // that is programmed
	now   time.Time
}

// Simulate programs the world on a simulated node, whose clock begins with World.Now. It returns also the
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

// mostTries bounds the transactions of one change.
const mostTries = 8

// program makes the world that is programmed another one: it applies the difference, and then empty
// transactions until everything that can be programmed is. The pauses between them are skipped. It
// returns the report of the first transaction. After mostTries transactions the rest is among the warnings
// of the dataplane.
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
