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

// runProgram runs one to its end, which is a good one.
func runProgram(t *testing.T, h *host, name string, args ...string) string {
	t.Helper()
	cmd, file := program(t, h, name, args...)
	failed := cmd.Wait()
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	require.NoError(t, failed, "%s", text)
	return string(text)
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
	out, passed := runTests(t, h, "contract", "-test.skip=^Test(Agent|Packets)$")
	require.GreaterOrEqual(t, passed, 30, "%s", out)
	require.Empty(t, h.OpenHandles())
	require.Contains(t, out, "not asked of this HNS: nothing")
	require.Regexp(t, `SetPolicy/Add azure-npm-hnstest-web .*already exists.* \(0x803b0012\)`, out, "the codes of refusals")
	t.Logf("%d tests and subtests pass; DLL calls: %v", passed, h.Counts())
}

// The exports are called as Windows wants it, whatever they answer.
func TestExports(t *testing.T) {
	begin(t)
	_, passed := runTests(t, newHost(t, azure()), "adapter", "-test.run=^Test(Codes|Find|Exports|Open|NUL|Surrogates)$")
	require.Equal(t, 6, passed)
}

// Every request that the adapter sends is what hcsshim's types encode, but for
// the differences that a table lists.
func TestWireAgainstHcsshim(t *testing.T) {
	begin(t)
	out, passed := runTests(t, newHost(t, azure()), "adapter", "-test.run=^TestWire(Requests|Queries)$")
	require.Greater(t, passed, 2, "%s", out)
	require.Regexp(t, `\d+ requests are hcsshim's byte for byte, `, out)
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
	require.Equal(t, 3, dial.ProcessState.ExitCode(), "nobody answers")
}

// What the suite makes is taken away by the next run, or by -cleanup without a test, if it was killed.
func TestContractSuiteKilled(t *testing.T) {
	begin(t)
	h := newHost(t, azure())
	h.plug(webAddr) // somebody else's, in another network
	exists := func() []any {
		networks, endpoints, namespaces := h.Exists()
		return []any{networks, endpoints, namespaces}
	}
	before := exists()
	kill := func(at string) {
		t.Helper()
		calls, reached := 0, make(chan struct{})
		h.Observe(func(export string) { // one call at a time
			if export == at {
				calls++
			}
			if export == at && calls == 2 {
				close(reached)
			}
		})
		defer h.Observe(nil)
		cmd, _ := program(t, h, "contract", "-test.run=^TestContract$")
		waitFor(t, reached, at)
		require.NoError(t, cmd.Process.Kill())
		_ = cmd.Wait()
		require.NotEqual(t, before, exists(), "killed at %s", at)
	}
	kill("HcnModifyNamespace")
	require.Contains(t, runProgram(t, h, "contract", "-cleanup"), "removed network winnpm-contract")
	require.Equal(t, before, exists())
	kill("HcnModifyEndpoint")
	runTests(t, h, "contract", "-test.run=^TestContract$")
	require.Equal(t, before, exists(), "the next run takes it away")
}
