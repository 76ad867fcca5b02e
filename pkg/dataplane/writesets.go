package dataplane

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/pkg/ipsets"
)

// maxSetsPerRequest bounds requests that no applied ACL can see half done: Add
// and Remove. An Update is never cut, as one event's changes belong together.
const maxSetsPerRequest = 1000

// writeSets is phase 1. A refused set is singled out and left out; any other
// refusal means that our view is wrong: it is read again and planned once more.
// While the outcome of a write is unknown nothing is written, as one event's
// changes belong together, nor before our sets were read. It reports whether all
// went well.
func (r *run) writeSets(ctx context.Context, plan []ipsets.Request) bool {
	const attempts = 3
	d := r.d
	for range attempts {
		d.mu.Lock()
		unknown := d.fresh || d.cache.HasUnknown()
		d.mu.Unlock()
		if unknown {
			break
		}
		err := r.trySets(ctx, plan)
		if err == nil {
			return true
		}
		if hns.OutcomeUnknown(err) {
			break // HNS does not answer
		}
		if !errors.Is(err, hns.ErrInvalid) {
			r.network(ctx)
		}
		d.mu.Lock()
		plan = d.cache.Plan()
		d.mu.Unlock()
	}
	d.mu.Lock()
	d.sets.failed(r.started, d.cfg.Now())
	d.mu.Unlock()
	return false
}

// endSets ends the writing of sets of a run: with all well nothing waits.
func (r *run) endSets(well bool) {
	d := r.d
	d.mu.Lock()
	defer d.mu.Unlock()
	if well && !d.fresh && !d.cache.HasUnknown() {
		d.sets = retry{}
	} else {
		d.sets.failed(r.started, d.cfg.Now())
	}
}

// trySets sends the requests in order until one fails.
func (r *run) trySets(ctx context.Context, plan []ipsets.Request) error {
	for _, req := range plan {
		if req.Verb == ipsets.Update {
			if err := r.sendSets(ctx, req); err != nil {
				return err
			}
			continue
		}
		for part := range slices.Chunk(req.Sets, maxSetsPerRequest) {
			if err := r.sendSets(ctx, ipsets.Request{Verb: req.Verb, Nested: req.Nested, Sets: part}); err != nil {
				return err
			}
		}
	}
	return nil
}

// sendSets sends one request and records what came of it.
func (r *run) sendSets(ctx context.Context, req ipsets.Request) error {
	d := r.d
	err := r.call(hns.OpSets(hnsVerb(req.Verb)), func() error {
		return d.cfg.Client.ModifySets(ctx, hnsVerb(req.Verb), hnsSets(req))
	})
	d.mu.Lock()
	d.recordSetsLocked(req, err)
	d.mu.Unlock()
	inUse := req.Verb == ipsets.Remove && errors.Is(err, hns.ErrInUse)
	switch {
	case len(req.Sets) > 1 && (inUse || errors.Is(err, hns.ErrInvalid)):
		return r.halve(ctx, req)
	case inUse:
		return nil
	}
	return err
}

// halve finds the refused sets of a request, or those in use. For an Update
// every set first loses what it is to lose, so that no state between is more
// open than both ends; what has to join comes after.
func (r *run) halve(ctx context.Context, req ipsets.Request) error {
	half := len(req.Sets) / 2
	parts := []ipsets.Request{
		{Verb: req.Verb, Nested: req.Nested, Sets: req.Sets[:half]},
		{Verb: req.Verb, Nested: req.Nested, Sets: req.Sets[half:]},
	}
	if req.Verb == ipsets.Update {
		r.d.mu.Lock()
		leaving := r.d.cache.Leaving(req)
		r.d.mu.Unlock()
		if len(leaving.Sets) > 0 && !slices.EqualFunc(leaving.Sets, req.Sets, sameValue) {
			parts = append([]ipsets.Request{leaving}, parts...)
		}
	}
	var result error
	for _, part := range parts {
		if err := r.sendSets(ctx, part); err != nil {
			result = err
		}
	}
	return result
}

