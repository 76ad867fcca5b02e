//go:build linux

package agent

import (
	"os/exec"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
)

// The contract suite of every HNS client passes on the real adapter, real
// hcsshim and all, and leaves no handle open that hcsshim does not leak.
func TestContractSuite(t *testing.T) {
	p := begin(t)
	h := newHost(t, azure())
	cmd := exec.CommandContext(t.Context(), p.wine, p.exe("contract"), "-test.v", "-test.timeout=3m")
	cmd.Env = append(p.environ(), "HNSD_ADDR="+h.addr)
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	passed := len(regexp.MustCompile(`(?m)^ *--- PASS`).FindAll(out, -1))
	require.NotRegexp(t, `(?m)^ *--- (FAIL|SKIP)`, string(out))
	require.Regexp(t, `(?m)^PASS`, string(out))
	require.GreaterOrEqual(t, passed, 30, "%s", out)
	require.Equal(t, h.leaked(), h.open(), "handles left open; failed calls: %v", h.Failed())
	t.Logf("%d tests and subtests pass; DLL calls: %v; failed: %v; handles left open: %d", passed, h.Counts(), h.Failed(), h.open())
}
