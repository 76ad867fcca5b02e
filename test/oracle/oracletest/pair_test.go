package oracletest

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/pkg/policy"
	"github.com/winnpm/winnpm/test/oracle/gen"
	"github.com/winnpm/winnpm/tool/explain"
)

// TestPair: of a random cluster, whose writes failed in part, a pair of ends answers on every
// port what the cluster answers from all rules; and where no rule of the pair begins or ends,
// a port has the verdict of the one before.
func TestPair(t *testing.T) {
	seen := map[string]int{}
	check(t, func(t *rapid.T) {
		g := gen.New(t)
		if rapid.Bool().Draw(t, "tiers") {
			g = gen.NewTiered(t)
		}
		w := newWorld(t, drawSetup(t))
		before := g.Cluster()
		w.start(before, true)
		if rapid.Bool().Draw(t, "trouble") {
			w.changeInTrouble(t, g, before)
		}
		c := explain.New(w.dp.Dump())
		probes := g.Probes(before, 3)
		for _, src := range gen.Ends(before) {
			for _, dst := range gen.Ends(before) {
				from, errFrom := c.End(src.String())
				to, errTo := c.End(dst.String())
				require.NoError(w.t, errFrom)
				require.NoError(w.t, errTo)
				x := paired{w, c, from, to, c.Pair(from, to), seen}
				for _, probe := range probes {
					x.sameAsCluster(policy.Protocol(probe.Protocol), probe.Port)
				}
			}
		}
	})
	for _, what := range []string{"allowed", "blocked", "unknown", "fewer rules", "between edges"} {
		ever(t, seen[what], "never seen: "+what)
	}
}

// paired is a pair of ends, with the cluster that it is held against.
type paired struct {
	w        *world
	c        *explain.Cluster
	from, to explain.End
	pair     *explain.Pair
	seen     map[string]int
}

// sameAsCluster asks for one port, and for the last one before it at which the verdict may
// change.
func (x paired) sameAsCluster(protocol policy.Protocol, port uint16) {
	first, rules := uint16(1), x.pair.Rules()
	for _, a := range rules {
		ports, ok := hns.ParsePorts(a.DstPorts())
		require.True(x.w.t, ok)
		number := map[policy.Protocol]string{policy.TCP: "6", policy.UDP: "17", policy.SCTP: "132"}[protocol]
		if a.Protocols != "" && a.Protocols != number {
			continue
		}
		for _, r := range ports {
			for _, edge := range []int{int(r[0]), int(r[1]) + 1} {
				if int(first) < edge && edge <= int(port) {
					first = uint16(edge) //nolint:gosec // at most the port
				}
			}
		}
	}
	egress, ingress := x.c.Between(x.from, x.to, port, protocol)
	want := []half{x.half(egress), x.half(ingress)}
	egress, ingress = x.pair.Halves(port, protocol)
	require.Equal(x.w.t, want, []half{x.half(egress), x.half(ingress)}, "%s -> %s:%d/%s", x.from.Name, x.to.Name, port, protocol)
	// By whom may change at other ports too: a tier that allows what is open anyway has no rule.
	egress, ingress = x.pair.Halves(first, protocol)
	require.Equal(x.w.t, []explain.Verdict{want[0].verdict, want[1].verdict}, []explain.Verdict{egress.Actual, ingress.Actual},
		"%s -> %s:%d/%s, as at %d", x.from.Name, x.to.Name, first, protocol, port)
	x.seen[string(want[0].verdict)]++
	x.seen[string(want[1].verdict)]++
	if first < port {
		x.seen["between edges"]++
	}
	for _, ep := range x.c.Dump().Endpoints {
		if x.from.Pod() != nil && ep.Pod == x.from.Pod().Pod && len(ep.Applied) > len(rules) {
			x.seen["fewer rules"]++
		}
	}
}

// half is what is held against each other of an explain.Half.
type half struct {
	judged   bool
	verdict  explain.Verdict
	policies []string
}

func (x paired) half(h explain.Half) half {
	return half{h.Judged, h.Actual, x.c.Policies(h)}
}
