package replay

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/winnpm/winnpm/pkg/dataplane"
	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/pkg/hns/hnssim"
	"github.com/winnpm/winnpm/pkg/recorder"
)

// player answers a dataplane as HNS did when it was recorded. One goroutine at a time uses
// it.
type player struct {
	rec    *recorder.Recording
	result *Result
	world  *world
	dp     *dataplane.Dataplane
	now    time.Time // of the dataplane
	loose  bool      // the dataplane does not know all that the recorded one did
	// blind: the last observation could not be handed in, so what it showed of endpoints
	// and sets is not known here.
	blind bool
	// unreadYet are endpoints that this dataplane asked for, and that the recorded one had
	// enumerated and not read; the recording does not say why. Until they are read, the two
	// may do different things.
	unreadYet map[string]bool
	// flying are the observations that are not over, observed those that are and
	// that no transaction had yet.
	flying   []*playback
	observed map[uint64]*dataplane.Observation
	next     int  // step that was not begun
	began    bool // a transaction did
	detail   uint64
}

// playback is one step that is being played: the calls of the dataplane in it
// against those that were recorded.
type playback struct {
	step *recorder.Step
	out  *Step
	next int // first recorded call that was not played
	asks int // calls that the dataplane may still make
	// fork answers once this build has made a write that was not recorded; nil before.
	fork *hnssim.Sim
	// lost: the dataplane wrote to the fork, so it does not know what the world has.
	lost bool
	// over: nothing more of the step was recorded, or is played.
	over bool
	// unsure: something that came in is not in the recording, so this build may
	// well do something else.
	unsure bool
	cancel context.CancelFunc // ends the step's context
	// Of an observation: resume lets it go on to its next call and reports whether
	// there is one; wait pauses it before the call.
	wait   func() bool
	resume func() bool
	stop   func()
}

type playbackKey struct{}

// ended is when a call was over.
func ended(r *recorder.Call) time.Time { return r.Began.Add(r.Took) }

// place is the place of a recorded call in its step, from 1.
func (l *playback) place(r *recorder.Call) int {
	for i := range l.step.Calls {
		if r == &l.step.Calls[i] {
			return i + 1
		}
	}
	return 0
}

// found adds a finding about a recorded call, nil for none.
func (p *player) found(l *playback, r *recorder.Call, f Finding) {
	l.unsure = l.unsure || len(p.unreadYet) > 0
	if f.Kind == Build && l.unsure {
		f.Kind = Note
	}
	if r != nil {
		f.Op, f.Call = r.Op, l.place(r)
	}
	for i, line := range f.Lines {
		f.Lines[i] = p.world.readable(line)
	}
	l.out.Findings = append(l.out.Findings, f)
}

// errStopped answers the calls of a step that is given up.
var errStopped = fmt.Errorf("%w: the replay of this step was stopped", hns.ErrUnavailable)

// ask answers one request of the dataplane with a result: the pairs are what is played.
func (p *player) ask(ctx context.Context, req hns.Request) hns.Result {
	a := asked{req}
	l, ok := ctx.Value(playbackKey{}).(*playback)
	if !ok {
		panic("BUG: a call without a step")
	}
	if l.wait != nil && !l.wait() {
		return hns.Result{Err: errStopped}
	}
	if l.over {
		return hns.Result{Err: errStopped}
	}
	if l.asks--; l.asks < 0 {
		if l.asks == -1 {
			p.found(l, nil, Finding{Kind: Build, Text: "this build makes many more calls than were recorded; the step was stopped"})
		}
		return hns.Result{Err: errStopped}
	}
	if l.fork != nil {
		return a.on(ctx, l.fork)
	}
	at := l.find(a)
	switch {
	case at >= 0:
	case l.next == len(l.step.Calls) && l.step.Running: // what came next was not recorded
		l.over = true
		return hns.Result{Err: errStopped}
	default:
		return p.unrecorded(ctx, l, a)
	}
	for l.next < at {
		p.skip(ctx, l)
	}
	r := &l.step.Calls[at]
	if l.wait == nil { // an observation goes on when a transaction lets it
		p.catchUp(ctx, ended(r))
		p.now = ended(r)
	}
	l.next++
	if l.next == len(l.step.Calls) && l.step.Error != "" {
		defer l.cancel() // then the agent was told to stop
	}
	switch {
	case r.Running:
		l.over = true
		p.found(l, r, Finding{Kind: Answer, Object: a.object(), Text: fmt.Sprintf("HNS had not answered for %v when this was recorded; the simulator would have", r.Took)})
		return hns.Result{Err: errStopped}
	case hns.ReadsOnly(a.Op):
		return p.read(l, r)
	}
	return hns.Result{Err: p.write(ctx, l, r, a)}
}

// find returns the place of the recorded call that is this one, or -1. It passes over calls
// that may come in another step.
func (l *playback) find(a asked) int {
	for i := l.next; i < len(l.step.Calls); i++ {
		r := &l.step.Calls[i]
		if a.is(r) {
			return i
		}
		if !early(r.Op) {
			break
		}
	}
	return -1
}

// early reports whether a call may come in another step than it was recorded in:
// one that looks, or removes what nobody needs.
func early(op string) bool { return hns.ReadsOnly(op) || op == hns.OpSets(hns.Remove) }

