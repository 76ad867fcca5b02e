package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/winnpm/winnpm/pkg/printable"
	"github.com/winnpm/winnpm/pkg/recorder"
	"github.com/winnpm/winnpm/pkg/replay"
	"github.com/winnpm/winnpm/pkg/simulate"
	"github.com/winnpm/winnpm/pkg/state"
)

// exitDiffers is the exit code of `npm replay` when the replay differs from the
// recording. Bad input and wrong usage have codes of their own.
const exitDiffers = 3

// replayOptions are the command line of `npm replay`.
type replayOptions struct {
	view   replay.View
	step   uint64
	output string
}

func newReplay(std streams) *cobra.Command {
	o := replayOptions{}
	cmd := &cobra.Command{
		Use:   "replay BUNDLE",
		Short: "Play a support bundle against the simulator, and list the differences",
		Long: `Plays what an agent recorded: its transactions go through the agent of this build,
each of its calls is answered as HNS answered then, and beside it a simulator does
what HNS should have done. Prints the differences of each step: HNS has something
else than our writes imply, HNS answered otherwise than the simulator would, this
build asks for something else, or it ends in another state.

BUNDLE is what npm support-bundle wrote, or recording.json of it.

Exit code: 0 no difference, 3 differences, 1 no bundle, 2 wrong usage.`,
		Example: `  npm replay winnpm-node1-20261122T040000Z.zip
  npm replay bundle.zip --step 117`,
		Args: needs(1, 1, "the file of one support bundle, like replay bundle.zip"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := o.validate(); err != nil {
				return err
			}
			return o.run(cmd.Context(), std, args[0])
		},
	}
	f := cmd.Flags()
	f.Uint64Var(&o.step, "step", 0, "show only this step, in full")
	f.Uint64Var(&o.view.From, "from", 0, "show the steps from this one on")
	f.Uint64Var(&o.view.To, "to", 0, "show the steps up to this one")
	f.BoolVar(&o.view.Verbose, "verbose", false, "show every call and every difference")
	f.StringVarP(&o.output, "output", "o", "text", "text or json")
	cmd.MarkFlagsMutuallyExclusive("step", "from")
	cmd.MarkFlagsMutuallyExclusive("step", "to")
	return cmd
}

func (o *replayOptions) validate() error {
	if err := oneOf(o.output, "text", "json"); err != nil {
		return err
	}
	if o.view.To > 0 && o.view.To < o.view.From {
		return errors.New("--to is before --from")
	}
	if o.step > 0 {
		o.view.From, o.view.To = o.step, o.step
	}
	return nil
}

// run prints what the replay found. What fails before that is one line.
func (o *replayOptions) run(ctx context.Context, std streams, file string) error {
	bad := func(err error) error { return exit{simulate.ExitBadInput, fmt.Errorf("replay: %s: %w", file, err)} }
	rec, dump, err := readRecording(file)
	if err != nil {
		return bad(err)
	}
	if first, last := bounds(rec); o.step > 0 && (o.step < first || o.step > last) {
		return bad(fmt.Errorf("there is no step %d; it has the steps %d to %d", o.step, first, last))
	}
	result, err := replay.Replay(ctx, rec, replay.Options{Dump: dump, Detail: o.step})
	if err != nil {
		return bad(err)
	}
	if o.output == "json" {
		err = result.WriteJSON(printable.JSON(std.out), o.view)
	} else {
		err = result.WriteText(std.out, o.view)
	}
	switch {
	case err != nil:
		return bad(err)
	case result.Differences > 0 || result.Stopped != "":
		return exit{code: exitDiffers}
	}
	return nil
}

// bounds are the numbers of the first and the last step.
func bounds(rec recorder.Recording) (first, last uint64) {
	if n := len(rec.Steps); n > 0 {
		return rec.Steps[0].Number, rec.Steps[n-1].Number
	}
	return 0, 0
}

// readRecording reads a bundle, or a recording alone, which has no dump of its
// end.
func readRecording(file string) (rec recorder.Recording, dump *state.Dump, err error) {
	b, err := openBundle(file, func(text io.Reader) (err error) {
		rec, err = recorder.Decode(text)
		return err
	})
	if b != nil {
		rec, dump = b.Recording, &b.Dump
	}
	return rec, dump, err
}
