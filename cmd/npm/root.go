package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"

	"github.com/winnpm/winnpm/pkg/printable"
	"github.com/winnpm/winnpm/tool/manifest"
	"github.com/winnpm/winnpm/tool/simulate"
)

// exit ends a command with a code. Without an error everything was said.
type exit struct {
	code int
	err  error
}

func (e exit) Error() string {
	if e.err == nil {
		return fmt.Sprintf("exit code %d", e.code)
	}
	return e.err.Error()
}

func (e exit) Unwrap() error { return e.err }

// run runs a command line and returns the exit code. What cobra itself refuses
// is wrong usage.
func run(ctx context.Context, name program, args []string, std streams, getenv func(string) string) int {
	std, stop := watched(std, args)
	defer stop()
	if len(args) == 0 || args[0] != "completion" && !strings.HasPrefix(args[0], cobra.ShellCompRequestCmd) {
		std.out = printable.Text(std.out) // what shells read is our own text, with tabs
	}
	std.err = printable.Text(std.err)
	root := newRoot(name, std, getenv)
	root.SetArgs(args)
	cmd, err := root.ExecuteContextC(ctx)
	if err == nil {
		return simulate.ExitOK
	}
	e := exit{code: simulate.ExitUsage, err: usageError(cmd, err)}
	if ended := (exit{}); errors.As(err, &ended) {
		e = ended
	}
	if e.err != nil {
		for _, text := range lines(e.err) {
			_, _ = fmt.Fprintln(std.err, prefix(name, cmd, text)+text) // nobody is left to tell when stderr is closed
		}
	}
	return e.code
}

// line is an error for a person: one line, whatever it quotes, without the types of
// this program.
func line(err error) string {
	text := strings.ReplaceAll(err.Error(), context.Canceled.Error(), "interrupted")
	if wrong := (*json.UnmarshalTypeError)(nil); errors.As(err, &wrong) {
		text = strings.ReplaceAll(text, wrong.Error(), fmt.Sprintf("%s is a JSON %s, which does not belong there", cmp.Or(strings.TrimPrefix(wrong.Field, "Dump."), "it"), wrong.Value))
	}
	return printable.Line(strings.Join(strings.Fields(text), " "))
}

// lines has one for each document that is refused.
func lines(err error) []string {
	if all := (*manifest.Errors)(nil); errors.As(err, &all) {
		return manifest.Lines(err)
	}
	return []string{line(err)}
}

// needs refuses a command line with less than least or more than most arguments
// beside flags, and says how it is written.
func needs(least, most int, like string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if least <= len(args) && len(args) <= most {
			return nil
		}
		return fmt.Errorf("%s: %d arguments: write %s", cmd.Name(), len(args), like)
	}
}

func newRoot(name program, std streams, getenv func(string) string) *cobra.Command {
	root := &cobra.Command{
		Use:           name.executable(),
		Short:         "Network Policy Manager for Windows Kubernetes nodes",
		SilenceErrors: true, // run says them, in one line
		SilenceUsage:  true,
		Args:          cobra.NoArgs,
		Version:       version(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return fmt.Errorf("say which command: %s; %s --help explains them", strings.Join(verbs(cmd), ", "), name)
		},
	}
	root.SetVersionTemplate(string(name) + " {{.Version}}\n")
	root.SetIn(std.in)
	root.SetOut(std.out)
	root.SetErr(std.err)
	root.AddCommand(newStatus(std), newCheck(std))
	root.AddCommand(newInstallCNI(std), newPlan(std, name), newReplay(std), newSimulate(std, name), newStart(std, getenv, thisHost()), newSupportBundle(std, name), newTrace(std, name),
		newUninstall(std, getenv, thisHost()), newUninstallCNI(std), newVersion(std, name))
	name.title(root)
	return root
}

func newVersion(std streams, name program) *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			_, err := fmt.Fprintln(std.out, string(name)+" "+version())
			return err
		},
	}
}

// release is the version of a release; hack/release.sh has the linker write it.
var release string

// version is what the build knows of itself.
func version() string {
	if release != "" {
		return release
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "unknown"
}
