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

	cmd *exec.Cmd
	in  io.WriteCloser
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
	line, err := bufio.NewReader(out).ReadString('\n')
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
