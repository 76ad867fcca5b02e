//go:build linux

package agent

import (
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/winnpm/winnpm/pkg/acl"
	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/test/windows/hnsd"
	"github.com/winnpm/winnpm/tool/hnssim"
)

// On a network called Calico every local pod has the base rules, isolated or
// not, and no pod reaches the wire server.
func TestCalicoNetwork(t *testing.T) {
	begin(t)
	h := newHost(t, hnsd.Options{Network: "Calico"}) // whose CNI leaves endpoints bare
	w := shop(t, h)
	n := start(t, ownNode, h.addr, options{
		// As editors of Windows write it.
		config: "\ufeff{\r\n  \"WindowsNetworkName\": \"Calico\",\r\n  \"ApplyIntervalInMilliseconds\": 20\r\n}\r\n",
	})
	n.waitReady()
	h.waitVerdicts(w.kube, ownAddr)
	base := acl.CalicoBase()
	require.NotEmpty(t, base)
	for _, local := range []netip.Addr{webAddr, dbAddr} {
		ours := h.ours(local)
		for _, acl := range base {
			require.Contains(t, ours, acl.Canonical(), "%v", local)
		}
		v, err := h.Sim().Trace(h.endpoints[local], hns.Out, hnssim.Packet{
			Src: local, Dst: netip.MustParseAddr("168.63.129.16"), Protocol: 6, DstPort: 80,
		})
		require.NoError(t, err)
		require.False(t, v.Allowed, "%v reaches the wire server", local)
	}
	require.Len(t, h.ours(webAddr), len(base), "web is not isolated")
	require.Greater(t, len(h.ours(dbAddr)), len(base))
}
