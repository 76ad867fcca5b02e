//go:build linux

package agent

import (
	"fmt"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/winnpm/winnpm/test/windows/hnsd"
	"github.com/winnpm/winnpm/tool/hnssim"
)

// Names and addresses that all tests use.
const (
	ownNode   = "win-1"
	otherNode = "win-2"
)

var (
	ownAddr   = netip.MustParseAddr("10.240.0.5")
	firstAddr = netip.MustParseAddr("10.1.0.1") // of the pods
)

// azure is the HNS of a node with azure-cni.
func azure() hnsd.Options { return hnsd.Options{Foreign: hnssim.DefaultForeign()} }

// addr returns the address of the i-th pod.
func addr(i int) netip.Addr {
	a := firstAddr
	for range i {
		a = a.Next()
	}
	return a
}

// size is how large a drawn cluster is.
type size struct{ namespaces, pods, local, policies int }

// drawn is a cluster that was drawn, and is in the API server.
type drawn struct {
	*world
	drawer
	pods     []pod // the local ones first
	policies int
}

// draw fills the API server and gives the local pods their endpoints.
func draw(t *testing.T, h *host, s size) *drawn {
	t.Helper()
	d := &drawn{world: newWorld(t), drawer: newDrawer(t), policies: s.policies}
	d.node(ownNode, ownAddr.String())
	for i := range s.namespaces {
		d.namespace(namespaceName(i), d.namespaceLabels())
	}
	for i := range s.pods {
		node := otherNode
		if i < s.local {
			node = ownNode
			h.plug(addr(i))
		}
		d.pods = append(d.pods, d.pod(namespaceName(i%s.namespaces), fmt.Sprintf("pod-%d", i), node, addr(i)))
	}
	d.world.pods(d.pods)
	for i := range s.policies {
		np := d.drawer.policy(namespaceName(i%s.namespaces), policyName(i), i)
		require.NoError(t, d.kube.create(t.Context(), policies, np.Namespace, np))
	}
	return d
}

func policyName(i int) string { return fmt.Sprintf("policy-%d", i) }

// npm.exe makes of 200 pods and 30 policies what NetworkPolicy means.
func TestVerdictsAreTheOracles(t *testing.T) {
	begin(t)
	h := newHost(t, azure())
	d := draw(t, h, size{namespaces: 8, pods: 200, local: 20, policies: 30})
	n := start(t, ownNode, h.addr, options{flags: calm})
	n.waitReady()
	sum := h.waitVerdicts(d.kube, ownAddr)
	t.Logf("%d packets allowed, %d denied; %d sets; DLL calls: %v", sum.allowed, sum.denied, len(h.sets()), h.Counts())
	require.Greater(t, sum.denied, 1000, "a cluster without isolation proves little")
	require.Greater(t, sum.allowed, 1000)

	dump := n.dump()
	require.Len(t, dump.Policies, 30)
	require.Len(t, dump.Pods, 200)
	require.Empty(t, dump.Pending)
	require.Empty(t, dump.Warnings)
	require.Empty(t, h.Failed())
	require.Zero(t, h.open())

	metrics := n.page("/cluster-metrics")
	rules := 0
	for local := range h.endpoints {
		rules += len(h.ours(local))
		require.Contains(t, n.said(), fmt.Sprintf(`"updating endpoint cache to include %v: %s"`, local, h.endpoints[local]))
	}
	for name, want := range map[string]int{
		"npm_num_policies": 30, "npm_pods_watched": 200, "npm_num_ipsets": len(h.sets()), "npm_num_iptables_rules": rules,
	} {
		require.Contains(t, metrics, fmt.Sprintf("\n%s %d\n", name, want))
	}
}
