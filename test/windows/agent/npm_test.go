//go:build linux

package agent

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/winnpm/winnpm/pkg/debug"
	"github.com/winnpm/winnpm/pkg/state"
)

// npm is a running "npm.exe start".
type npm struct {
	t      *testing.T
	cmd    *exec.Cmd
	log    string        // file with what it writes to stderr
	exited chan struct{} // closed when it has
	url    string        // of its debug endpoint
}

// options of a run; what is empty has a default that suits a test.
type options struct {
	config string // contents of the file that NPM_CONFIG names
	flags  []string
	// dir and env are those of a container: the program starts in this folder,
	// with this environment, and finds its configuration and the API server as
	// in a cluster. Without dir a test says where they are.
	dir string
	env []string
}

// fast is a configuration with which changes are programmed at once.
const fast = `{"ApplyIntervalInMilliseconds": 20}`

// The intervals of a run, unless its flags say something else.
const (
	reconcileInterval = 2 * time.Second
	hnsTimeout        = 10 * time.Second
)

// calm keeps the reconciler from repairing what a test wants to see done
// without it.
var calm = []string{"--reconcile-interval", "1h"}

// spawn starts npm.exe on a node with an HNS. It ends with the test.
func spawn(t *testing.T, node string, hnsAddr string, o options) *npm {
	t.Helper()
	p := begin(t)
	dir := t.TempDir()
	args := []string{
		p.exe("npm"), "start", "--listen", "127.0.0.1:0", "--listen-probes", "127.0.0.1:0",
		"--reconcile-interval", reconcileInterval.String(), "--hns-timeout", hnsTimeout.String(),
	}
	if o.dir == "" {
		config := filepath.Join(dir, "azure-npm.json")
		require.NoError(t, os.WriteFile(config, []byte(cmp.Or(o.config, fast)), 0o600))
		args = append(args, "--kubeconfig", windowsPath(p.kubeconfig))
		o.env = append(o.env, "NPM_CONFIG="+windowsPath(config))
	}
	n := &npm{t: t, log: filepath.Join(dir, "stderr"), exited: make(chan struct{})}
	n.cmd = exec.Command(p.wine, append(args, o.flags...)...)
	n.cmd.Env = slices.Concat(p.environ(), []string{"HNSD_ADDR=" + hnsAddr, "HOSTNAME=" + node}, o.env)
	n.cmd.Dir = o.dir
	n.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} // a test out of time runs no cleanup
	// A file and no pipe: whatever Wine starts besides may keep it open.
	stderr, err := os.Create(n.log)
	require.NoError(t, err)
	defer stderr.Close()
	n.cmd.Stdout, n.cmd.Stderr = stderr, stderr
	require.NoError(t, n.cmd.Start())
	go func() {
		_ = n.cmd.Wait() // ProcessState says it
		close(n.exited)
	}()
	t.Cleanup(func() {
		n.kill()
		if t.Failed() {
			t.Logf("npm.exe on %s said:\n%s", node, tail(n.said(), 60))
		}
	})
	return n
}

// start spawns npm.exe and waits until it listens. Now and then Wine ends before the
// program has begun. npm.exe never ends without a word, so one without is Wine's end.
func start(t *testing.T, node, hnsAddr string, o options) *npm {
	t.Helper()
	for try := 1; ; try++ {
		n := spawn(t, node, hnsAddr, o)
		ended := false
		eventually(t, settle, func() string {
			select {
			case <-n.exited:
				ended = true
				return ""
			default:
			}
			if found := listening.FindStringSubmatch(n.said()); found != nil {
				n.url = "http://" + found[1]
				return ""
			}
			return "npm.exe does not say where it listens"
		})
		if !ended {
			return n
		}
		if try == mostStarts || n.said() != "" {
			require.FailNow(t, "npm.exe ended", "%v: %s", n.cmd.ProcessState, n.said())
		}
		t.Logf("Wine ended before npm.exe began (%v): once more", n.cmd.ProcessState)
	}
}

// mostStarts is how often npm.exe is started until it says something.
const mostStarts = 3

var listening = regexp.MustCompile(`"listening":"([^"]+)"`)

// environ is what every Windows program gets.
func (p *programs) environ() []string {
	return append(os.Environ(), "WINEPREFIX="+p.prefix, "WINEDEBUG=-all", "NPM_CONFIG=", "HOSTNAME=", "HNSD_ADDR=")
}

// windowsPath names a file as Windows programs do.
func windowsPath(path string) string { return "Z:" + strings.ReplaceAll(path, "/", `\`) }

// tail returns the last n lines of a text.
func tail(text string, n int) string {
	lines := strings.Split(text, "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}

// said returns everything that npm.exe wrote so far.
func (n *npm) said() string {
	n.t.Helper()
	text, err := os.ReadFile(n.log)
	require.NoError(n.t, err)
	return string(text)
}

// kill ends it in the hardest way, if it still runs.
func (n *npm) kill() {
	_ = n.cmd.Process.Kill()
	<-n.exited
}

// wait returns the exit code once npm.exe has ended.
func (n *npm) wait(limit time.Duration) int {
	n.t.Helper()
	select {
	case <-n.exited:
		return n.cmd.ProcessState.ExitCode()
	case <-time.After(limit):
		require.FailNow(n.t, fmt.Sprintf("still running after %v", limit), n.said())
		return -1
	}
}

// quick is for requests that npm.exe must answer whatever HNS does.
var quick = &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}

// get asks the debug endpoint.
func (n *npm) get(path string) (code int, body string, err error) {
	request, err := http.NewRequestWithContext(context.Background(), http.MethodGet, n.url+path, nil)
	if err != nil {
		return 0, "", err
	}
	response, err := quick.Do(request)
	if err != nil {
		return 0, "", err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	return response.StatusCode, string(text), err
}

// page returns the body of a path that must answer 200.
func (n *npm) page(path string) string {
	n.t.Helper()
	code, body, err := n.get(path)
	require.NoError(n.t, err)
	require.Equal(n.t, http.StatusOK, code, "%s: %s", path, body)
	return body
}

// dump returns what npm.exe knows.
func (n *npm) dump() state.Dump {
	n.t.Helper()
	var d state.Dump
	require.NoError(n.t, json.Unmarshal([]byte(n.page(debug.ManagerPath)), &d))
	return d
}

// check returns what a check has to object, "" when it passes.
func (n *npm) check(path string) string {
	code, body, err := n.get(path)
	switch {
	case err != nil:
		return err.Error()
	case code == http.StatusOK:
		return ""
	case code == http.StatusServiceUnavailable && body != "":
		return body
	default:
		return fmt.Sprintf("%s answers %d: %s", path, code, body)
	}
}

// waitReady waits until everything known is programmed.
func (n *npm) waitReady() {
	n.t.Helper()
	eventually(n.t, settle, func() string { return n.check("/readyz") })
}
