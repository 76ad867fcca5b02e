package replay

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/winnpm/winnpm/pkg/dataplane"
	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/pkg/policy"
	"github.com/winnpm/winnpm/pkg/recorder"
	"github.com/winnpm/winnpm/pkg/state"
)

// maxLost is the number of steps in which this build may go another way. With more the
// replay stops: the recording is of a program that differs too much.
const maxLost = 100

// Options say what else to do.
type Options struct {
	// Dump is the state after the last step, to be compared; nil for none.
	Dump *state.Dump
	// Detail is the number of the step that gets a Detail; 0 for none.
	Detail uint64
}

// Replay plays a recording. It fails with ErrRecording when it cannot be played;
// the recording is not changed.
func Replay(ctx context.Context, rec recorder.Recording, o Options) (*Result, error) {
	if err := check(rec); err != nil {
		return nil, err
	}
	p := &player{
		rec: &rec, world: newWorld(), detail: o.Detail,
		observed: map[uint64]*dataplane.Observation{}, unreadYet: map[string]bool{},
		result: &Result{
			Node: rec.Node, Agent: rec.Agent, Taken: rec.Taken, Start: rec.Start == nil, Older: rec.Format < recorder.Format,
			Steps: make([]Step, len(rec.Steps)), Final: []Finding{},
		},
	}
	for i := range rec.Steps {
		p.result.Steps[i] = newStep(&rec.Steps[i], rec.Steps[0].Began)
	}
	if b := rec.Settings.Budgets.OrDefaults(); len(rec.Steps) > 0 && b.AtMost(policy.DefaultBudgets()) != b {
		p.result.Steps[0].Findings = append(p.result.Steps[0].Findings, Finding{Kind: Note, Text: "the agent has larger budgets than the defaults, but the replay uses the defaults: it may close a policy that the agent did not close"})
	}
	if len(rec.Steps) > 0 {
		p.result.Began = rec.Steps[0].Began
	}
	if err := p.begin(); err != nil {
		return nil, err
	}
	defer func() {
		for _, l := range p.flying {
			l.stop()
		}
	}()
	p.survive(func() {
		if p.result.Older {
			p.describe(ctx)
		} else {
			p.play(ctx)
		}
	})
	if o.Dump != nil && p.result.Stopped == "" && !p.result.Older {
		p.result.Final = p.final(*o.Dump)
	}
	p.sum()
	return p.result, nil
}

// config returns the configuration of the recorded dataplane. Its budgets are at most the defaults,
// because the recording may come from an untrusted source.
func (p *player) config() dataplane.Config {
	s := p.rec.Settings
	return dataplane.Config{
		Client: hns.Answering(p.ask), Node: p.rec.Node, Now: func() time.Time { return p.now },
		GracePeriod: s.GracePeriod, MaxBatchedACLs: s.MaxBatchedACLs, MaxRepairs: s.MaxRepairs,
		BaseACLs: s.BaseACLs, Unchecked: s.Unchecked, Budgets: s.Budgets.AtMost(policy.DefaultBudgets()),
	}
}

// begin makes the dataplane as it was before the first step.
func (p *player) begin() error {
	p.world.network.Name = p.rec.Settings.Network
	start := p.rec.Start
	if start == nil {
		p.dp = dataplane.New(p.config())
		return nil
	}
	p.loose = true
	p.now = start.Time
	view, err := dataplane.ViewOf(*start)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrRecording, err)
	}
	p.world.fill(*start, view)
	if p.result.Older {
		return nil
	}
	return p.restore(*start, view)
}

// restore replaces the dataplane by one that goes on from a dump. A panic means that no
// dataplane made the dump.
func (p *player) restore(d state.Dump, view dataplane.View) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("%w: its first state: %v", ErrRecording, r)
		}
	}()
	p.dp, err = dataplane.Restore(p.config(), d, view)
	if err != nil {
		return fmt.Errorf("%w: its first state: %w", ErrRecording, err)
	}
	return nil
}

