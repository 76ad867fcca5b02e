// Command npm is the Network Policy Manager for Windows Kubernetes nodes: it
// turns NetworkPolicy objects into ip sets and ACLs of the Host Networking
// Service. `npm simulate` runs the same program on a simulator, anywhere.
package main

import (
	"context"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"slices"
	"syscall"
)

func main() {
	// On Windows Ctrl-C and Ctrl-Break are os.Interrupt, a closed console and a
	// shutdown are SIGTERM.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// Who computes does not look at ctx all the time, and what it computes may be
	// anybody's: the second Ctrl-C ends the process.
	context.AfterFunc(ctx, stop)
	if len(os.Args) > 1 && slices.Contains([]string{"simulate", "trace", "plan"}, os.Args[1]) && os.Getenv("GOGC") == "" {
		debug.SetGCPercent(60) // these commands load a whole cluster on a laptop: save memory, at the cost of processor time
	}
	code := underManager(ctx, func(ctx context.Context) int {
		return run(ctx, programOf(os.Args[0]), os.Args[1:], streams{os.Stdin, os.Stdout, os.Stderr}, os.Getenv)
	})
	stop()
	os.Exit(code)
}

// streams are what a command talks to.
type streams struct {
	in       io.Reader
	out, err io.Writer
}
