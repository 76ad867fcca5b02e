package recorder

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"
	"weak"

	"github.com/winnpm/winnpm/pkg/dataplane"
	"github.com/winnpm/winnpm/pkg/hns/dllcalls"
	"github.com/winnpm/winnpm/pkg/state"
)

// Config is what a Recorder needs.
type Config struct {
	// Snapshot takes the state of the dataplane. It is asked between two
	// transactions, on the way into one, which waits for it; the dump is asked for
	// once, beside those that follow. Neither must wait for HNS.
	Snapshot func() (dump func() state.Dump)
	Settings Settings
	Node     string
	Agent    string // version of the program
	Now      func() time.Time
	// MaxSteps is the number of steps after which the state is taken anew; 0
	// means 256.
	MaxSteps int
	// MaxBytes is the most memory that is kept, as far as it can be estimated; 0
	// means 64 MiB. What does not fit is forgotten, the oldest first.
	MaxBytes int
	// MaxIDs is the longest list of endpoints that is kept; 0 means 256, more than a node
	// has. Of a longer one there is a digest, which cannot be played.
	MaxIDs int
}

const (
	defaultSteps = 256
	defaultBytes = 64 << 20
	leastBytes   = 4 << 20 // of a segment
	keptBriefs   = 100
)

// Dataplane is what is recorded. Its two methods may run at the same time.
type Dataplane interface {
	ApplyDataplane(ctx context.Context, tx *dataplane.Transaction) (state.Report, error)
	Observe(ctx context.Context, look dataplane.Look) (*dataplane.Observation, error)
	NextLook() (dataplane.Look, time.Time)
}

// Recorder keeps the last steps of one dataplane. Its methods are safe for
// concurrent use, and wait for neither HNS nor a step.
//
// It keeps two segments. Each begins with the state at that moment; the first one of a
// process begins with nothing. When one is full, a new one begins and the oldest is
// dropped. Packing the state takes memory and time in proportion to its size, so a segment
// is not full before it is as large as that. The state is packed while steps go on, and no
// other segment begins until that is done. The owner calls Wait after the last step.
type Recorder struct {
	cfg Config // set once

	// applyLock is held for a whole transaction, so that none runs while the snapshot is taken.
	// It guards warnings too. It is taken before mu.
	applyLock sync.Mutex
	warnings  []state.Warning // of the last report

	mu       sync.Mutex // guards following; held for moments only
	number   uint64     // of the last step
	was, is  *segment   // was is nil when there is none before
	running  []*record  // steps in progress, in their order
	briefs   []Step     // ended ones in brief, in the order of their ends
	observed []observed
	failed   *record // the last kept observation, when it failed
	dropped  uint64  // steps that are not kept, as nothing follows from them
	packing  bool    // the state at the beginning of a segment

	packers sync.WaitGroup
}

// observed is an Observation that was made and not handed in yet. It does not keep the
// Observation alive.
type observed struct {
	is   weak.Pointer[dataplane.Observation]
	step *record
}

// maxObserved is how many of them are remembered. When a later one is handed in first, an
// earlier one never is.
const maxObserved = 2

// New returns a Recorder that has seen nothing yet.
func New(cfg Config) *Recorder {
	if cfg.MaxSteps == 0 {
		cfg.MaxSteps = defaultSteps
	}
	if cfg.MaxBytes == 0 {
		cfg.MaxBytes = defaultBytes
	}
	if cfg.MaxIDs == 0 {
		cfg.MaxIDs = maxKept
	}
	return &Recorder{cfg: cfg, is: newSegment(nil, cfg.MaxIDs)}
}

// Wait returns when no state is being packed. No step may begin meanwhile.
func (r *Recorder) Wait() { r.packers.Wait() }

// Dataplane returns next, recorded. Transactions run one at a time, as they do
// in next.
func (r *Recorder) Dataplane(next Dataplane) Dataplane { return &recorded{r, next} }

type recorded struct {
	r    *Recorder
	next Dataplane
}

// ApplyDataplane implements Dataplane.
func (d *recorded) ApplyDataplane(ctx context.Context, tx *dataplane.Transaction) (state.Report, error) {
	r := d.r
	r.applyLock.Lock()
	defer r.applyLock.Unlock()
	r.checkpoint()
	events, size := eventsOf(tx)
	rec := r.begin(Step{Kind: Transaction, Events: events}, size, tx.Observation())
	report, err := d.next.ApplyDataplane(rec.context(ctx), tx)
	kept, size := r.keepReport(report)
	r.end(rec, err, kept, size, nil)
	return report, err
}

// keepReport returns a copy of a report, and about what it takes. r.applyLock must be
// held.
func (r *Recorder) keepReport(report state.Report) (*state.Report, int) {
	size := 0
	if !slices.Equal(report.Warnings, r.warnings) { // a warning is active for long
		r.warnings = slices.Clone(report.Warnings)
		size = warningBytes * len(r.warnings)
	}
	report.Warnings = nil
	kept := report.Clone()
	kept.Warnings = r.warnings
	return &kept, size + reportBytes(kept)
}

// NextLook implements Dataplane.
func (d *recorded) NextLook() (dataplane.Look, time.Time) { return d.next.NextLook() }

// Observe implements Dataplane.
func (d *recorded) Observe(ctx context.Context, look dataplane.Look) (*dataplane.Observation, error) {
	kept := look
	kept.Endpoints = slices.Clone(look.Endpoints)
	rec := d.r.begin(Step{Kind: Observation, Look: &kept}, textBytes(kept.Endpoints), nil)
	obs, err := d.next.Observe(rec.context(ctx), look)
	d.r.end(rec, err, nil, 0, obs)
	return obs, err
}