// is reports whether a call was recorded as this one.
func (a asked) is(r *recorder.Call) bool {
	if a.Op != r.Op || a.Endpoint != r.Endpoint || len(a.Sets) != len(r.Sets) {
		return false
	}
	for i, s := range a.Sets {
		v := r.Sets[i]
		if s.ID != v.ID || s.Name != v.Name || s.Type != v.Type || len(s.Values) != v.Count {
			return false
		}
		if v.Values != nil && !same(s.Values, v.Values) || v.Values == nil && v.Count > 0 && recorder.DigestValues(s.Values) != v.Digest {
			return false
		}
	}
	switch {
	case r.Digest == "":
		return same(canonical(a.ACLs), canonical(r.ACLs)) && samePolicies(a.Policies, r.Policies)
	case a.Op == hns.OpACLAdd:
		return recorder.DigestACLs(a.ACLs) == r.Digest
	}
	return recorder.DigestPolicies(a.Policies) == r.Digest
}

// unrecorded answers a call that was not recorded at this place.
func (p *player) unrecorded(ctx context.Context, l *playback, a asked) hns.Result {
	var r *recorder.Call
	if l.next < len(l.step.Calls) {
		r = &l.step.Calls[l.next]
	}
	f := Finding{Kind: Build, Object: a.object()}
	if p.excused(a.Op) {
		f.Kind = Note
	}
	switch {
	case r == nil:
		f.Text = "this build asks for " + a.words() + " besides"
	case r.Op == a.Op && r.Endpoint == a.Endpoint:
		f.Text = "this build asks for another " + a.words()
		f.Legend, f.Lines = inBuild, particulars(against(r, a))
	default:
		f.Text = fmt.Sprintf("this build asks for %s where %s was recorded", a.words(), askedOf(r).words())
	}
	p.found(l, r, f)
	switch {
	case a.Op == hns.OpEndpointGet && p.world.strange[a.Endpoint] && p.readLater(a.Endpoint):
		p.unreadYet[a.Endpoint] = true
		return hns.Result{Err: &hns.OpError{Op: a.Op, Kind: hns.KindEndpoint, ID: a.Endpoint, Err: hns.ErrUnavailable}}
	case hns.ReadsOnly(a.Op):
		return p.world.read(a)
	}
	l.fork, l.lost = p.world.fork(), true
	return a.on(ctx, l.fork)
}

// readLater reports whether the recording has a call for an endpoint which shows
// that it is not somebody else's.
func (p *player) readLater(id string) bool {
	for i := range p.rec.Steps {
		for j := range p.rec.Steps[i].Calls {
			r := &p.rec.Steps[i].Calls[j]
			if r.Endpoint == id && (r.Error == nil || !errors.Is(rebuilt(r.Error), hns.ErrElsewhere)) {
				return true
			}
		}
	}
	return false
}

// excused reports whether an additional or a missing call may be due to something that is
// not in the recording.
func (p *player) excused(op string) bool { return p.blind || p.loose && early(op) }

// against returns what a recorded call had that this one has not, and the other
// way round.
func against(r *recorder.Call, a asked) (missing, surplus []string) {
	lines := func(a asked) (out []string) {
		for _, s := range a.Sets {
			if len(s.Values) == 0 {
				out = append(out, s.Name+" without members")
			}
			for _, v := range s.Values {
				out = append(out, s.Name+" "+v)
			}
		}
		ours, foreign := hns.Endpoint{Policies: a.Policies}.Split()
		out = append(out, rules(canonical(slices.Concat(a.ACLs, ours)))...)
		for _, other := range foreign {
			out = append(out, other.Type+" "+string(other.Settings))
		}
		return out
	}
	return difference(lines(askedOf(r)), lines(a))
}

// words names a call for people.
func (a asked) words() string {
	if object := a.object(); object != "" {
		return a.Op + " " + object
	}
	return a.Op
}

// skip plays a recorded call that this build does not make: HNS was read or written all the
// same.
func (p *player) skip(ctx context.Context, l *playback) {
	r := &l.step.Calls[l.next]
	a := askedOf(r)
	l.next++
	if _, known := p.world.endpoints[r.Endpoint]; r.Op == hns.OpEndpointGet && p.loose && !known {
		// It was enumerated before the dataplane of this build was restored, which does
		// not know that.
		l.unsure = true
	}
	if l.fork == nil && !l.over {
		f := Finding{Kind: Build, Object: a.object(), Text: "this build does not ask for " + a.words()}
		if p.excused(r.Op) {
			f.Kind = Note
		}
		p.found(l, r, f)
	}
	l.lost = true
	switch {
	case r.Running:
	case hns.ReadsOnly(r.Op):
		p.read(l, r)
	default:
		_ = p.write(ctx, l, r, a) // the dataplane does not ask
		for _, v := range r.Sets {
			if v.Values == nil && v.Count > 0 {
				p.world.vague[subject{set: v.ID}] = true
			}
		}
		if r.Cut && r.Endpoint != "" {
			p.world.vague[subject{endpoint: r.Endpoint}] = true
		}
	}
}

// finish plays the recorded calls that the dataplane did not ask for in a step
// that is over.
func (p *player) finish(ctx context.Context, l *playback) {
	if l.fork != nil && l.next < len(l.step.Calls) {
		p.found(l, nil, Finding{Kind: Note, Text: fmt.Sprintf("the rest of the step was not compared: %s", count(len(l.step.Calls)-l.next, "recorded call"))})
	}
	for l.next < len(l.step.Calls) {
		p.skip(ctx, l)
	}
}
