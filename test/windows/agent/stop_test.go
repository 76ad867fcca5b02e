//go:build linux

package agent

import (
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// stopped bounds how long a clean end takes.
const stopped = 15 * time.Second

// Ctrl-C ends npm.exe cleanly, and leaves HNS as it is: pods stay protected
// while no agent runs.
func TestCtrlC(t *testing.T) {
	h, _, n := openShop(t)
	before := h.Sim().Dump()
	writes := h.writes()
	n.interrupt()
	require.Zero(t, n.wait(stopped), n.said())
	require.Equal(t, before, h.Sim().Dump())
	require.Equal(t, writes, h.writes())
	require.Zero(t, h.OpenHandles())
	require.NotContains(t, n.said(), "panic")
}

// interrupt is Ctrl-C in the console of npm.exe.
func (n *npm) interrupt() {
	n.t.Helper()
	require.NoError(n.t, n.cmd.Process.Signal(syscall.SIGINT))
}

// waitFor waits until a channel is closed.
func waitFor(t *testing.T, ch <-chan struct{}, what string) {
	t.Helper()
	select {
	case <-ch:
	case <-time.After(settle):
		require.FailNow(t, "not seen: "+what)
	}
}