// survive calls play, and makes a finding of a panic.
func (p *player) survive(play func()) {
	defer func() {
		r := recover()
		if r == nil {
			return
		}
		out := &p.result.Steps[max(p.next-1, 0)]
		out.Findings = append(out.Findings, Finding{Kind: Build, Text: fmt.Sprintf("this build fails: %v", r)})
		p.result.Stopped = fmt.Sprintf("this build fails at step %d", out.Number)
	}()
	play()
}

// play plays all steps.
func (p *player) play(ctx context.Context) {
	lost := 0
	for p.next < len(p.rec.Steps) && p.result.Stopped == "" {
		s, out := &p.rec.Steps[p.next], &p.result.Steps[p.next]
		if err := ctx.Err(); err != nil {
			p.result.Stopped = err.Error()
			return
		}
		if s.Kind == recorder.Observation {
			p.observe(ctx)
			continue
		}
		p.catchUp(ctx, s.Began)
		p.next++
		if p.transact(ctx, s, out) {
			if lost++; lost > maxLost {
				p.result.Stopped = fmt.Sprintf("this build went another way in more than %d steps", maxLost)
			}
		}
	}
	for len(p.flying) > 0 {
		p.land(ctx, p.flying[0])
	}
}

// playback begins a step.
func (p *player) playback(ctx context.Context, s *recorder.Step, out *Step) (context.Context, *playback) {
	l := &playback{step: s, out: out}
	l.asks = 10*len(s.Calls) + 20*len(p.world.endpoints) + 1000
	ctx, l.cancel = context.WithCancel(context.WithValue(context.WithoutCancel(ctx), playbackKey{}, l))
	if len(s.Calls) == 0 && s.Error != "" {
		l.cancel()
	}
	return ctx, l
}

// transact plays a transaction. It reports whether the dataplane went another way and had
// to be replaced.
func (p *player) transact(ctx context.Context, s *recorder.Step, out *Step) bool {
	p.began = true
	tx := transaction(s.Events)
	if s.Report != nil && s.Report.Yielded > 0 {
		tx.SetYield(func(served int) bool { return served >= s.Report.Yielded })
	}
	ctx, l := p.playback(ctx, s, out)
	defer l.cancel()
	if s.Observed > 0 {
		p.handIn(ctx, l, tx)
	}
	p.now = s.Began
	if s.Report != nil {
		p.now = cmp.Or(s.Report.Started, s.Began)
	}
	report, _ := p.dp.ApplyDataplane(ctx, tx) // the error is the context's, which was recorded
	p.finish(ctx, l)
	if !l.lost && !l.over && s.Report != nil {
		p.compareReports(l, *s.Report, report)
	}
	p.tell(l)
	if !l.lost || p.result.Stopped != "" {
		return false
	}
	p.rejoin()
	return true
}

// rejoin replaces a dataplane that went another way by one that knows the same objects, and
// what HNS has.
func (p *player) rejoin() {
	for _, l := range p.flying { // what they read was for the other one
		l.stop()
	}
	clear(p.observed)
	clear(p.unreadYet)
	p.loose = true
	d := p.dp.Dump()
	if err := p.restore(d, p.world.view(&d)); err != nil {
		p.result.Stopped = err.Error()
	}
}

// ----- observations -----

// observe begins the next step, an observation. Its calls are played by resume, at the
// times at which they were over.
func (p *player) observe(ctx context.Context) {
	s, out := &p.rec.Steps[p.next], &p.result.Steps[p.next]
	p.catchUp(ctx, s.Began)
	p.next++
	ctx, l := p.playback(ctx, s, out)
	if p.rec.Start != nil && !p.began && p.outdated(p.next-1) {
		l.cancel()
		p.found(l, nil, Finding{Kind: Note, Text: "it is not played: a transaction came between it and the state that the recording begins with"})
		for i := range s.Calls {
			if r := &s.Calls[i]; r.Error != nil && !hns.EndpointGone(rebuilt(r.Error)) {
				p.unread(l, r)
			}
		}
		return
	}
	dp := p.dp
	next, stop := iter.Pull(func(yield func(struct{}) bool) {
		l.wait = func() bool { return !l.over && yield(struct{}{}) }
		obs, err := dp.Observe(ctx, lookOf(s))
		if err == nil && dp == p.dp {
			p.observed[s.Number] = obs
		}
	})
	l.resume = func() bool { _, more := next(); return more }
	l.stop = func() { l.over = true; stop(); l.cancel() }
	p.flying = append(p.flying, l)
	p.resume(ctx, l)
}

