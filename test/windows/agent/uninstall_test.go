//go:build linux

package agent

import (
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestUninstall: npm.exe takes nothing away while an agent works. After its end it says
// what there is, takes all of it, keeps what the CNI gave, and finds nothing a second time.
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
	writes := h.writes()
	code, said := uninstall("--yes")
	require.Equal(t, 1, code, said)
	require.Contains(t, said, "npm: uninstall: an agent programs this node: delete its DaemonSet first")
	n.kill()
	code, said = uninstall()
	require.Zero(t, code, said)
	require.Contains(t, said, "nothing was written: --yes takes this away")
	require.Equal(t, writes, h.writes())

	code, said = uninstall("--yes")
	require.Zero(t, code, said)
	require.Contains(t, said, "nothing of WinNPM or Azure NPM is left in HNS")
	ours, kept := h.endpoint(dbAddr)
	require.Empty(t, ours)
	require.Equal(t, foreign, kept)
	require.False(t, slices.ContainsFunc(h.sets(), func(set string) bool { return strings.Contains(set, "azure-npm-") }), h.sets())
	writes = h.writes()
	code, said = uninstall("--yes")
	require.Zero(t, code, said)
	require.Equal(t, writes, h.writes())
	require.Zero(t, h.open(), "handles of HNS")
}
