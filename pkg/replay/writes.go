package replay

import (
	"context"
	"errors"
	"fmt"

	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/pkg/recorder"
)

// write answers a write as it was recorded, and compares that with what the
// simulator says to it.
func (p *player) write(ctx context.Context, l *playback, r *recorder.Call, a asked) error {
	w := p.world
	if r.Error == nil {
		p.written(ctx, l, r, a)
		return nil
	}
	err := rebuilt(r.Error)
	if hns.EndpointGone(err) {
		p.gone(l, a.Endpoint)
		return err
	}
	if !errors.Is(err, hns.ErrInvalid) {
		p.attached(a)
	}
	after := w.after(a)
	would := w.judgment(ctx, a)
	if would == nil {
		w.sync(a.subjects()) // it was not done, as far as we know
	}
	switch unknown := hns.OutcomeUnknown(err); {
	case !unknown && p.unjudged(a):
		return err
	case would == nil:
		p.found(l, r, Finding{Kind: Answer, Object: a.object(), Text: fmt.Sprintf("HNS answered %q; the simulator would have done it", r.Error.Message)})
	case !errors.Is(would, class(err)):
		p.found(l, r, Finding{Kind: Answer, Object: a.object(), Text: fmt.Sprintf("HNS answered %q; the simulator would have answered %q", r.Error.Message, would)})
	}
	// What the simulator refuses may be because of an earlier write that was done all
	// the same: a list that is gone by now holds none of its members.
	if hns.OutcomeUnknown(err) && (would == nil || len(w.doubts)+len(w.crowded)+len(w.vague) > 0) {
		for i, s := range a.subjects() {
			after[i].step, after[i].call = l.step.Number, l.place(r)
			w.doubted(s, after[i])
		}
	}
	return err
}

// written applies a write that HNS did, and compares that with what the simulator says.
func (p *player) written(ctx context.Context, l *playback, r *recorder.Call, a asked) {
	w := p.world
	p.attached(a)
	would := w.judgment(ctx, a)
	if would != nil && !p.unjudged(a) {
		p.found(l, r, Finding{Kind: Answer, Object: a.object(), Text: fmt.Sprintf("HNS did it; the simulator would have answered %q", would)})
	}
	for _, s := range a.subjects() {
		delete(w.vague, s)
	}
	w.do(a, ended(r))
	if would != nil {
		w.sync(a.subjects())
	}
}

// judgment has the judge do a write, and returns what it says.
func (w *world) judgment(ctx context.Context, a asked) error {
	if err := a.on(ctx, w.judge).Err; err != nil {
		return err
	}
	for _, s := range a.Sets {
		_, there := w.judged[s.ID]
		switch verb := a.Verb(); {
		case verb == hns.Remove:
			delete(w.judged, s.ID)
		case verb == hns.Add || there:
			w.judged[s.ID] = s
		}
	}
	return nil
}

// attached notes that the endpoint of a write is attached: HNS does not answer that it is
// gone.
func (p *player) attached(a asked) {
	if p.world.absent[a.Endpoint] {
		delete(p.world.absent, a.Endpoint)
		p.world.sync(a.subjects())
	}
}

// unjudged reports whether a write is about something that is not known well
// enough to say what HNS should answer.
func (p *player) unjudged(a asked) bool {
	for _, s := range a.subjects() {
		if p.world.vague[s] || p.world.crowded[s] || len(p.world.doubts[s]) > 0 {
			return true
		}
	}
	_, seen := p.world.endpoints[a.Endpoint]
	return !p.world.setsRead || p.blind && (a.Endpoint == "" || !seen)
}

// object is what a call is about, in a word.
func (a asked) object() string {
	switch {
	case a.Endpoint != "":
		return a.Endpoint
	case len(a.Sets) == 1:
		return a.Sets[0].Name
	case len(a.Sets) > 1:
		return count(len(a.Sets), "set")
	}
	return ""
}

// askedOf is the call that was recorded, as far as its arguments were kept.
func askedOf(r *recorder.Call) asked {
	a := asked{hns.Request{Op: r.Op, Endpoint: r.Endpoint, ACLs: r.ACLs, Policies: r.Policies}}
	for _, v := range r.Sets {
		a.Sets = append(a.Sets, hns.SetPolicy{ID: v.ID, Name: v.Name, Type: v.Type, Values: v.Values})
	}
	return a
}
