// Command kubectl-npm is the kubectl plugin `kubectl npm`. It explains the work of a cluster's agents, and
// runs the agent's code on a simulator of HNS.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime/debug"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/winnpm/winnpm/pkg/cli"
	"github.com/winnpm/winnpm/tool/manifest"
)

// program is the name of this program in messages, as users type it.
const program = "kubectl npm"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// A second Ctrl-C ends the process, as long computations check ctx rarely.
	context.AfterFunc(ctx, stop)
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(25) // whole clusters are loaded on a laptop: save memory, at the cost of processor time
	}
	code := run(ctx, os.Args[1:], cli.Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr})
	stop()
	os.Exit(code)
}

// run runs a command line and returns the exit code.
func run(ctx context.Context, args []string, std cli.Streams) int {
	if len(args) == 0 || args[0] != "completion" && !strings.HasPrefix(args[0], cobra.ShellCompRequestCmd) {
		std.Out = cli.PrintableText(std.Out) // what shells read is our own text, with tabs
	}
	std.Err = cli.PrintableText(std.Err)
	root := cli.NewRoot(program, "See and test how WinNPM enforces the network policies of a cluster", std)
	root.AddCommand(newCheck(std), newPlan(std), newReplay(std), newSimulate(std), newStatus(std), newSupportBundle(std), newTrace(std), newUI(std))
	root.InitDefaultCompletionCmd(args...)
	completion, _, err := root.Find([]string{"completion"})
	if err == nil {
		completion.RunE = func(cmd *cobra.Command, _ []string) error {
			return errors.New("say for which shell: bash, fish, powershell or zsh")
		}
	}
	return cli.Run(ctx, root, args, std.Err, errorLines)
}

// errorLines returns one line for each invalid document, or one line for any other error.
func errorLines(err error) []string {
	if all := (manifest.Errors)(nil); errors.As(err, &all) {
		return manifest.Lines(err)
	}
	return cli.Lines(err)
}

// needs returns an error for a command line with fewer than least or more than most arguments. like
// shows how the command line is written.
func needs(least, most int, like string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if least <= len(args) && len(args) <= most {
			return nil
		}
		return fmt.Errorf("%s: %d arguments: write %s", cmd.Name(), len(args), like)
	}
}