// record is a step that is kept.
type record struct {
	r     *Recorder
	seg   *segment
	step  Step    // without Calls while it runs
	calls []*Call // while it runs
	meter dllcalls.Meter
	bytes int
	// shared is how much of bytes later steps share. It stays when the step goes.
	shared int
}

// stepKey is where a context has the record of the step that calls are made for.
type stepKey struct{}

// context returns one whose calls are made for the step.
func (rec *record) context(ctx context.Context) context.Context {
	return dllcalls.Metered(context.WithValue(ctx, stepKey{}, rec), &rec.meter)
}

// begin keeps a new step.
func (r *Recorder) begin(s Step, size int, obs *dataplane.Observation) *record {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.number++
	s.Number, s.Began, s.Running, s.Observed = r.number, r.cfg.Now(), true, r.takeObservedLocked(obs)
	rec := &record{r: r, seg: r.is, step: s}
	r.running = append(r.running, rec)
	r.is.add(rec)
	r.growLocked(rec, stepBytes+size)
	return rec
}

// takeObservedLocked returns the step that an observation was made by. r.mu must
// be held.
func (r *Recorder) takeObservedLocked(obs *dataplane.Observation) uint64 {
	if obs == nil {
		return 0
	}
	is := weak.Make(obs)
	i := slices.IndexFunc(r.observed, func(o observed) bool { return o.is == is })
	if i < 0 {
		return 0
	}
	number := r.observed[i].step.step.Number
	r.observed = slices.Delete(r.observed, i, i+1)
	return number
}

// end keeps how a step ended; size is about what the report takes.
func (r *Recorder) end(rec *record, err error, report *state.Report, size int, obs *dataplane.Observation) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := &rec.step
	s.Took, s.Running = r.cfg.Now().Sub(s.Began), false
	if err != nil {
		s.Error = err.Error()
	}
	s.Report = report
	s.Calls, rec.calls = copied(rec.calls), nil
	s.DLLCalls = rec.meter.Calls()
	r.running = slices.DeleteFunc(r.running, func(o *record) bool { return o == rec })
	if s.Kind == Observation && r.needlessLocked(rec, obs) {
		r.dropLocked(rec)
		return
	}
	if len(r.briefs) == keptBriefs {
		r.briefs = slices.Delete(r.briefs, 0, 1)
	}
	r.briefs = append(r.briefs, rec.step.brief())
	if obs != nil {
		if len(r.observed) == maxObserved {
			r.observed = slices.Delete(r.observed, 0, 1)
		}
		r.observed = append(r.observed, observed{weak.Make(obs), rec})
	}
	r.growLocked(rec, size)
}

func copied(calls []*Call) []Call {
	var out []Call
	for _, c := range calls {
		out = append(out, *c)
	}
	return out
}

// stepNow returns the step of a record as it is, the time that it has taken so
// far included, and of the calls of a running one the last ones. r.mu must be
// held.
func (rec *record) stepNow(now time.Time, most int) Step {
	s := rec.step
	if !s.Running {
		return s
	}
	calls := rec.calls[max(0, len(rec.calls)-most):]
	s.MoreCalls = len(rec.calls) - len(calls)
	s.Took, s.Calls, s.DLLCalls = now.Sub(s.Began), copied(calls), rec.meter.Calls()
	for i := range s.Calls {
		if c := &s.Calls[i]; c.Running {
			c.Took = now.Sub(c.Began)
		}
	}
	return s
}

// Recording returns everything that is kept. Its values are shared with the
// Recorder: whoever reads them must not change them. It waits while the state that
// it begins with is packed.
func (r *Recorder) Recording() Recording {
	first := r.lockFirst()
	now := r.cfg.Now()
	begins := first.start
	kept := slices.Clone(first.steps)
	if first != r.is {
		kept = append(kept, r.is.steps...)
	}
	steps := make([]Step, 0, len(kept))
	for _, rec := range kept {
		steps = append(steps, rec.stepNow(now, len(rec.calls)))
	}
	number, dropped := r.number, r.dropped
	r.mu.Unlock()

	slices.SortStableFunc(steps, func(a, b Step) int { return cmp.Compare(a.Number, b.Number) })
	steps = slices.CompactFunc(steps, func(a, b Step) bool { return a.Number == b.Number }) // one may be in both
	return Recording{
		Format: Format, Node: r.cfg.Node, Agent: r.cfg.Agent, Taken: now, Settings: r.cfg.Settings,
		Start: begins.unpack(), Forgotten: number - dropped - uint64(len(steps)), Steps: steps,
	}
}

// lockFirst locks r.mu and returns the first segment, the start of which is ready.
func (r *Recorder) lockFirst() *segment {
	for {
		r.mu.Lock()
		first := cmp.Or(r.was, r.is)
		if first.start == nil || first.start.text != nil {
			return first
		}
		ready := first.start.ready
		r.mu.Unlock()
		<-ready
	}
}

// Brief returns the last hundred steps and those in progress, without what was
// sent and read; of many events and calls the first and the last ones.
func (r *Recorder) Brief() []Step {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.cfg.Now()
	steps := append(make([]Step, 0, len(r.briefs)+len(r.running)), r.briefs...)
	for _, rec := range r.running {
		steps = append(steps, rec.stepNow(now, briefCalls).brief())
	}
	slices.SortFunc(steps, func(a, b Step) int { return cmp.Compare(a.Number, b.Number) })
	return steps[max(0, len(steps)-keptBriefs):]
}
