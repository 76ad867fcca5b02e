// Package recorder keeps the last transactions and observations of a dataplane as lines of
// JSON: which objects changed, every call of HNS with its duration and outcome, and the
// report. The oldest lines are dropped to stay within a number of bytes.
//
// It wraps the dataplane and does not change it: the hns.Client below, and ApplyDataplane and
// Observe above.
package recorder

import (
	"cmp"
	"context"
	"encoding/json"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/winnpm/winnpm/pkg/dataplane"
	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/pkg/state"
)

// Config is what a Recorder needs.
type Config struct {
	Node  string
	Agent string // version of the program
	Now   func() time.Time
	// MaxBytes is the size of the lines that are kept; 0 means 8 MiB.
	MaxBytes int
}

const defaultBytes = 8 << 20

// Dataplane is what is recorded. ApplyDataplane and Observe may be called at the same time; one
// waits for the other.
type Dataplane interface {
	ApplyDataplane(ctx context.Context, tx *dataplane.Transaction) (state.Report, error)
	Observe(ctx context.Context, look dataplane.Look) (due bool, err error)
	NextLook() (dataplane.Look, time.Time)
}

// Recorder keeps the last steps of one dataplane. Its methods are safe for
// concurrent use, and wait for neither HNS nor a step.
type Recorder struct {
	cfg Config // set once

	mu        sync.Mutex // guards the fields below; never held during a call or a step
	number    uint64     // number of the last step
	running   []*record  // steps in progress
	lines     []line     // finished steps, in the order in which they finished
	bytes     int        // total size of lines
	forgotten uint64     // number of dropped lines
	failed    string     // error of the last kept observation
}

// line is the text of one step.
type line struct {
	number uint64
	text   []byte
}

// New returns a Recorder that has seen nothing yet.
func New(cfg Config) *Recorder {
	cfg.MaxBytes = cmp.Or(cfg.MaxBytes, defaultBytes)
	return &Recorder{cfg: cfg}
}

// Dataplane returns a Dataplane that records the calls of next.
func (r *Recorder) Dataplane(next Dataplane) Dataplane { return &recorded{r, next} }

type recorded struct {
	r    *Recorder
	next Dataplane
}

// ApplyDataplane implements Dataplane.
func (d *recorded) ApplyDataplane(ctx context.Context, tx *dataplane.Transaction) (state.Report, error) {
	events, more := eventsOf(tx)
	rec := d.r.begin(Step{Kind: Transaction, Events: events, MoreEvents: more})
	report, err := d.next.ApplyDataplane(rec.context(ctx), tx)
	d.r.end(rec, err, briefReport(report), false)
	return report, err
}

// NextLook implements Dataplane.
func (d *recorded) NextLook() (dataplane.Look, time.Time) { return d.next.NextLook() }

// Observe implements Dataplane.
func (d *recorded) Observe(ctx context.Context, look dataplane.Look) (due bool, err error) {
	rec := d.r.begin(lookStep(look))
	due, err = d.next.Observe(rec.context(ctx), look)
	d.r.end(rec, err, nil, due)
	return due, err
}

// record is a step in progress.
type record struct {
	r     *Recorder
	step  Step    // without Calls
	calls []*Call // the last maxCalls
}

// stepKey is where a context has the record of the step that calls are made for.
type stepKey struct{}

// context returns a context whose calls are recorded in the step.
func (rec *record) context(ctx context.Context) context.Context {
	return context.WithValue(ctx, stepKey{}, rec)
}

// begin adds a step to those in progress.
func (r *Recorder) begin(s Step) *record {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.number++
	s.Number, s.Began, s.Running = r.number, r.cfg.Now(), true
	rec := &record{r: r, step: s}
	r.running = append(r.running, rec)
	return rec
}

// end keeps a step with its result. found says that an observation found something new.
func (r *Recorder) end(rec *record, err error, report *state.Report, found bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.running = slices.DeleteFunc(r.running, func(o *record) bool { return o == rec })
	s := rec.soFar(r.cfg.Now())
	s.Running, s.Report = false, report
	if err != nil {
		s.Error = newError(err).Message
	}
	// HNS is read about once a second, and mostly nothing is new: such observations would push out the steps that
	// people look for. One that fails like the last one is not new either.
	if s.Kind == Observation {
		if !found && (s.Error == "" || s.Error == r.failed) {
			return
		}
		r.failed = s.Error
	}
	r.lines = append(r.lines, line{s.Number, encode(s)})
	r.bytes += len(r.lines[len(r.lines)-1].text)
	for r.bytes > r.cfg.MaxBytes {
		r.bytes -= len(r.lines[0].text)
		r.lines[0].text = nil // the array keeps the entry
		r.lines = r.lines[1:]
		r.forgotten++
	}
}

// encode returns the line of a step.
func encode(s Step) []byte {
	text, err := json.Marshal(s)
	if err != nil { // a time has a year that RFC 3339 cannot write
		text, _ = json.Marshal(Step{Number: s.Number, Kind: s.Kind, Error: err.Error()})
	}
	return append(text, '\n')
}

// soFar returns a step in progress with its calls, and the time that it has taken so far.
// r.mu must be held.
func (rec *record) soFar(now time.Time) Step {
	s := rec.step
	s.Took = now.Sub(s.Began)
	s.Calls = make([]Call, len(rec.calls))
	for i, c := range rec.calls {
		s.Calls[i] = *c
		if c.Running {
			s.Calls[i].Took = now.Sub(c.Began)
		}
	}
	return s
}

// Write writes the recording: a Header and every Step that is kept or in progress, each as
// one line of JSON, in the order of their numbers.
func (r *Recorder) Write(w io.Writer) error {
	r.mu.Lock()
	now := r.cfg.Now()
	head := Header{Node: r.cfg.Node, Agent: r.cfg.Agent, Taken: now, Forgotten: r.forgotten}
	lines := slices.Clone(r.lines)
	for _, rec := range r.running {
		lines = append(lines, line{rec.step.Number, encode(rec.soFar(now))})
	}
	r.mu.Unlock()
	slices.SortFunc(lines, func(a, b line) int { return cmp.Compare(a.number, b.number) })
	if err := json.NewEncoder(w).Encode(head); err != nil {
		return err
	}
	for _, l := range lines {
		if _, err := w.Write(l.text); err != nil {
			return err
		}
	}
	return nil
}

// Client returns a client that records the calls of next in the step of their context. It neither
// keeps nor changes arguments and results. A call that is made for no step is not recorded.
func (r *Recorder) Client(next hns.Client) hns.Client {
	return hns.Wrap(next, func(ctx context.Context, req hns.Request, do func() hns.Result) hns.Result {
		rec, ok := ctx.Value(stepKey{}).(*record)
		if !ok || rec.r != r {
			return do()
		}
		call := &Call{Op: req.Op, Endpoint: req.Endpoint, Count: len(req.Sets) + len(req.ACLs) + len(req.Policies), Running: true}
		r.mu.Lock()
		call.Began = r.cfg.Now()
		rec.calls = append(rec.calls, call)
		if len(rec.calls) > maxCalls {
			rec.calls = rec.calls[1:]
			rec.step.MoreCalls++
		}
		r.mu.Unlock()
		out := do()
		r.mu.Lock()
		defer r.mu.Unlock()
		call.Took, call.Running, call.Error = r.cfg.Now().Sub(call.Began), false, newError(out.Err)
		call.Count += len(out.Network.Sets) + len(out.IDs) + len(out.Endpoint.Policies)
		return out
	})
}
