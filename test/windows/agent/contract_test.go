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

// TestReads: what the adapter reads is what hcsshim reads, and without a server every call is an error.
func TestReads(t *testing.T) {
	begin(t)
	h := newHost(t, azure())
	_, passed := runTests(t, h, "contract", "-test.skip=^Test(Agent|Packets)$")
	require.Equal(t, 2, passed)
	require.Zero(t, h.OpenHandles())
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

// TestLockAndPipe runs the tests of the node's lock, and of the pipe between the CNI plugin and the agent.
func TestLockAndPipe(t *testing.T) {
	begin(t)
	runTests(t, newHost(t, azure()), "node", "-test.run=^Test(Lock|Pipe)")
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
