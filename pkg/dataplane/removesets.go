package dataplane

import (
	"errors"
	"maps"
	"slices"

	"github.com/winnpm/winnpm/pkg/backoff"
	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/pkg/ipsets"
)

// removeSets deletes the sets that nothing has needed for the grace period. A set that HNS does not
// remove is tried again after a pause of its own, and delays no other set. If HNS says that a set
// is in use, the pause is at least one grace period.
func (r *run) removeSets() {
	r.progress.Note("removing sets", "", "", "")
	if !r.cache.HasSpare() {
		clear(r.removals)
		r.readAgain = backoff.Retry{}
		return
	}
	if r.cache.HasUnknown() && !r.cache.InDoubt() && !r.readAgain.At.After(r.started) {
		_ = r.readSets(false) // only outcomes of sets that nothing needs are unknown
	}
	for r.ctx.Err() == nil {
		req, ok := r.nextRemoval()
		if !ok || req.Search && r.searchEnds() {
			break
		}
		if err := r.sendSets(req); err != nil && !r.notRemoved(req, err) {
			break
		}
	}
	if len(r.removals) > 0 {
		r.endRemovals()
	}
	if !r.cache.HasUnknown() {
		r.readAgain = backoff.Retry{}
	}
}

// nextRemoval returns the next request: first for all sets together, then for each set alone that
// HNS rejected together with others. It returns false if no request is left, or if rules on
// endpoints that the agent has not read may name sets.
func (r *run) nextRemoval() (ipsets.Write, bool) {
	if r.endpoints.Unsettled() {
		return ipsets.Write{}, false
	}
	plan := r.cache.PlanRemovals(r.started.Add(-r.cfg.GracePeriod), func(name ipsets.Name) bool {
		a := r.removals[name]
		return a != nil && a.At.After(r.started)
	})
	if len(plan) == 0 {
		return ipsets.Write{}, false
	}
	req := plan[0]
	together := slices.DeleteFunc(slices.Clone(req.Sets), func(s ipsets.SetValue) bool { return r.alone[s.Name] })
	if req.Search = len(together) == 0; req.Search {
		req.Sets = req.Sets[:1] // its next try is later if it fails
	} else {
		req.Sets = together[:min(len(together), ipsets.MaxSets)]
	}
	return req, true
}

// notRemoved plans the next try after a request failed, and reports whether to send other requests.
// If HNS rejected several sets, the agent asks for each alone, as one of them may be the cause.
func (r *run) notRemoved(req ipsets.Write, err error) bool {
	refused := errors.Is(err, hns.ErrInvalid) || errors.Is(err, hns.ErrInUse)
	if !refused && hns.Answered(err) && r.readSets(false) != nil {
		return false
	}
	refused = refused || hns.Answered(err)
	if refused && slices.ContainsFunc(req.Sets, func(s ipsets.SetValue) bool { return !r.cache.Spare(s.Name) }) {
		return true // some were removed, or are needed: plan again
	}
	if !refused {
		r.readAgain.Failed(r.started, r.clock)
	}
	for _, s := range req.Sets {
		a := r.removals[s.Name]
		if a == nil {
			a = &backoff.Again{At: r.started}
			r.removals[s.Name] = a
		}
		if refused && len(req.Sets) > 1 {
			r.alone[s.Name] = true
			continue
		}
		a.Failed(err, r.clock)
		if errors.Is(err, hns.ErrInUse) {
			r.cache.Used(s.Name)
			a.NotBefore(r.clock.Add(r.cfg.GracePeriod))
		}
	}
	return refused
}

// endRemovals drops the entries of sets that are gone or needed again. It delays the sets that were
// due and could not be tried, for example because a nested set contains them.
func (r *run) endRemovals() {
	maps.DeleteFunc(r.removals, func(name ipsets.Name, _ *backoff.Again) bool { return !r.cache.Spare(name) })
	for _, a := range r.removals {
		if untried := !a.At.After(r.started); untried && r.searched < maxSearch && !r.yielded {
			a.At = r.started.Add(backoff.FirstRefused)
		}
	}
}
