//go:build linux

package agent

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestDoctor: doctor.exe asks its questions with the DLLs, finds nothing that refutes what WinNPM
// assumes, and leaves nothing behind, neither in HNS nor a handle. An HNS that takes no SCTP refutes
// that alone.
func TestDoctor(t *testing.T) {
	begin(t)
	h := newHost(t, azure())
	networks, endpoints, namespaces := h.Exists()
	file := filepath.Join(t.TempDir(), "doctor.json")
	for _, want := range [][]string{nil, {"A10"}} {
		before := h.open()
		said := runProgram(t, h, "doctor", "-o", windowsPath(file))
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		require.NoError(t, os.Remove(file))
		var r struct {
			System  string
			Answers []struct{ Assumptions, Verdict, Why string }
		}
		require.NoError(t, json.Unmarshal(text, &r))
		require.NotEmpty(t, r.System)
		require.Greater(t, len(r.Answers), 40, "%s", said)
		var refuted []string
		for _, a := range r.Answers {
			if a.Verdict == "refuted" {
				refuted = append(refuted, a.Assumptions)
			}
		}
		require.Equal(t, want, refuted, "%s", said)
		is, left, spaces := h.Exists()
		require.Equal(t, []any{networks, endpoints, namespaces}, []any{is, left, spaces})
		require.Equal(t, before, h.open(), "handles of HNS; failed: %v", h.Failed())
		h.Refuse(func(request string) bool { return strings.Contains(request, `"132"`) }, 0x80070032)
	}
}
