// Package cli has what the command lines of this repository's programs share: how a command ends,
// how errors are worded, how logs are written, and how text from other programs is made printable.
package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"
)

// Exit codes that every command has.
const (
	ExitOK       = 0
	ExitBadInput = 1 // the command cannot work, or its input is wrong
	ExitUsage    = 2 // the command line is wrong
)

// Streams are the standard streams of a command.
type Streams struct {
	In       io.Reader
	Out, Err io.Writer
}

// Exit ends a command with a code. If Err is nil, the command has already said everything.
type Exit struct {
	Code int
	Err  error
}

func (e Exit) Error() string {
	if e.Err == nil {
		return fmt.Sprintf("exit code %d", e.Code)
	}
	return e.Err.Error()
}

func (e Exit) Unwrap() error { return e.Err }

// NewRoot returns the root command of a program. name is what a person types to run it.
func NewRoot(name, short string, std Streams) *cobra.Command {
	root := &cobra.Command{
		Use:           strings.ReplaceAll(name, " ", "-"), // the name of the file, by which shells complete what is typed
		Short:         short,
		Annotations:   map[string]string{cobra.CommandDisplayNameAnnotation: name},
		SilenceErrors: true, // Run writes them, in one line
		SilenceUsage:  true,
		Version:       Version(),
		RunE: func(*cobra.Command, []string) error {
			return fmt.Errorf("say which command; %s --help lists them", name)
		},
	}
	root.SetVersionTemplate(name + " {{.Version}}\n")
	root.SetIn(std.In)
	root.SetOut(std.Out)
	root.SetErr(std.Err)
	root.AddCommand(&cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			_, err := fmt.Fprintln(std.Out, name+" "+Version())
			return err
		},
	})
	return root
}

// Run runs a command line and returns the exit code. An error is written to stderr, in the
// lines that linesOf makes of it. An error of cobra is wrong usage.
func Run(ctx context.Context, root *cobra.Command, args []string, stderr io.Writer, linesOf func(error) []string) int {
	root.SetArgs(args)
	cmd, err := root.ExecuteContextC(ctx)
	if err == nil {
		return ExitOK
	}
	e := Exit{Code: ExitUsage, Err: usageError(err)}
	if ended := (Exit{}); errors.As(err, &ended) {
		e = ended
	}
	if e.Err != nil {
		for _, text := range linesOf(e.Err) {
			_, _ = fmt.Fprintln(stderr, prefix(root.DisplayName(), cmd, text)+text) // if stderr is closed, the error cannot be reported
		}
	}
	return e.Code
}

// Line returns an error as one line for a person, whatever it quotes, without the names of Go types.
func Line(err error) string {
	text := strings.ReplaceAll(err.Error(), context.Canceled.Error(), "interrupted")
	if wrong := (*json.UnmarshalTypeError)(nil); errors.As(err, &wrong) {
		text = strings.ReplaceAll(text, wrong.Error(), fmt.Sprintf("%s is a JSON %s, which does not belong there", cmp.Or(strings.TrimPrefix(wrong.Field, "Dump."), "it"), wrong.Value))
	}
	return Printable(strings.Join(strings.Fields(text), " "))
}

// Lines returns an error as the only line of a slice.
func Lines(err error) []string { return []string{Line(err)} }

// release is the version of a release; hack/release.sh has the linker write it.
var release string

// Version returns the version of this program, as far as the build knows it.
func Version() string {
	if release != "" {
		return release
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "unknown"
}

// exclusiveFlags matches cobra's error about flags that exclude each other.
var exclusiveFlags = regexp.MustCompile(`^if any flags in the group .* none of the others can be; \[(.*)\] were all set$`)

// usageError returns an error of cobra, in fewer words if flags exclude each other.
func usageError(err error) error {
	if found := exclusiveFlags.FindStringSubmatch(err.Error()); found != nil {
		return fmt.Errorf("--%s exclude each other: give one of them", strings.Join(strings.Fields(found[1]), " and --"))
	}
	return err
}

// prefix returns what begins each line about an error of a command.
func prefix(name string, cmd *cobra.Command, text string) string {
	verb := cmd.Name()
	if !cmd.HasParent() || strings.HasPrefix(text, verb+": ") || strings.HasPrefix(text, verb+" ") {
		return name + ": "
	}
	return name + ": " + verb + ": "
}
