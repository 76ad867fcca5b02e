//go:build linux

package agent

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestDoctor: doctor.exe asks its questions with the DLLs, finds nothing that refutes what WinNPM
// assumes, and leaves nothing behind, neither in HNS nor a handle.
func TestDoctor(t *testing.T) {
	begin(t)
	h := newHost(t, azure())
	before := h.Exists()
	file := filepath.Join(t.TempDir(), "doctor.json")
	said := runProgram(t, h, "doctor", "-o", windowsPath(file))
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	var r struct {
		System  string
		Answers []struct{ Assumptions, Verdict, Why string }
	}
	require.NoError(t, json.Unmarshal(text, &r))
	require.NotEmpty(t, r.System)
	require.Regexp(t, `SetPolicy/Add \[\{azure-npm-hnstest-web .*already exists.* \(0x803b0012\)`, string(text), "the codes of refusals")
	require.Greater(t, len(r.Answers), 40, "%s", said)
	for _, a := range r.Answers {
		require.Equal(t, "held", a.Verdict, "%+v", a)
	}
	require.Equal(t, before, h.Exists())
	require.Zero(t, h.OpenHandles())
}
