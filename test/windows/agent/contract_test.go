//go:build linux

package agent

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
)

// runTests runs the tests of a Windows program of tests, none of which is skipped.
func runTests(t *testing.T, h *host, program string, args ...string) (out string, passed int) {
	t.Helper()
	p := begin(t)
	cmd := exec.CommandContext(t.Context(), p.wine, append([]string{p.exe(program), "-test.v", "-test.timeout=3m"}, args...)...)
	cmd.Env = append(p.environ(), "HNSD_ADDR="+h.addr)
	// A file and no pipe: whatever Wine starts besides may keep it open.
	output, err := os.Create(filepath.Join(t.TempDir(), "output"))
	require.NoError(t, err)
	defer output.Close()
	cmd.Stdout, cmd.Stderr = output, output
	failed := cmd.Run()
	text, err := os.ReadFile(output.Name())
	require.NoError(t, err)
	require.NoError(t, failed, "%s", text)
	require.NotRegexp(t, `(?m)^ *--- (FAIL|SKIP)`, string(text))
	require.Regexp(t, `(?m)^PASS`, string(text))
	return string(text), len(regexp.MustCompile(`(?m)^ *--- PASS`).FindAll(text, -1))
}

// The contract suite of every HNS client passes on the real adapter, and leaves
// no handle open.
func TestContractSuite(t *testing.T) {
	begin(t)
	h := newHost(t, azure())
	out, passed := runTests(t, h, "contract", "-test.skip=^Test(CostOfCalls|ContractHcsshim)$")
	require.GreaterOrEqual(t, passed, 30, "%s", out)
	require.Zero(t, h.open(), "handles left open; failed calls: %v", h.Failed())
	t.Logf("%d tests and subtests pass; DLL calls: %v; failed: %v; handles left open: %d", passed, h.Counts(), h.Failed(), h.open())
}

// The suite passes with HNSBinding: hcsshim too, which leaves handles open: it is a process
// of its own.
func TestContractHcsshim(t *testing.T) {
	begin(t)
	h := newHost(t, azure())
	out, passed := runTests(t, h, "contract", "-test.run=^TestContractHcsshim$")
	require.GreaterOrEqual(t, passed, 30, "%s", out)
	t.Logf("%d tests and subtests pass; DLL calls: %v; failed: %v; handles left open: %d", passed, h.Counts(), h.Failed(), h.open())
}

// What the adapter costs at the DLL boundary, beside hcsshim, which leaves handles
// open: it is a process of its own.
func TestCostOfCalls(t *testing.T) {
	begin(t)
	out, _ := runTests(t, newHost(t, azure()), "contract", "-test.run=^TestCostOfCalls$")
	t.Log(out)
}

// The exports are called as Windows wants it, whatever they answer.
func TestExports(t *testing.T) {
	begin(t)
	_, passed := runTests(t, newHost(t, azure()), "adapter", "-test.run=^Test(Codes|Find|Exports|Open|NUL|Surrogates)$")
	require.Equal(t, 6, passed)
}

// The lock of the node, and who has what, work with what Windows has for it.
func TestNodeLock(t *testing.T) {
	begin(t)
	h := newHost(t, azure())
	runTests(t, h, "nodelock")
	runTests(t, h, "processes")
}

// TestGatePipe runs the tests of the pipe between the CNI plugin and the agent.
func TestGatePipe(t *testing.T) {
	begin(t)
	runTests(t, newHost(t, azure()), "pipe")
}
