//go:build linux

package agent

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// servers is a running apiserver-up of test/e2e.
type servers struct {
	kubeconfig string // the administrator's

	cmd     *exec.Cmd
	in      io.WriteCloser
	answers *bufio.Reader
}

// startServers runs apiserver-up and waits until its servers are ready.
func startServers(program string) (*servers, error) {
	s := &servers{cmd: exec.Command(program)}
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

// order gives one command and waits until it is done.
func (s *servers) order(t *testing.T, command string) {
	t.Helper()
	_, err := fmt.Fprintln(s.in, command)
	require.NoError(t, err)
	answer, err := s.answers.ReadString('\n')
	require.NoError(t, err)
	require.True(t, strings.HasPrefix(answer, "ok "+command), "apiserver-up: %s", answer)
}

// close ends the servers, which take their folder along, and waits for that.
func (s *servers) close() {
	_ = s.in.Close()
	_ = s.cmd.Wait()
}
