package dataplane

import (
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/winnpm/winnpm/pkg/backoff"
	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/pkg/ipsets"
	"github.com/winnpm/winnpm/pkg/state"
)

// refuseSets records that HNS refused a request. A set that is found out is left out,
// and the rules that name it with it.
func (r *run) refuseSets(req ipsets.Request, err error) {
	d := r.d
	n, is := d.cache.RejectRequest(req)
	if !is {
		return
	}
	now := d.clock
	switch a := d.setWork.refused[n]; {
	case a == nil:
		a = &backoff.Again{}
		a.Failed(err, now)
		d.setWork.refused[n] = a
	case a.At.After(now): // it changed, so it was tried before its time
		a.Code = hns.CodeOf(err)
	default:
		a.Failed(err, now)
	}
	d.leftOut[n] = true
	d.endpoints.MarkHolders(n)
	d.leaveOutTwins()
}

// probeSets asks HNS again for the sets that it refused, each alone, when their time
// has come. It reports whether HNS took one: the rules that name it come back.
func (r *run) probeSets() (accepted bool) {
	for _, n := range r.dueProbes() {
		if r.inDoubt() || r.ending() {
			return accepted
		}
		d := r.d
		req, ok := d.cache.Probe(n)
		if ok && r.searchEnds() {
			return accepted
		}
		var err error
		if ok {
			err = r.sendSets(req)
		}
		if err != nil && !errors.Is(err, hns.ErrInvalid) && hns.Answered(err) {
			r.network()
		}
		switch a := d.setWork.refused[n]; {
		case !ok, err != nil && !hns.Answered(err): // it may not be written now, or came to no answer
			a.Wait(d.clock)
		case err != nil:
			a.Failed(err, d.clock)
		default:
			accepted = true
			delete(d.setWork.refused, n)
			d.leaveOut()
		}
	}
	return accepted
}

// dueProbes brings what is remembered of refused sets up to date, and returns those
// whose time has come, in its order.
func (r *run) dueProbes() []ipsets.Name {
	d := r.d
	refused := map[ipsets.Name]bool{}
	for _, n := range d.cache.RejectedSets() {
		refused[n] = true
		if d.setWork.refused[n] == nil { // nothing needed it when it was refused
			d.setWork.refused[n] = &backoff.Again{At: r.started}
		}
	}
	maps.DeleteFunc(d.setWork.refused, func(n ipsets.Name, _ *backoff.Again) bool { return !refused[n] })
	var due []ipsets.Name
	for n, a := range d.setWork.refused {
		if !a.At.After(r.started) {
			due = append(due, n)
		}
	}
	slices.SortFunc(due, func(a, b ipsets.Name) int {
		if c := d.setWork.refused[a].At.Compare(d.setWork.refused[b].At); c != 0 {
			return c
		}
		return ipsets.Compare(a, b)
	})
	return due
}

// setsAgain adds when HNS is asked again for sets that it refused, did not
// remove or did not show, and when the next one may be removed: a node on which
// nothing else happens has no other transaction.
func (d *core) setsAgain(next *backoff.Due, now time.Time) {
	if d.sets.At.IsZero() { // else nothing is written before
		for _, a := range d.setWork.refused {
			next.At(a.At)
		}
		next.At(d.setWork.read.At)
	}
	if !d.endpoints.Unsettled() { // else nothing is removed
		for _, a := range d.setWork.removals {
			next.At(a.At)
		}
		if spare := d.cache.NextSpare(now.Add(-d.cfg.GracePeriod)); !spare.IsZero() {
			next.At(spare.Add(d.cfg.GracePeriod))
		}
	}
}

// again returns the sets that HNS refuses or did not remove, and of the latter those that it
// refused to remove alone. The caller owns both.
func (d *core) again() (again map[ipsets.Name]state.Again, unremoved []ipsets.Name) {
	again = make(map[ipsets.Name]state.Again, len(d.setWork.refused)+len(d.setWork.removals))
	for n, a := range d.setWork.refused {
		again[n] = state.Again{At: a.At, Attempts: a.Tries, Code: a.Code}
	}
	for n, a := range d.setWork.removals {
		again[n] = state.Again{At: a.At, Attempts: a.Tries, Code: a.Code}
		if a.alone && a.Tries > 0 {
			unremoved = append(unremoved, n)
		}
	}
	return again, unremoved
}
