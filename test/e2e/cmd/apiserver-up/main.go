// Command apiserver-up runs a real kube-apiserver and etcd on loopback in a
// temporary folder, for as long as its parent wants them.
//
// Standard output gets one line when the server is ready: the path of an
// administrator's kubeconfig. After that each line on standard input is a
// command, and each is answered by one line, "ok ..." or "error ...":
//
//	stop   stops the API server; the store stays
//	start  starts it again, on the same address
//
// Both servers end, and the folder goes, when standard input is a pipe and is
// closed, when the parent process ends, or on SIGINT, SIGTERM or SIGHUP.
package main

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"syscall"
	"time"
)

func main() {
	// A child is told of its parent's end when the thread that started it
	// ends; the main thread ends with the process and not before.
	runtime.LockOSThread()
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "apiserver-up:", err)
		os.Exit(1)
	}
}

func run() error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	bin := flag.String("bin", filepath.Dir(self), "folder of the binaries kube-apiserver and etcd")
	wait := flag.Duration("wait", 2*time.Minute, "how long the servers may take to become ready")
	flag.Parse()

	ctx, cancel := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	defer cancel()
	go followParent(ctx, cancel, os.Getppid())
	commands := make(chan string)
	go readCommands(ctx, cancel, commands)

	dir, err := os.MkdirTemp("", "apiserver-up-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	c := &cluster{dir: dir, bin: *bin, wait: *wait}
	defer c.close()
	if err := c.up(ctx); err != nil {
		if ctx.Err() != nil {
			return nil // told to end while starting
		}
		return err
	}
	fmt.Println(c.kubeconfig())
	return serve(ctx, c, commands)
}

// serve obeys commands until ctx ends or a server ends by itself.
func serve(ctx context.Context, c *cluster, commands <-chan string) error {
	for {
		var ended <-chan struct{}
		if !c.apiserver.stopped {
			ended = c.apiserver.done
		}
		select {
		case <-ctx.Done():
			return nil
		case <-c.etcd.done:
			return c.etcd.failure()
		case <-ended:
			return c.apiserver.failure()
		case command := <-commands:
			answer(c.obey(ctx, command))
		}
	}
}

func answer(text string, err error) {
	if err != nil {
		fmt.Printf("error %q\n", err.Error())
		return
	}
	fmt.Println("ok", text)
}

// followParent ends the run when the process that started us is gone.
func followParent(ctx context.Context, end context.CancelFunc, parent int) {
	tick := time.NewTicker(500 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			if os.Getppid() != parent {
				end()
				return
			}
		}
	}
}

// readCommands passes the lines of standard input on. The end of a pipe is the
// parent's wish to stop; the end of anything else (a shell gives its background
// jobs /dev/null) means nothing.
func readCommands(ctx context.Context, end context.CancelFunc, to chan<- string) {
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		select {
		case to <- lines.Text():
		case <-ctx.Done():
			return
		}
	}
	info, err := os.Stdin.Stat()
	if errors.Is(err, fs.ErrClosed) || (err == nil && info.Mode()&(fs.ModeNamedPipe|fs.ModeSocket) != 0) {
		end()
	}
}
