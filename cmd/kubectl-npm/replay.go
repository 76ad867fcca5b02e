package main

import (
	"bytes"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/winnpm/winnpm/pkg/cli"
	"github.com/winnpm/winnpm/tool/bundle"
)

func newReplay(std cli.Streams) *cobra.Command {
	return &cobra.Command{
		Use:   "replay BUNDLE",
		Short: "Print the timeline of a support bundle",
		Long: `Prints what an agent recorded: a line for each of its last transactions and
observations, with its calls of HNS, and below it the calls that failed or hang and the
changes of other programs that it repaired.

BUNDLE is what kubectl npm support-bundle wrote, or recording.jsonl of it.

Exit code: 0 it was printed, 1 no bundle, 2 wrong usage.`,
		Example: `  kubectl npm replay winnpm-node1-20261122T040000Z.zip`,
		Args:    needs(1, 1, "the file of one support bundle, like replay bundle.zip"),
		RunE: func(_ *cobra.Command, args []string) error {
			return replay(std, args[0])
		},
	}
}

// replay prints the timeline of a bundle or of a recording. The error for bad input is one line.
func replay(std cli.Streams, file string) error {
	text, b, err := readInput(file, std)
	var rec bundle.Recording
	switch {
	case err != nil:
	case b != nil:
		rec = b.Recording
	default:
		rec, err = bundle.ReadRecording(bytes.NewReader(text))
		err = inFile(file, err)
	}
	if err == nil {
		err = rec.WriteText(std.Out)
	}
	if err != nil {
		return cli.Exit{Code: cli.ExitBadInput, Err: fmt.Errorf("replay: %w", err)}
	}
	return nil
}
