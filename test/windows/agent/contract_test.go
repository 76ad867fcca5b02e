//go:build linux

package agent

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/winnpm/winnpm/test/hnsfault"
	"github.com/winnpm/winnpm/tool/hnssim"
)

// program starts a Windows program with an HNS. What it says goes into the file.
func program(t *testing.T, h *host, name string, args ...string) (cmd *exec.Cmd, file string) {
	t.Helper()
	p := begin(t)
	cmd = exec.CommandContext(t.Context(), p.wine, append([]string{p.exe(name)}, args...)...)
	cmd.Env = append(p.environ(), "HNSD_ADDR="+h.addr)
	// A file and no pipe: whatever Wine starts besides may keep it open.
	output, err := os.Create(filepath.Join(t.TempDir(), "output"))
	require.NoError(t, err)
	defer output.Close()
	cmd.Stdout, cmd.Stderr = output, output
	require.NoError(t, cmd.Start())
	return cmd, output.Name()
}

// runToEnd runs one to its end, whichever that is.
func runToEnd(t *testing.T, h *host, name string, args ...string) (said string, failed error) {
	t.Helper()
	cmd, file := program(t, h, name, args...)
	failed = cmd.Wait()
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	return string(text), failed
}

// runProgram runs one to its end, which is a good one.
func runProgram(t *testing.T, h *host, name string, args ...string) string {
	t.Helper()
	said, failed := runToEnd(t, h, name, args...)
	require.NoError(t, failed, "%s", said)
	return said
}

// runTests runs the tests of a Windows program of tests, none of which is skipped.
func runTests(t *testing.T, h *host, name string, args ...string) (out string, passed int) {
	t.Helper()
	out = runProgram(t, h, name, append([]string{"-test.v", "-test.timeout=3m"}, args...)...)
	require.NotRegexp(t, `(?m)^ *--- (FAIL|SKIP)`, out)
	require.Regexp(t, `(?m)^PASS`, out)
	return out, len(regexp.MustCompile(`(?m)^ *--- PASS`).FindAllString(out, -1))
}

