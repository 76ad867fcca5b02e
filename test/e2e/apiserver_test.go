package e2e

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// apiserver is a running apiserver-up.
type apiserver struct {
	kubeconfig string // the administrator's

	cmd     *exec.Cmd
	in      io.WriteCloser
	answers *bufio.Reader
}

// startServers runs apiserver-up and waits until its servers are ready.
func startServers(program string) (*apiserver, error) {
	s := &apiserver{cmd: exec.Command(program)}
	s.cmd.Stderr = os.Stderr
	var err error
	if s.in, err = s.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := s.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := s.cmd.Start(); err != nil {
		return nil, err
	}
	s.answers = bufio.NewReader(out)
	line, err := s.answers.ReadString('\n')
	if err != nil {
		return nil, fmt.Errorf("apiserver-up did not become ready: %w", s.cmd.Wait())
	}
	s.kubeconfig = strings.TrimSpace(line)
	return s, nil
}

// close ends the servers and waits for that.
func (s *apiserver) close() {
	_ = s.in.Close()
	_ = s.cmd.Wait()
}

// order gives one command and waits for its answer.
func (s *apiserver) order(t *testing.T, command string) {
	t.Helper()
	_, err := fmt.Fprintln(s.in, command)
	require.NoError(t, err)
	answer, err := s.answers.ReadString('\n')
	require.NoError(t, err)
	require.True(t, strings.HasPrefix(answer, "ok "+command), "apiserver-up: %s", answer)
}

// The servers and their folder are gone when the one who wanted them is:
// other suites rely on it to leave no process behind.
func TestServersEndWithTheirParent(t *testing.T) {
	program := filepath.Join(bin, "apiserver-up")
	for _, c := range []struct {
		name, script string
		end          func(t *testing.T, parent *exec.Cmd, stdin io.Closer)
	}{
		{
			// The shell gives its background job no standard input, so only
			// the parent's end can be noticed.
			name:   "parent killed",
			script: `"$0" </dev/null & wait`,
			end: func(t *testing.T, parent *exec.Cmd, _ io.Closer) {
				require.NoError(t, parent.Process.Kill())
			},
		},
		{
			name:   "standard input closed",
			script: `"$0"; exit`,
			end: func(t *testing.T, _ *exec.Cmd, stdin io.Closer) {
				require.NoError(t, stdin.Close())
			},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			parent := exec.CommandContext(t.Context(), "sh", "-c", c.script, program)
			stdin, err := parent.StdinPipe()
			require.NoError(t, err)
			out, err := parent.StdoutPipe()
			require.NoError(t, err)
			require.NoError(t, parent.Start())
			line, err := bufio.NewReader(out).ReadString('\n')
			require.NoError(t, err)
			dir := filepath.Dir(strings.TrimSpace(line))
			require.DirExists(t, dir)
			pids := processesNaming(t, dir)
			require.Len(t, pids, 2, "etcd and kube-apiserver name their folder")

			c.end(t, parent, stdin)
			eventually(t, 30*time.Second, func() string {
				if _, err := os.Stat(dir); !os.IsNotExist(err) {
					return fmt.Sprintf("folder %s is still there (%v)", dir, err)
				}
				if left := processesNaming(t, dir); len(left) > 0 {
					return fmt.Sprintf("processes %v still run", left)
				}
				return ""
			})
			_ = parent.Wait() // killed: the error says no more
		})
	}
}

// processesNaming returns the ids of the processes with text in their arguments.
func processesNaming(t *testing.T, text string) []string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "ps", "-A", "-ww", "-o", "pid=,args=").Output()
	require.NoError(t, err)
	var pids []string
	for line := range strings.Lines(string(out)) {
		if pid, args, ok := strings.Cut(strings.TrimSpace(line), " "); ok && strings.Contains(args, text) {
			pids = append(pids, pid)
		}
	}
	return pids
}

// eventually calls missing until it returns nothing, and fails with its last
// answer when that takes longer than limit.
func eventually(t *testing.T, limit time.Duration, missing func() string) {
	t.Helper()
	deadline := time.NewTimer(limit)
	defer deadline.Stop()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		what := missing()
		if what == "" {
			return
		}
		select {
		case <-tick.C:
		case <-deadline.C:
			require.FailNow(t, fmt.Sprintf("not within %v", limit), what)
		}
	}
}
