//go:build linux

package agent

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// A second npm.exe on the node waits, reads nothing and writes nothing, and goes
// on when the first is gone, even if that was killed.
func TestSecondAgentWaits(t *testing.T) {
	begin(t)
	h := newHost(t, azure())
	w := shop(t, h)
	first := start(t, ownNode, h.addr, options{flags: calm})
	first.waitReady()
	h.waitVerdicts(w.kube, ownAddr)
	h.ResetCounts()

	second := start(t, ownNode, h.addr, options{flags: calm})
	waits := regexp.MustCompile(`^waiting for another agent on this node to end: process \d+ \(npm\.exe\)\n$`)
	eventually(t, settle, func() string {
		if said := second.check("/readyz"); !waits.MatchString(said) {
			return "/readyz says: " + said
		}
		return second.check("/healthz")
	})
	require.Regexp(t, waits, second.check("/readyz"))
	require.Empty(t, first.check("/readyz"))
	require.Empty(t, second.dump().Sets)
	require.Zero(t, h.Counts()["HcnEnumerateNetworks"]+h.Counts()["HcnEnumerateEndpoints"], "%v", h.Counts())

	first.kill()
	second.waitReady()
	require.Zero(t, h.writes(), "nothing had changed: %v", h.Counts())
	require.Positive(t, h.Counts()["HcnEnumerateEndpoints"])
}

// heldByOlder has another process hold what older versions lock, as long as the
// test runs or until it is ended.
func heldByOlder(t *testing.T) (end func()) {
	t.Helper()
	p := begin(t)
	cmd := exec.Command(p.wine, p.exe("nodelock"))
	cmd.Env = append(p.environ(), "NODELOCK_TEST_HOLDS=older:WinNPM")
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	stdin, err := cmd.StdinPipe() // it holds the lock until this is closed
	require.NoError(t, err)
	stdout, err := os.Create(filepath.Join(t.TempDir(), "stdout"))
	require.NoError(t, err)
	defer stdout.Close()
	cmd.Stdout = stdout
	require.NoError(t, cmd.Start())
	end = func() {
		_ = stdin.Close() // it may have ended
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // "killed"
	}
	t.Cleanup(end)
	eventually(t, settle, func() string {
		said, err := os.ReadFile(stdout.Name())
		require.NoError(t, err)
		if !strings.HasPrefix(string(said), "held") {
			return "it says " + string(said)
		}
		return ""
	})
	return end
}

// An agent of before that holds the older lock does not work at the same time.
func TestOlderAgentIsWaitedFor(t *testing.T) {
	begin(t)
	h := newHost(t, azure())
	w := shop(t, h)
	end := heldByOlder(t)
	n := start(t, ownNode, h.addr, options{flags: calm})
	eventually(t, settle, func() string {
		if said := n.check("/readyz"); !strings.HasPrefix(said, "waiting for another agent on this node to end: ") {
			return "/readyz says: " + said
		}
		return ""
	})
	require.Zero(t, h.Counts()["HcnEnumerateEndpoints"], "%v", h.Counts())
	end()
	n.waitReady()
	h.waitVerdicts(w.kube, ownAddr)
}

// A process that takes the port keeps nobody from enforcing, and the agent from
// answering only as long as it has it.
func TestPortIsTaken(t *testing.T) {
	begin(t)
	h := newHost(t, azure())
	w := shop(t, h)
	squatter, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer squatter.Close()
	n := spawn(t, ownNode, h.addr, options{flags: append([]string{"--listen", squatter.Addr().String()}, calm...)})
	h.waitVerdicts(w.kube, ownAddr)
	eventually(t, settle, func() string { // it may enforce before it listens
		if strings.Contains(n.said(), "cannot listen, working without it and trying again") {
			return ""
		}
		return "it does not say that it cannot listen"
	})
	require.NoError(t, squatter.Close())
	n.url = "http://" + squatter.Addr().String()
	n.waitReady()
	require.Equal(t, 1, strings.Count(n.said(), "cannot listen"))
}
