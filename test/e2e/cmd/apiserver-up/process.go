package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"
)

// grace is how long a server may take to end when asked.
const grace = 20 * time.Second

// process is a running server. Only the goroutine that started it may call
// stop and read stopped.
type process struct {
	name    string
	log     string
	cmd     *exec.Cmd
	done    chan struct{} // closed when it has ended
	stopped bool          // ended, or ending, because we asked
}

// startProcess starts a binary with its output appended to the file log.
func startProcess(binary, log string, args ...string) (*process, error) {
	out, err := os.OpenFile(log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer out.Close() // the child has its own
	p := &process{name: filepath.Base(binary), log: log, cmd: exec.Command(binary, args...), done: make(chan struct{})}
	p.cmd.Stdout, p.cmd.Stderr = out, out
	p.cmd.SysProcAttr = endWithParent()
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		_ = p.cmd.Wait() // how it ended is in ProcessState
		close(p.done)
	}()
	return p, nil
}

// stop asks the process to end, waits, and kills it when asking is not enough.
func (p *process) stop() {
	p.stopped = true
	if p.cmd.Process.Signal(syscall.SIGTERM) != nil { // it has ended, or this is Windows
		_ = p.cmd.Process.Kill()
	}
	timeout := time.NewTimer(grace)
	defer timeout.Stop()
	select {
	case <-p.done:
	case <-timeout.C:
		_ = p.cmd.Process.Kill()
		<-p.done
	}
}

// failure describes the end of a process that nobody asked to end.
func (p *process) failure() error {
	return fmt.Errorf("%s ended by itself: %v\n%s", p.name, p.cmd.ProcessState, p.tail())
}

// tail is the end of what the process said.
func (p *process) tail() []byte {
	text, err := os.ReadFile(p.log)
	if err != nil {
		return []byte(err.Error())
	}
	const keep = 20
	lines := bytes.Split(bytes.TrimSpace(text), []byte("\n"))
	return bytes.Join(lines[max(0, len(lines)-keep):], []byte("\n"))
}
