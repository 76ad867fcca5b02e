package dataplane

import (
	"cmp"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/winnpm/winnpm/pkg/backoff"
	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/pkg/ipsets"
)

// removeSets deletes unused sets. A failure delays no other set: the set is tried again after its
// own pause. A set that an unknown object uses stays for at least one more grace period.
func (r *run) removeSets() {
	r.readSpare()
	for !r.ending() {
		req, ok := r.nextRemoval()
		if !ok || req.Search && r.searchEnds() {
			break
		}
		err := r.sendSets(req)
		if err != nil && !r.notRemoved(req, err) {
			break
		}
	}
	r.endRemovals()
}

// readSpare reads the sets when all that is in doubt is what nobody needs.
func (r *run) readSpare() {
	d := r.d
	due := d.cache.HasUnknown() && !d.cache.InDoubt() && !d.setWork.read.At.After(r.started)
	if due {
		_ = r.readSets(false)
	}
}

// removals returns what removeSets may delete now: sets that nothing has needed
// for the grace period. After a failed listing, or before what it showed was read,
// there may be endpoints that we do not know of, whose rules need them.
func (d *core) removals(now time.Time) []ipsets.Request {
	if d.endpoints.Unsettled() {
		return nil
	}
	return d.cache.PlanRemovals(now.Add(-d.cfg.GracePeriod), func(n ipsets.Name) bool {
		a := d.setWork.removals[n]
		return a != nil && a.At.After(now)
	})
}

// nextRemoval returns the next request: all sets together, and then each set alone that HNS
// rejected together with others.
func (r *run) nextRemoval() (ipsets.Request, bool) {
	d := r.d
	plan := d.removals(r.started)
	if len(plan) == 0 {
		return ipsets.Request{}, false
	}
	req, failed := plan[0], []ipsets.SetValue{}
	req.Sets = nil
	for _, s := range plan[0].Sets {
		if a := d.setWork.removals[s.Name]; a == nil || !a.alone {
			req.Sets = append(req.Sets, s)
		} else {
			failed = append(failed, s)
		}
	}
	if n := len(req.Sets); n > 0 {
		req.Sets = req.Sets[:min(n, maxSetsPerRequest)]
		return req, true
	}
	req.Search, req.Sets = true, []ipsets.SetValue{slices.MinFunc(failed, func(a, b ipsets.SetValue) int { // whoever failed least
		return cmp.Compare(d.setWork.removals[a.Name].Tries, d.setWork.removals[b.Name].Tries)
	})}
	return req, true
}

// notRemoved deals with a request that failed, and reports whether to go on. Of
// several sets only some may be to blame.
func (r *run) notRemoved(req ipsets.Request, err error) bool {
	d := r.d
	refused := errors.Is(err, hns.ErrInvalid) || errors.Is(err, hns.ErrInUse)
	if !refused && hns.Answered(err) && r.readSets(false) != nil {
		return false
	}
	now, left := d.clock, 0
	for _, s := range req.Sets {
		if d.cache.Spare(s.Name) {
			left++
		}
	}
	if refused = refused || hns.Answered(err); refused && left < len(req.Sets) {
		return true // our view was wrong
	}
	for _, s := range req.Sets {
		a := d.setWork.removals[s.Name]
		if a == nil {
			a = &removal{}
			d.setWork.removals[s.Name] = a
		}
		switch {
		case !refused: // HNS did not answer: not at once
			a.Failed(err, now)
		case len(req.Sets) > 1:
			a.At, a.alone = r.started, true
		default:
			a.alone = true
			a.Failed(err, now)
			if errors.Is(err, hns.ErrInUse) {
				d.cache.Used(s.Name)
				a.NotBefore(now.Add(d.cfg.GracePeriod))
			}
		}
	}
	if !refused {
		d.setWork.read.Failed(r.started, now)
	}
	return refused
}

// endRemovals forgets what is remembered of sets that are gone, or needed again, and
// has those wait that could not be tried though their time had come.
func (r *run) endRemovals() {
	d := r.d
	maps.DeleteFunc(d.setWork.removals, func(n ipsets.Name, _ *removal) bool { return !d.cache.Spare(n) })
	var waiting []*removal
	next := r.started.Add(backoff.FirstRefused)
	for _, a := range d.setWork.removals {
		if !a.At.After(r.started) {
			waiting = append(waiting, a)
		} else if a.At.Before(next) {
			next = a.At
		}
	}
	if r.searched < maxSearch && r.yielded == 0 {
		for _, a := range waiting { // together with the others: each request may take long
			a.At = next
		}
	}
	if !d.cache.HasUnknown() {
		d.setWork.read = backoff.Retry{}
	}
}
