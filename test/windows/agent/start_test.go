//go:build linux

package agent

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/winnpm/winnpm/test/windows/hnsd"
)

// npm.exe waits for HNS and for its network, says so, and goes on when they
// are there.
func TestWaitsForItsNetwork(t *testing.T) {
	begin(t)
	at := freeAddr(t)
	h := newHostAt(t, at, azure())
	w := shop(t, h)
	h.stop() // nobody serves at that address

	n := start(t, ownNode, at, options{})
	waiting := func() string {
		if said := n.check("/readyz"); !strings.Contains(said, `waiting for the HNS network of the pods`) {
			return "/readyz says: " + said
		}
		return n.check("/healthz")
	}
	eventually(t, settle, waiting)

	other := newHostAt(t, at, hnsd.Options{Network: "other"})
	eventually(t, settle, func() string {
		if other.Counts()["HcnEnumerateNetworks"] == 0 {
			return "npm.exe has not asked the service that came up"
		}
		return ""
	})
	eventually(t, settle, waiting)
	require.Empty(t, n.dump().Sets)
	other.stop()

	found := newHostAt(t, at, azure())
	found.plug(webAddr, dbAddr)
	found.waitVerdicts(w.kube, ownAddr)
	n.waitReady()
	require.NotEmpty(t, found.ours(dbAddr))
}

// freeAddr returns an address where nobody listens.
func freeAddr(t *testing.T) string {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, l.Close())
	return l.Addr().String()
}

// A system without HNS is told apart from one whose HNS is not up yet: one line,
// exit code 1.
func TestNoHNSOnThisSystem(t *testing.T) {
	p := begin(t)
	h := newHost(t, azure())
	system32 := filepath.Join(p.prefix, "drive_c", "windows", "system32")
	dll := filepath.Join(system32, "computenetwork.dll")
	for _, tc := range []struct {
		name  string
		place func(t *testing.T) // puts something, or nothing, where the DLL was
	}{
		{"no DLL", func(*testing.T) {}},
		{"a DLL without the exports", func(t *testing.T) {
			empty, err := os.ReadFile(filepath.Join(p.bin, "empty.dll"))
			require.NoError(t, err)
			require.NoError(t, os.WriteFile(dll, empty, 0o600))
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			content, err := os.ReadFile(dll)
			require.NoError(t, err)
			require.NoError(t, os.Remove(dll))
			t.Cleanup(func() { require.NoError(t, os.WriteFile(dll, content, 0o755)) })
			tc.place(t)

			n := spawn(t, ownNode, h.addr, options{})
			require.Contains(t, n.refusal(), "computenetwork.dll")
		})
	}
}

// A configuration that cannot be meant is one line and exit code 1.
func TestBadConfiguration(t *testing.T) {
	begin(t)
	h := newHost(t, azure())
	for config, want := range map[string]string{
		`{"ListeningPort": "many"}`:                 "ListeningPort",
		`{"Toggles": {"EnablePprof": "sometimes"}}`: "EnablePprof",
		`{"ListeningPort": 10091`:                   "azure-npm.json",
	} {
		n := spawn(t, ownNode, h.addr, options{config: config})
		require.Contains(t, n.refusal(), want)
	}
}

// refusal waits until npm.exe has ended with exit code 1 and returns the one
// line that is no log.
func (n *npm) refusal() string {
	n.t.Helper()
	require.Equal(n.t, 1, n.wait(settle))
	said := n.said()
	require.NotContains(n.t, said, "panic")
	require.NotContains(n.t, said, "goroutine ")
	var plain []string
	for line := range strings.Lines(said) {
		if !strings.HasPrefix(line, "{") {
			plain = append(plain, strings.TrimSpace(line))
		}
	}
	require.Len(n.t, plain, 1, "%s", said)
	n.t.Log(plain[0])
	return plain[0]
}
