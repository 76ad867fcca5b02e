//go:build linux

package agent

import (
	"os/exec"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestUninstall: npm.exe says what there is, takes all of it, keeps what the CNI gave, and finds
// nothing a second time.
func TestUninstall(t *testing.T) {
	p := begin(t)
	h, _, n := openShop(t)
	uninstall := func(args ...string) (code int, said string) {
		cmd := exec.CommandContext(t.Context(), p.wine, append([]string{p.exe("npm"), "uninstall"}, args...)...)
		cmd.Env = slices.Concat(p.environ(), []string{"HNSD_ADDR=" + h.addr})
		out, _ := cmd.CombinedOutput()
		return cmd.ProcessState.ExitCode(), string(out)
	}
	ours, foreign := h.endpoint(dbAddr)
	require.NotEmpty(t, ours)
	n.kill()
	writes := h.writes()
	code, said := uninstall()
	require.Zero(t, code, said)
	require.Contains(t, said, "nothing was written: --yes takes this away")
	require.Equal(t, writes, h.writes())

	code, said = uninstall("--yes")
	require.Zero(t, code, said)
	require.Contains(t, said, "nothing of WinNPM or Azure NPM is left in HNS")
	ours, kept := h.endpoint(dbAddr)
	require.Empty(t, ours)
	require.Equal(t, foreign, kept)
	require.Empty(t, h.Sim().Sets())
	writes = h.writes()
	code, said = uninstall("--yes")
	require.Zero(t, code, said)
	require.Equal(t, writes, h.writes())
	require.Zero(t, h.OpenHandles(), "handles of HNS")
}
