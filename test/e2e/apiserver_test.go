package e2e

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
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
