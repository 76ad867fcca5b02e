package windows

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/winnpm/winnpm/test/servers"
)

var npmFlag = flag.String("npm", "npm.exe", "`program` of the agent, for the tests that run it")

// nodeName is the node that the tests' agent programs.
const nodeName = "winnpm-contract"

// npm is a running agent.
type npm struct {
	t    *testing.T
	cmd  *exec.Cmd
	log  string
	url  string
	over chan struct{}
}

// startNPM runs npm.exe start for an HNS network until it is ready. It ends with the test.
func startNPM(t *testing.T, kubeconfig, network string) *npm {
	t.Helper()
	dir, err := os.MkdirTemp("", nodeName)
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) }) // Wine 8 cannot, which fails no test
	config := filepath.Join(dir, "azure-npm.json")
	require.NoError(t, os.WriteFile(config, fmt.Appendf(nil, `{"WindowsNetworkName":%q,"ApplyIntervalInMilliseconds":20}`, network), 0o600))
	n := &npm{t: t, log: filepath.Join(dir, "npm.log"), over: make(chan struct{})}
	log, err := os.Create(n.log)
	require.NoError(t, err)
	defer log.Close()
	n.cmd = exec.Command(*npmFlag, "start", "--kubeconfig", kubeconfig, "--listen", "127.0.0.1:0", "--listen-probes", "127.0.0.1:0", "--reconcile-interval", "1s")
	n.cmd.Env = append(os.Environ(), "NPM_CONFIG="+config, "HOSTNAME="+nodeName)
	n.cmd.Stdout, n.cmd.Stderr = log, log
	require.NoError(t, n.cmd.Start())
	go func() {
		_ = n.cmd.Wait() // how it ended is not of interest
		close(n.over)
	}()
	t.Cleanup(func() {
		n.kill()
		if t.Failed() {
			t.Logf("npm.exe said:\n%s", n.said())
		}
	})
	eventually(t, func() string {
		found := regexp.MustCompile(`"listening":"([^"]+)"`).FindStringSubmatch(n.said())
		if found == nil {
			return "npm.exe does not listen"
		}
		n.url = "http://" + found[1]
		return ""
	})
	eventually(t, func() string {
		if code, text := n.get("/readyz"); code != http.StatusOK {
			return "npm.exe is not ready: " + text
		}
		return ""
	})
	return n
}

// kill ends it at once, as a node's failure does.
func (n *npm) kill() {
	_ = n.cmd.Process.Kill()
	<-n.over
}

func (n *npm) said() string {
	text, err := os.ReadFile(n.log)
	require.NoError(n.t, err)
	return string(text)
}

func (n *npm) get(path string) (int, string) {
	request, err := http.NewRequestWithContext(context.Background(), http.MethodGet, n.url+path, nil)
	require.NoError(n.t, err)
	answer, err := (&http.Client{Timeout: 10 * time.Second}).Do(request)
	if err != nil {
		return 0, err.Error()
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	require.NoError(n.t, err)
	return answer.StatusCode, string(text)
}

// calls returns the lines of the metric of HNS's calls, of writes and of reads.
func (n *npm) calls() (writes, reads []string) {
	n.t.Helper()
	code, text := n.get("/node-metrics")
	require.Equal(n.t, http.StatusOK, code, text)
	for line := range strings.Lines(text) {
		found := regexp.MustCompile(`^npm_hns_calls_total\{operation="(\w+)/(\w+)"\} [1-9]`).FindStringSubmatch(line)
		switch {
		case found == nil:
		case found[1] == "SetPolicy" || found[1] == "ACL":
			writes = append(writes, strings.TrimSpace(line))
		default:
			reads = append(reads, strings.TrimSpace(line))
		}
	}
	return writes, reads
}

// run runs a program to its good end, and returns what it printed.
func run(t *testing.T, env []string, program string, args ...string) string {
	t.Helper()
	var out bytes.Buffer
	cmd := exec.Command(program, args...)
	cmd.Env = append(os.Environ(), env...)
	cmd.Stdout, cmd.Stderr = &out, &out
	require.NoError(t, cmd.Run(), "%s %v: %s", program, args, out.String())
	return out.String()
}

// settleFlag: for HNS, and the switch behind it, minutes have been seen.
var settleFlag = flag.Duration("settle", 10*time.Minute, "`time` that a change may take")

func eventually(t *testing.T, missing func() string) {
	t.Helper()
	servers.Eventually(t, *settleFlag, missing)
}
