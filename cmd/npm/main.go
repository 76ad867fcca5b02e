// Command npm is the agent: it turns the NetworkPolicy objects of a cluster into IP sets
// and ACLs of the Host Networking Service on a Windows node.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/winnpm/winnpm/pkg/cli"
)

func main() {
	// On Windows Ctrl-C and Ctrl-Break are os.Interrupt, a closed console and a
	// shutdown are SIGTERM.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // the second Ctrl-C ends the process
	code := run(ctx, os.Args[1:], cli.Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr}, os.Getenv)
	stop()
	os.Exit(code)
}

// run runs a command line and returns the exit code.
func run(ctx context.Context, args []string, std cli.Streams, getenv func(string) string) int {
	std.Out, std.Err = cli.PrintableText(std.Out), cli.PrintableText(std.Err)
	root := cli.NewRoot("npm", "Network Policy Manager for Windows Kubernetes nodes", std)
	root.CompletionOptions.DisableDefaultCmd = true // shells on nodes need no completion
	root.AddCommand(newStart(std, getenv, thisHost()), newInstallCNI(std), newUninstallCNI(std), newUninstall(std, getenv, thisHost()))
	return cli.Run(ctx, root, args, std.Err, cli.Lines)
}

// failed returns the error of a command that cannot work, or nil.
func failed(err error) error {
	if err == nil {
		return nil
	}
	return cli.Exit{Code: cli.ExitBadInput, Err: err}
}
