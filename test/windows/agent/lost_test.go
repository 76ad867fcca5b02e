//go:build linux

package agent

import (
	"fmt"
	"os/exec"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/winnpm/winnpm/test/hnsfault"
)

// pidPoll is how often npm.exe looks at the process of the service hns.
const pidPoll = 10 * time.Second

// The process of the service hns is another one: HNS is read at once, long
// before the next round of the reconciler.
func TestScenario_B6_HNSServiceRestarts(t *testing.T) {
	p := begin(t)
	h := newHost(t, azure())
	w := shop(t, h)
	n := start(t, ownNode, h.addr, options{flags: calm}) // services end with the last program of a user
	p.control(t, "create", "binPath=", windowsPath(p.exe("hns")))
	t.Cleanup(func() { p.control(t, "delete") })
	p.control(t, "start")
	running := true
	t.Cleanup(func() {
		if running {
			p.control(t, "stop")
		}
	})
	n.waitReady()
	h.lose(w, n, 2*pidPoll, func() {
		p.control(t, "stop")
		running = false
		h.Sim().Restart(true)
		p.control(t, "start")
		running = true
	})
	require.Contains(t, n.said(), "HNS was restarted, reading what it has")
}

// lose has HNS lose everything of ours, and waits until it is back. It says for
// how long packets passed that policies deny.
func (h *host) lose(w *world, n *npm, limit time.Duration, restart func()) {
	h.t.Helper()
	h.waitVerdicts(w.kube, ownAddr)
	before := h.state()
	all := h.probes(h.known(w.kube, ownAddr))
	was := h.watch(all)
	restart()
	eventually(h.t, limit, func() string { return difference(before, h.state()) })
	open, longest := letThrough(h.Sim().Transitions())
	h.t.Logf("%d of %d probes must be denied and passed, for up to %v", open, len(all), longest.Round(time.Millisecond))
	denied := slices.DeleteFunc(slices.Clone(was), func(o hnsfault.Outcome) bool { return o == hnsfault.Allowed })
	require.Len(h.t, denied, open, "HNS lost everything")
	require.Positive(h.t, longest)
	require.Equal(h.t, was, h.Sim().Ask(all...))
	require.Positive(h.t, h.writes(), "there was nothing to repair")
	for _, x := range h.Sim().Transitions() {
		require.Equal(h.t, x.Op == "Restart", x.To == hnsfault.Allowed, "only what was lost is put back: %+v", x)
	}
	n.waitReady()
	h.waitVerdicts(w.kube, ownAddr)
}

// control gives the service manager a command about the service hns. It is given
// again while the manager refuses it: a service stops some time after it was told to.
func (p *programs) control(t *testing.T, command string, more ...string) {
	t.Helper()
	eventually(t, settle, func() string {
		cmd := exec.Command(p.wine, append([]string{"sc", command, "hns"}, more...)...)
		cmd.Env = p.environ()
		if err := cmd.Run(); err != nil {
			return fmt.Sprintf("sc %s: %v", command, err)
		}
		return ""
	})
}
