// Package servers runs apiserver-up of test/e2e, which is a real kube-apiserver and
// its etcd, for suites outside of that module.
package servers

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
)

// Servers is a running apiserver-up. It belongs to one goroutine.
type Servers struct {
	Kubeconfig string // path of the administrator's

	cmd *exec.Cmd
	in  io.WriteCloser
}

// Start runs the program at a path and waits until its servers are ready.
func Start(program string) (*Servers, error) {
	s := &Servers{cmd: exec.Command(program)}
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
	s.Kubeconfig = strings.TrimSpace(line)
	return s, nil
}

// Close ends the servers, which take their folder along, and waits for that.
func (s *Servers) Close() {
	_ = s.in.Close()
	_ = s.cmd.Wait()
}