func sameValue(a, b ipsets.SetValue) bool {
	return a.ID == b.ID && slices.Equal(a.Values, b.Values)
}

// recordSetsLocked records the outcome of a set request. d.mu must be held.
func (d *Dataplane) recordSetsLocked(req ipsets.Request, err error) {
	d.sequence++
	for _, s := range req.Sets {
		d.moved[s.ID] = d.sequence
	}
	switch {
	case err == nil:
		for _, s := range req.Sets {
			d.noteWriteLocked(subject{set: s.Name})
			if req.Verb == ipsets.Remove {
				d.cache.Removed(s.Name)
			} else {
				d.cache.Wrote(s)
			}
		}
	case req.Verb == ipsets.Remove && errors.Is(err, hns.ErrInUse):
		if len(req.Sets) == 1 { // by something that we do not know of
			d.cache.Used(req.Sets[0].Name)
		}
	case errors.Is(err, hns.ErrInvalid):
		if len(req.Sets) == 1 && (req.Verb == ipsets.Add || req.Verb == ipsets.Update && d.cache.Wants(req.Sets[0])) {
			d.rejectLocked(req.Sets[0].Name)
		}
	default:
		for _, s := range req.Sets {
			d.noteWriteLocked(subject{set: s.Name})
			d.cache.Unknown(s.Name)
		}
	}
}

// rejectLocked leaves a set out that HNS refuses, and the rules that name it
// with it. d.mu must be held.
func (d *Dataplane) rejectLocked(n ipsets.Name) {
	d.cache.Reject(n)
	d.leftOut[n] = true
	d.renderHoldersLocked(n)
	d.renderDirtyLocked()
}

// removalsLocked returns what phase 2 may delete: sets that nothing has needed
// for the grace period. After a failed listing, or before what it showed was read,
// there may be endpoints that we do not know of, whose rules need them. d.mu must
// be held.
func (d *Dataplane) removalsLocked(now time.Time) []ipsets.Request {
	if d.listing.unsettled || d.listing.err != nil || d.unreadLocked() {
		return nil
	}
	return d.cache.PlanRemovals(now.Add(-d.cfg.GracePeriod))
}

// removeSets is phase 2. A set that is in use by something unknown stays for
// another grace period; any other refusal means that our view is wrong, and the
// sets are read again before the next round. It reports whether all went well.
func (r *run) removeSets(ctx context.Context) bool {
	d := r.d
	d.mu.Lock()
	plan := d.removalsLocked(r.started)
	d.mu.Unlock()
	return r.trySets(ctx, plan) == nil
}

// hnsVerb returns HNS's word.
func hnsVerb(v ipsets.Verb) hns.Verb {
	switch v {
	case ipsets.Add:
		return hns.Add
	case ipsets.Update:
		return hns.Update
	case ipsets.Remove:
		return hns.Remove
	}
	panic("BUG: unknown set verb")
}

// hnsSets returns the sets of a request as HNS wants them.
func hnsSets(req ipsets.Request) []hns.SetPolicy {
	t := hns.IPSet
	if req.Nested {
		t = hns.NestedIPSet
	}
	out := make([]hns.SetPolicy, len(req.Sets))
	for i, s := range req.Sets {
		out[i] = hns.SetPolicy{ID: s.ID, Name: s.Text, Type: t, Values: s.Values}
	}
	return out
}

// observedSets returns our sets of a network.
func observedSets(sets []hns.SetPolicy) []ipsets.Observed {
	var out []ipsets.Observed
	for _, s := range sets {
		if strings.HasPrefix(s.ID, hns.SetIDPrefix) {
			out = append(out, ipsets.Observed{ID: s.ID, Name: s.Name, Nested: s.Type == hns.NestedIPSet, Values: s.Values})
		}
	}
	return out
}
