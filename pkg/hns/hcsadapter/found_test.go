package hcsadapter

import (
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/winnpm/winnpm/pkg/hns"
	netpol "github.com/winnpm/winnpm/pkg/policy"
	"github.com/winnpm/winnpm/test/hnsfault"
	"github.com/winnpm/winnpm/test/looks"
	"github.com/winnpm/winnpm/test/windows/hnsd"
	"github.com/winnpm/winnpm/tool/hnssim"
)

// twoNetworks is a node with pods on the networks cbr0 (0) and vxlan0 (1).
type twoNetworks struct {
	*simNode
	nets [2]*hnsfault.Sim
}

func newTwoNetworks(t *testing.T) *twoNetworks {
	t.Helper()
	two := &twoNetworks{simNode: newSimNode(t, hnsd.Options{Bare: true})}
	for i, name := range []string{"cbr0", "vxlan0"} {
		var err error
		two.nets[i], err = two.AddNetwork("", name, "L2Bridge")
		require.NoError(t, err)
	}
	return two
}

// endpoint makes the endpoint of a pod on one of the networks.
func (w *twoNetworks) endpoint(t *testing.T, network int, addr string) {
	t.Helper()
	name := []string{"cbr0", "vxlan0"}[network]
	require.NoError(t, w.AddEndpoint(hnssim.SimEndpoint{ID: "ep-" + addr, Network: name, Addrs: []netip.Addr{netip.MustParseAddr(addr)}}))
}

// TestSeveralNetworks: pods on two networks at once have their policies, sets are on both
// networks, what one of them loses comes back, and one that fails does not stop the other
// for good.
func TestSeveralNetworks(t *testing.T) {
	inPlays(t, func(p *plays) {
		for i, addr := range []string{"10.1.0.1", "10.2.0.1"} {
			p.endpoint(p.t, i, addr)
			p.pod(addr, "")
		}
		passes := func(from string) [2]bool {
			return [2]bool{p.passes(from, 0, "10.1.0.1"), p.passes(from, 1, "10.2.0.1")}
		}
		look := func() {
			_, err := p.dp.Observe(p.t.Context(), looks.All(p.dp))
			require.NoError(p.t, err)
			p.apply(time.Minute)
		}
		p.peer("10.3.0.1")
		p.apply(time.Minute)
		require.Equal(p.t, [2]bool{true, true}, passes("10.3.0.1"))
		require.Equal(p.t, [2]bool{}, passes("10.3.0.2"))
		require.Equal(p.t, p.nets[0].Sets(), p.nets[1].Sets())
		require.NotEmpty(p.t, p.nets[0].Sets())
		before := p.writes(0) + p.writes(1)
		look()
		require.Equal(p.t, before, p.writes(0)+p.writes(1), "nothing is to be written")

		// One network loses a member.
		broken := p.nets[1].Sets()
		broken[0].Values = nil
		require.NoError(p.t, p.nets[1].ModifySets(p.t.Context(), hns.Update, broken[:1]))
		require.Equal(p.t, [2]bool{true, false}, passes("10.3.0.1"))
		look()
		require.Equal(p.t, [2]bool{true, true}, passes("10.3.0.1"))
		require.Equal(p.t, p.nets[0].Sets(), p.nets[1].Sets())

		// A network whose sets cannot be written for a while.
		p.nets[1].Inject(hnsfault.Fault{Op: hns.OpSets(hns.Update), Times: 3})
		p.peer("10.3.0.2")
		p.apply(3 * time.Minute)
		require.Equal(p.t, [2]bool{true, true}, passes("10.3.0.2"))

		// All goes: nothing of ours is left on either.
		p.tx.DeletePolicy(netpol.Key{Namespace: "x", Name: "deny"})
		p.apply(time.Hour)
		for _, n := range p.nets {
			require.Empty(p.t, n.Sets())
		}
		require.Equal(p.t, [2]bool{true, true}, passes("10.9.9.9"))
	})
}
