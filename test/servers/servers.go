// Package servers runs apiserver-up of test/e2e, which is a real kube-apiserver and
// its etcd, for suites outside of that module.
package servers

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"strings"
)

// Start runs the program at a path and waits until its servers are ready. It returns the path of the
// administrator's kubeconfig, and stop, which ends the servers and waits until their folder is removed.
func Start(program string) (kubeconfig string, stop func(), err error) {
	cmd := exec.Command(program)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return "", nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return "", nil, err
	}
	if err := cmd.Start(); err != nil {
		return "", nil, err
	}
	stop = func() {
		_ = in.Close()
		_ = cmd.Wait()
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		stop()
		return "", nil, fmt.Errorf("apiserver-up did not become ready: %v", cmd.ProcessState)
	}
	return strings.TrimSpace(line), stop, nil
}
