//go:build linux

package agent

import (
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/winnpm/winnpm/test/windows/hnsd"
)

// stopped bounds how long a clean end takes.
const stopped = 15 * time.Second

// Ctrl-C ends npm.exe cleanly, and leaves HNS as it is: pods stay protected
// while no agent runs.
func TestCtrlC(t *testing.T) {
	begin(t)
	h := newHost(t, azure())
	shop(t, h)
	n := start(t, ownNode, h.addr, options{})
	n.waitReady()
	h.waitVerdicts(shared.kube, ownAddr)
	before := h.state()
	h.ResetCounts()
	n.interrupt()
	require.Zero(t, n.wait(stopped), n.said())
	require.Equal(t, before, h.state())
	require.Zero(t, h.writes())
	require.Empty(t, h.OpenHandles())
	require.NotContains(t, n.said(), "panic")
}

// A call that never returns does not keep npm.exe from ending.
func TestCtrlCWhileHNSHangs(t *testing.T) {
	begin(t)
	h := newHost(t, azure())
	w := shop(t, h)
	n := start(t, ownNode, h.addr, options{})
	n.waitReady()
	hangs := make(chan struct{})
	h.Inject(hnsd.Fault{Proc: "HcnModifyEndpoint", Hang: true, Do: func() { close(hangs) }})
	t.Cleanup(h.ReleaseHangs)
	w.policy("shop", "far", fromFar)
	waitFor(t, hangs, "the call that hangs")
	n.interrupt()
	require.Zero(t, n.wait(stopped), n.said())
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
