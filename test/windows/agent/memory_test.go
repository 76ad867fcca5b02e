//go:build linux

package agent

import (
	"fmt"
	"net/netip"
	"os"
	"regexp"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

// npm.exe occupies at most 100 MiB with 5,000 pods in the cluster, and leaves no handle of HNS open.
func TestMemory(t *testing.T) {
	const count, limit = 5_000, 100 << 20
	begin(t)
	h := newHost(t, azure())
	w := shop(t, h)
	w.namespace("many", nil)
	all := make([]pod, count)
	for i := range all {
		all[i] = pod{
			namespace: "many", name: fmt.Sprintf("pod-%d", i), node: otherNode, addr: netip.AddrFrom4([4]byte{10, 2, byte(i / 250), byte(1 + i%250)}),
			labels: map[string]string{"app": fmt.Sprintf("app-%d", i%200), "tier": "back"},
		}
	}
	w.pods(all)
	w.policy("shop", "from-many", `{podSelector: {matchLabels: {app: web}}, ingress: [{from: [{namespaceSelector: {}, podSelector: {matchLabels: {tier: back}}}]}]}`)
	n := start(t, ownNode, h.addr, options{})
	n.waitReady()
	h.waitShop(false)
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", n.cmd.Process.Pid))
	require.NoError(t, err)
	found := regexp.MustCompile(`VmHWM:\s+(\d+) kB`).FindSubmatch(status)
	require.NotNil(t, found, "%s", status)
	most, err := strconv.Atoi(string(found[1]))
	require.NoError(t, err)
	t.Logf("%d pods: at most %d KiB resident", count, most)
	require.LessOrEqual(t, most<<10, limit)
	require.Greater(t, len(n.dump().Pods), count)
	n.interrupt()
	require.Zero(t, n.wait(stopped), n.said())
	require.Zero(t, h.OpenHandles())
}