// lookOf is what an observation was asked to read.
func lookOf(s *recorder.Step) dataplane.Look {
	if s.Look == nil {
		return dataplane.Everything()
	}
	look := *s.Look
	look.Endpoints = slices.Clone(look.Endpoints)
	return look
}

// outdated reports whether an observation that began before the first state may
// have been followed by a transaction that is not in the recording.
func (p *player) outdated(at int) bool {
	began, reports := p.rec.Steps[at].Began, p.rec.Start.Reports
	if began.After(p.rec.Start.Time) || len(reports) == 0 {
		return false
	}
	last := reports[len(reports)-1]
	switch ended := last.Started.Add(last.Took); {
	case ended.Equal(began): // the numbers tell which came first
		for ; at+1 < len(p.rec.Steps) && p.rec.Steps[at].Kind == recorder.Observation; at++ {
			if p.rec.Steps[at+1].Number != p.rec.Steps[at].Number+1 {
				return true
			}
		}
		return false
	default:
		return ended.After(began)
	}
}

// resume plays the next call of an observation.
func (p *player) resume(ctx context.Context, l *playback) {
	switch {
	case !l.over && l.resume():
	case l.over && l.next < len(l.step.Calls):
		p.skip(ctx, l)
	default:
		p.flying = slices.DeleteFunc(p.flying, func(o *playback) bool { return o == l })
		l.stop()
		p.finish(ctx, l)
		p.tell(l)
	}
}

// handIn gives a transaction the observation that it was recorded with.
func (p *player) handIn(ctx context.Context, l *playback, tx *dataplane.Transaction) {
	for _, other := range p.flying {
		if other.step.Number == l.step.Observed {
			p.land(ctx, other)
			break
		}
	}
	obs, played := p.observed[l.step.Observed]
	delete(p.observed, l.step.Observed)
	switch {
	case obs != nil:
		p.blind = false
		tx.SetObservation(obs)
	case played:
		f := Finding{Kind: Build, Text: fmt.Sprintf("this build finds nothing new in what step %d read", l.step.Observed)}
		if p.loose {
			f.Kind = Note
		}
		p.found(l, nil, f)
		l.unsure = true
	default:
		p.loose, p.blind, l.unsure = true, true, true
		p.found(l, nil, Finding{Kind: Note, Text: fmt.Sprintf("the observation of step %d is not handed in: it is not in the recording as a whole", l.step.Observed)})
	}
}

// land plays an observation to its end.
func (p *player) land(ctx context.Context, l *playback) {
	for slices.Contains(p.flying, l) {
		p.resume(ctx, l)
	}
}

// catchUp plays what of observations was over by a time, and begins those that
// had begun before it, in the order of time.
func (p *player) catchUp(ctx context.Context, now time.Time) {
	for {
		var first *playback
		for _, l := range p.flying {
			if !l.due().After(now) && (first == nil || l.due().Before(first.due())) {
				first = l
			}
		}
		if p.next < len(p.rec.Steps) {
			s := &p.rec.Steps[p.next]
			if s.Kind == recorder.Observation && s.Began.Before(now) && (first == nil || s.Began.Before(first.due())) {
				p.observe(ctx)
				continue
			}
		}
		if first == nil {
			return
		}
		p.resume(ctx, first)
	}
}

// due is when the next call of an observation was over.
func (l *playback) due() time.Time {
	if l.next < len(l.step.Calls) {
		return ended(&l.step.Calls[l.next])
	}
	return l.step.Began.Add(l.step.Took)
}
