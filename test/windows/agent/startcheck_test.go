//go:build linux

package agent

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/winnpm/winnpm/pkg/hns/canary"
	"github.com/winnpm/winnpm/test/windows/hnsd"
)

// TestAgentStartCheck: npm.exe reads at its start what npm doctor reads, writes nothing by
// it, and says in /readyz what HNS does otherwise.
func TestAgentStartCheck(t *testing.T) {
	begin(t)
	h := newHost(t, azure())
	w := shop(t, h)
	n := start(t, ownNode, h.addr, options{})
	n.waitReady()
	h.waitVerdicts(w.kube, ownAddr)
	n.waitStartCheck()
	require.Contains(t, n.said(), `"msg":"HNS was asked what WinNPM assumes of it","refuted":0`)
	require.Equal(t, "ok\n", n.page("/readyz"))

	n.kill()
	h.ResetCounts()
	h.Inject(hnsd.Fault{Proc: "HNSCall", Times: -1, Code: 0x80004005})
	n = start(t, ownNode, h.addr, options{})
	n.waitReady()
	const says = "HNS does otherwise than WinNPM assumes, run npm doctor: W12 (the older API tells the version of HNS): it does not: 0x80004005 E_FAIL"
	eventually(t, settle, func() string { return lacks(n.page("/readyz"), says) })
	require.Contains(t, n.page("/node-metrics"), `npm_hns_refuted_assumptions{check="read"} 1`)
	require.Zero(t, h.writes())
}

// waitStartCheck waits until npm.exe has had its look at HNS.
func (n *npm) waitStartCheck() {
	n.t.Helper()
	eventually(n.t, settle, func() string { return lacks(n.said(), `"msg":"HNS was asked what WinNPM assumes of it"`) })
}

// lacks says that a text is not there yet.
func lacks(text, part string) string {
	if strings.Contains(text, part) {
		return ""
	}
	return "lacks " + part
}

// TestAgentCanary: before its first write npm.exe adds, reads and removes a set of its own.
// What HNS does otherwise is in /readyz, and the pods are isolated all the same. One that was
// left is taken away.
func TestAgentCanary(t *testing.T) {
	begin(t)
	h := newHost(t, azure())
	left := func() bool { return slices.ContainsFunc(h.Sim().Sets(), canary.Is) }
	lift := h.Refuse(func(request string) bool {
		return strings.Contains(request, canary.ID) && strings.Contains(request, `"Remove"`)
	}, 0x803b002c)
	w := shop(t, h)
	n := start(t, ownNode, h.addr, options{})
	n.waitReady()
	h.waitVerdicts(w.kube, ownAddr)
	body := n.page("/readyz")
	require.Contains(t, body, "HNS does otherwise than WinNPM assumes, run npm doctor: a remove of a set that nothing uses is refused: ")
	require.Contains(t, body, "the set winnpm-canary may be left in HNS")
	require.True(t, left())

	lift()
	n.kill()
	h.ResetCounts()
	n = start(t, ownNode, h.addr, options{})
	n.waitReady()
	require.Zero(t, h.writes(), "a restart with nothing changed")
	require.True(t, left(), "it is nobody's")
	w.policy("shop", "far", fromFar)
	h.waitVerdicts(w.kube, ownAddr)
	require.False(t, left())
	require.Equal(t, "ok\n", n.page("/readyz"))
}
