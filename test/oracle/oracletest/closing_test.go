package oracletest

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/winnpm/winnpm/pkg/controllers"
	"github.com/winnpm/winnpm/pkg/dataplane"
	"github.com/winnpm/winnpm/pkg/desired"
	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/pkg/policy"
	"github.com/winnpm/winnpm/test/effort"
	"github.com/winnpm/winnpm/test/oracle"
	"github.com/winnpm/winnpm/test/oracle/gen"
	"github.com/winnpm/winnpm/tool/hnssim"
)

// TestClosingNeverOpens: whichever objects of a random cluster are over their budgets, no
// connection is allowed that would not be allowed without budgets.
func TestClosingNeverOpens(t *testing.T) {
	effort.Checks(t, effort.Of(5, 100))
	fewer := 0
	rapid.Check(t, func(t *rapid.T) {
		g := gen.New(t, rapid.Bool().Draw(t, "tiers"))
		c, s := g.Cluster(), drawSetup(t)
		without, with := newWorld(t, s), newWorld(t, s)
		without.start(c, true)
		with.plug(c, true)
		with.settle(with.apply(overBudget(g, c)))

		probes := g.Probes(3)
		for _, endpoint := range with.sim.Endpoints() {
			own := ipv4Of(endpoint.Addrs)
			if !own.IsValid() {
				continue
			}
			for _, other := range gen.Ends(c) {
				for _, probe := range probes {
					in := hnssim.Packet{Src: other, Dst: own, Protocol: protocolNumbers[probe.Protocol], DstPort: probe.Port}
					out := in
					out.Src, out.Dst = in.Dst, in.Src
					for dir, packet := range map[hns.Direction]hnssim.Packet{hns.In: in, hns.Out: out} {
						open, err := without.sim.Trace(endpoint.ID, dir, packet)
						require.NoError(t, err)
						closed, err := with.sim.Trace(endpoint.ID, dir, packet)
						require.NoError(t, err)
						if closed.Allowed && !open.Allowed {
							with.fail(c, "%s %+v at %s passes because an object is over its budget", dir, packet, endpoint.ID)
						}
						if open.Allowed && !closed.Allowed {
							fewer++
						}
					}
				}
			}
		}
	})
	ever(t, fewer, "nothing was ever closed")
}

// overBudget returns the transaction of a cluster in which some objects are over their budgets.
func overBudget(g *gen.Gen, c oracle.Cluster) *dataplane.Transaction {
	tx := dataplane.NewTransaction()
	for _, e := range events(oracle.Cluster{}, c, true) {
		e.tell(tx)
	}
	for i := range c.Pods {
		if g.Flip("pod over its budget") {
			p := controllers.PodFrom(&c.Pods[i], gen.Node)
			p.Labels, p.Ports, p.OverBudget = nil, nil, "too many labels"
			tx.SetPod(p)
		}
	}
	for _, ns := range c.Namespaces {
		if g.Flip("namespace over its budget") {
			tx.SetNamespace(desired.Namespace{Name: ns.Name, OverBudget: "too many labels"})
		}
	}
	for i := range c.Policies {
		if g.Flip("policy over its budget") {
			np := c.Policies[i].DeepCopy()
			np.Spec = policy.Close(&np.Spec, "too much")
			tx.SetPolicy(np)
		}
	}
	return tx
}
