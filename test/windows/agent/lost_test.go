//go:build linux

package agent

import (
	"fmt"
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// pidPoll is how often npm.exe looks at the process of the service hns.
const pidPoll = 10 * time.Second

// The process of the service hns is another one: HNS is read at once, long
// before the next round of the reconciler.
func TestScenario_B6_HNSServiceRestarts(t *testing.T) {
	p := begin(t)
	h := newHost(t, azure())
	shop(t, h)
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
	h.waitShop(false)
	before := h.Sim().Dump()
	p.control(t, "stop")
	running = false
	h.Sim().Restart(true)
	p.control(t, "start")
	running = true
	require.NotEqual(t, before, h.Sim().Dump(), "HNS lost everything")
	eventually(t, 2*pidPoll, func() string {
		if now := h.Sim().Dump(); now != before {
			return "HNS has not what it had: " + now
		}
		return ""
	})
	require.Contains(t, n.said(), "HNS was restarted, reading what it has")
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
