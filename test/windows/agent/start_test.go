//go:build linux

package agent

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

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
