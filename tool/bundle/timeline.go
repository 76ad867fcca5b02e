package bundle

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/winnpm/winnpm/pkg/cli"
	"github.com/winnpm/winnpm/pkg/recorder"
	"github.com/winnpm/winnpm/tool/bounded"
	"github.com/winnpm/winnpm/tool/phrase"
)

// ErrNoRecording is the error for a text that is not a recording of an agent.
var ErrNoRecording = errors.New("no recording")

// Recording is the decoded output of recorder.Recorder.
type Recording struct {
	recorder.Header
	Steps []recorder.Step `json:"steps"`
}

// ReadRecording reads a recording to the end of r. It returns ErrNoRecording for any other text, and
// bounded.ErrTooMuch above the limits of bounded.OfAnAgent. It does not check that the steps are
// consistent with each other.
func ReadRecording(r io.Reader) (Recording, error) {
	rec := Recording{Steps: []recorder.Step{}}
	dec := json.NewDecoder(bounded.Reader(r, bounded.OfAnAgent))
	err := dec.Decode(&rec.Header)
	if err == nil && rec.Taken.IsZero() {
		err = errors.New("its first line says no time")
	}
	for last := uint64(0); err == nil; {
		var s recorder.Step
		switch err = dec.Decode(&s); {
		case err != nil:
		case s.Number <= last:
			err = fmt.Errorf("step %d comes after step %d", s.Number, last)
		default:
			last = s.Number
			rec.Steps = append(rec.Steps, s)
		}
	}
	if !errors.Is(err, io.EOF) || rec.Taken.IsZero() {
		return Recording{}, fmt.Errorf("%w: %w", ErrNoRecording, err)
	}
	return rec, nil
}

// WriteText writes the timeline for people: a line for each step, its failed calls and repairs
// below, and a summary at the end.
func (rec Recording) WriteText(w io.Writer) error {
	b := &cli.Page{}
	b.Line(0, "recorded on %s by %s, taken %s", cmp.Or(rec.Node, "an unnamed node"), cmp.Or(rec.Agent, "an unknown version"), rec.Taken.UTC().Format(time.RFC3339))
	if rec.Forgotten > 0 {
		b.Line(0, "forgotten before that: %s", phrase.Count(int(rec.Forgotten), "step"))
	}
	failed := 0
	for _, s := range rec.Steps {
		n := failures(s)
		failed += n
		b.Line(0, "%d  +%s  %s  %s  %s  %s", s.Number, seconds(s.Began.Sub(rec.Steps[0].Began)), changes(s), calls(s), seconds(s.Took), outcome(s, n))
		writeStep(b, s)
	}
	b.Line(0, "%s, %s", phrase.Count(len(rec.Steps), "step"), phrase.Count(failed, "failed call"))
	_, err := io.WriteString(w, b.String())
	return err
}

// writeStep writes the failed and hanging calls of a step, and its repairs.
func writeStep(b *cli.Page, s recorder.Step) {
	for i, c := range s.Calls {
		result := "no answer yet"
		if c.Error != nil {
			result = "FAILED: " + c.Error.Message
		} else if !c.Running {
			continue
		}
		b.Line(2, "call %d  %s  +%s  %s  %s", s.MoreCalls+i+1, target(c), seconds(c.Began.Sub(s.Began)), seconds(c.Took), result)
	}
	if s.Report == nil {
		return
	}
	for _, r := range s.Report.Repairs {
		b.Line(2, "repair  %s", strings.Join(slices.DeleteFunc([]string{r.Kind, r.Object, r.Pod, r.Found}, func(part string) bool { return part == "" }), "  "))
	}
}

// target returns the operation and the object of a call: "ACL/Add 57D4A864 (3)".
func target(c recorder.Call) string {
	text := c.Op
	if c.Endpoint != "" {
		text += " " + c.Endpoint
	}
	return fmt.Sprintf("%s (%d)", text, c.Count)
}

// changes returns the changes that a step processed: "3 pods created, 1 policy deleted".
func changes(s recorder.Step) string {
	if s.Kind == recorder.Observation {
		return "reading HNS"
	}
	var parts []string
	if s.Report != nil {
		for _, c := range s.Report.Changes {
			parts = append(parts, fmt.Sprintf("%s %s", phrase.Count(c.Count, c.Kind), past(c.Operation)))
		}
	}
	if n := len(s.Events) + s.MoreEvents; len(parts) == 0 && n > 0 {
		parts = append(parts, phrase.Count(n, "object"))
	}
	return cmp.Or(strings.Join(parts, ", "), "no event")
}

// past returns the past tense of an operation.
func past(operation string) string { return strings.TrimSuffix(operation, "e") + "ed" }

// calls counts the calls of a step: "ACL/Add 2, Endpoint/Get 4, 9 DLL calls".
func calls(s recorder.Step) string {
	n := map[string]int{}
	for _, c := range s.Calls {
		n[c.Op]++
	}
	var parts []string
	for _, op := range slices.Sorted(maps.Keys(n)) {
		parts = append(parts, fmt.Sprintf("%s %d", op, n[op]))
	}
	if s.MoreCalls > 0 {
		parts = append(parts, phrase.Count(s.MoreCalls, "earlier call"))
	}
	return cmp.Or(strings.Join(parts, ", "), "no call")
}

// failures counts the failed calls of a step.
func failures(s recorder.Step) (n int) {
	for _, c := range s.Calls {
		if c.Error != nil {
			n++
		}
	}
	return n
}

// outcome describes how a step ended.
func outcome(s recorder.Step, failed int) string {
	var parts []string
	if s.Running {
		parts = append(parts, "running")
	}
	if failed > 0 {
		parts = append(parts, fmt.Sprintf("%d failed", failed))
	}
	if s.Error != "" {
		parts = append(parts, "ended by: "+s.Error)
	}
	if s.Report != nil && s.Report.Pending > 0 {
		parts = append(parts, phrase.Count(s.Report.Pending, "pending pod"))
	}
	return cmp.Or(strings.Join(parts, ", "), "ok")
}

// seconds returns a rounded duration for display.
func seconds(d time.Duration) string {
	if d > time.Second || d < -time.Second {
		return d.Round(time.Millisecond).String()
	}
	return d.Round(time.Microsecond).String()
}