// The contract suite of every HNS client passes on the real adapter, and leaves
// no handle open.
func TestContractSuite(t *testing.T) {
	begin(t)
	h := newHost(t, azure())
	out, passed := runTests(t, h, "contract", "-test.skip=^Test(CostOfCalls|Agent|Packets)$")
	require.GreaterOrEqual(t, passed, 30, "%s", out)
	require.Zero(t, h.open(), "handles left open; failed calls: %v", h.Failed())
	require.Contains(t, out, "not asked of this HNS: nothing")
	require.Regexp(t, `SetPolicy/Add azure-npm-hnstest-web .*already exists.* \(0x803b0012\)`, out, "the codes of refusals")
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

// TestNodeLock runs the tests of the node's lock.
func TestNodeLock(t *testing.T) {
	begin(t)
	runTests(t, newHost(t, azure()), "nodelock")
}

// TestGatePipe runs the tests of the pipe between the CNI plugin and the agent.
func TestGatePipe(t *testing.T) {
	begin(t)
	runTests(t, newHost(t, azure()), "pipe")
}

// The suite passes on an HNS that puts policies of its own on endpoints, shows everything in
// another order at each read and gives an address to one endpoint alone. It says what it
// could not ask.
func TestContractSuiteOnAnOddNode(t *testing.T) {
	begin(t)
	o := azure()
	o.Personality = hnsfault.Personality{Foreign: hnssim.DefaultForeign(), Show: hnsfault.Shuffle(3)}
	h := newHost(t, o)
	h.TakeOnce()
	out := runProgram(t, h, "contract", "-test.v", "-test.run=^TestContract$")
	require.NotRegexp(t, `(?m)^ *--- FAIL`, out)
	require.Equal(t, []string{"TestContract/two_endpoints_may_have_one_address"}, skips(out), "%s", out)
	list := regexp.MustCompile(`.*not asked of this HNS: 1 tests\s+TestContract/two_endpoints_may_have_one_address: .*0x803b002f.*`).FindString(out)
	require.NotEmpty(t, list, "%s", out)
	t.Log(list)
}

// TestAgentOnANode runs what .github/workflows/windows.yml runs on a node: npm.exe on an HNS network of
// the suite, from an API server, killed and started again.
func TestAgentOnANode(t *testing.T) {
	p := begin(t)
	h := newHost(t, azure())
	out, _ := runTests(t, h, "contract", "-test.run=^TestAgent$", "-npm="+windowsPath(p.exe("npm")), "-kubeconfig="+windowsPath(p.kubeconfig))
	require.Regexp(t, `restarted: ready after .*, 0 writes`, out)
	t.Log(out)
}

// TestServeAndDial: what runs in the containers of TestPackets answers, and says when nobody does.
func TestServeAndDial(t *testing.T) {
	begin(t)
	h := newHost(t, azure())
	server, file := program(t, h, "contract", "-serve=127.0.0.1:0")
	at := ""
	eventually(t, settle, func() string {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		found := regexp.MustCompile(`(?m)^serving (\S+:\d+)\r?$`).FindSubmatch(text)
		if found == nil {
			return "it does not serve: " + string(text)
		}
		at = string(found[1])
		return ""
	})
	runProgram(t, h, "contract", "-dial="+at)
	require.NoError(t, server.Process.Kill())
	_ = server.Wait()
	dial, _ := program(t, h, "contract", "-dial="+at)
	require.Error(t, dial.Wait())
	require.Equal(t, noAnswer, dial.ProcessState.ExitCode())
}

// skips returns the tests that were skipped.
func skips(out string) (names []string) {
	for _, found := range regexp.MustCompile(`(?m)^ *--- SKIP: (\S+)`).FindAllStringSubmatch(out, -1) {
		names = append(names, found[1])
	}
	return names
}

// What the suite makes is taken away by the next run, or by -cleanup without a test, wherever it
// was killed.
func TestContractSuiteKilled(t *testing.T) {
	begin(t)
	h := newHost(t, azure())
	h.plug(webAddr) // somebody else's, in another network
	exists := func() []any {
		networks, endpoints, namespaces := h.Exists()
		return []any{networks, endpoints, namespaces}
	}
	before := exists()
	killed := func(at string, nth int32) {
		t.Helper()
		var calls atomic.Int32
		reached := make(chan struct{})
		h.Observe(func(export string) {
			if export == at && calls.Add(1) == nth {
				close(reached)
			}
		})
		defer h.Observe(nil)
		cmd, _ := program(t, h, "contract", "-test.run=^TestContract$")
		select {
		case <-reached:
		case <-time.After(settle):
			require.FailNow(t, "never reached", "%s %d", at, nth)
		}
		require.NoError(t, cmd.Process.Kill())
		_ = cmd.Wait()
		require.NotEqual(t, before, exists(), "killed at %s %d", at, nth)
	}
	clean := func() string { return runProgram(t, h, "contract", "-cleanup") }
	require.Contains(t, clean(), "nothing of the contract suite is left on this node")
	for at, nth := range map[string]int32{"HcnModifyNetwork": 1, "HcnCreateEndpoint": 1, "HcnModifyNamespace": 9} {
		killed(at, nth)
		require.Contains(t, clean(), "removed namespace ")
		require.Equal(t, before, exists(), "killed at %s %d", at, nth)
	}
	killed("HcnModifyEndpoint", 20)
	runTests(t, h, "contract", "-test.run=^TestContract$")
	require.Equal(t, before, exists(), "the next run takes it away")

	killed("HcnCreateEndpoint", 2)
	h.HeedNoFilter()
	require.Contains(t, clean(), "removed network winnpm-contract")
	require.Equal(t, before, exists(), "what is somebody else's stays, even if HNS heeds no filter")
}
