package windows

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/pkg/hns/hcsadapter"
	"github.com/winnpm/winnpm/test/hnstest"
)

// TestAgent: npm.exe programs this HNS from an API server. Killed and started again it writes
// nothing, what was in force stays, and when the policy goes, so do its rules. It needs no packet.
func TestAgent(t *testing.T) {
	a := newAPI(t)
	cni := nodeOf(t)
	adapter, err := hcsadapter.New(hcsadapter.Options{Network: hnstest.NetworkName})
	require.NoError(t, err)
	t.Cleanup(adapter.Close)
	pods := map[string]string{}
	ids := map[string]string{}
	for i, name := range []string{"server", "client"} {
		addr := nth(4 + i)
		pods[name] = addr.String()
		ids[name], err = cni.CreateEndpoint(hnstest.Endpoint{Addrs: []netip.Addr{addr}})
		require.NoError(t, err)
	}
	a.cluster(t, "10.90.0.1", pods)
	a.isolate(t, onlyClient, 80)

	n := startNPM(t, a.kubeconfig, hnstest.NetworkName)
	var before []string
	eventually(t, func() string {
		before = ofHNS(t, adapter, ids)
		if !slices.ContainsFunc(before, func(line string) bool { return strings.HasPrefix(line, "server: Block In ") }) {
			return "no rule blocks: " + strings.Join(before, "\n")
		}
		return ""
	})
	writes, _ := n.calls()
	require.NotEmpty(t, writes, "the first start writes")
	t.Logf("npm.exe wrote %v:\n%s", writes, strings.Join(before, "\n"))

	n.kill()
	began := time.Now()
	n = startNPM(t, a.kubeconfig, hnstest.NetworkName)
	took := time.Since(began)
	_, reads := n.calls()
	require.NotEmpty(t, reads)
	rounds := len(reads)
	eventually(t, func() string { // the reconciler has looked at everything again
		if _, now := n.calls(); slices.Equal(now, reads) {
			return "nobody looked at HNS again"
		}
		return ""
	})
	writes, _ = n.calls()
	require.Empty(t, writes, "a restart writes nothing")
	require.Equal(t, before, ofHNS(t, adapter, ids))
	t.Logf("restarted: ready after %v, %d kinds of reads, 0 writes", took.Round(time.Millisecond), rounds)

	a.remove(t, policiesPath+"/server")
	eventually(t, func() string {
		now := ofHNS(t, adapter, ids)
		if slices.ContainsFunc(now, func(line string) bool { return strings.HasPrefix(line, "server: Block In ") }) {
			return "the rules are still there: " + strings.Join(now, "\n")
		}
		return ""
	})
}

// ofHNS is what there is of ours: sets, and rules by the name of their pod, sorted.
func ofHNS(t *testing.T, client hns.Client, ids map[string]string) []string {
	t.Helper()
	ctx := context.WithoutCancel(t.Context())
	network, err := client.Network(ctx)
	require.NoError(t, err)
	var lines []string
	for _, s := range network.Sets {
		lines = append(lines, fmt.Sprintf("set %s %s %v", s.Name, s.Type, slices.Sorted(slices.Values(s.Values))))
	}
	for name, id := range ids {
		e, err := client.GetEndpoint(ctx, id)
		require.NoError(t, err)
		acls, _ := e.Split()
		for _, acl := range acls {
			lines = append(lines, fmt.Sprintf("%s: %s %s %d %s local %s:%s remote %s:%s", name, acl.Action, acl.Direction, acl.Priority, acl.Protocols,
				acl.LocalAddresses, acl.LocalPorts, acl.RemoteAddresses, acl.RemotePorts))
		}
	}
	slices.Sort(lines)
	return lines
}
