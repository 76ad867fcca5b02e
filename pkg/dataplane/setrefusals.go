package dataplane

import (
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/winnpm/winnpm/pkg/backoff"
	"github.com/winnpm/winnpm/pkg/endpoints"
	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/pkg/ipsets"
	"github.com/winnpm/winnpm/pkg/state"
)

// refuseSets records that HNS refused a request. A set that is found out is left out,
// and the rules that name it with it.
func (r *run) refuseSets(req ipsets.Request, err error) {
	d := r.d
	n, is := d.cache.Refuse(req)
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
	for _, n := range d.cache.Refused() {
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

// setWarnings is what warnings say of sets that HNS refuses, or does not remove. It
// shares nothing with the state.
type setWarnings struct {
	codes     map[ipsets.Name]uint32
	unremoved map[ipsets.Name]uint32 // those that failed alone
}

// setWarnings returns what is active now.
func (d *core) setWarnings() setWarnings {
	var w setWarnings
	if len(d.setWork.refused)+len(d.setWork.removals) == 0 {
		return w
	}
	w = setWarnings{map[ipsets.Name]uint32{}, map[ipsets.Name]uint32{}}
	for n, a := range d.setWork.refused {
		w.codes[n] = a.Code
	}
	for n, a := range d.setWork.removals {
		if a.alone {
			w.unremoved[n] = a.Code
		}
	}
	return w
}

// code is the code with which HNS refuses a set, in brackets.
func (w setWarnings) code(n ipsets.Name) string { return endpoints.InBrackets(w.codes[n]) }

func (w setWarnings) ofRemovals() []state.Warning {
	var out []state.Warning
	for n, code := range w.unremoved {
		out = append(out, state.Warning{Object: n.String(), Kind: "Set", Reason: state.ReasonHNSRejected,
			Message: "HNS does not remove the set" + endpoints.InBrackets(code) + ": nothing needs it; it is tried again"})
	}
	return out
}

// dumpAgain returns what waits for another try.
func (d *core) dumpAgain() map[ipsets.Name]state.Again {
	out := map[ipsets.Name]state.Again{}
	for n, a := range d.setWork.refused {
		out[n] = state.Again{At: a.At, Attempts: a.Tries, Code: a.Code}
	}
	for n, m := range d.setWork.removals {
		out[n] = state.Again{At: m.At, Attempts: m.Tries, Code: m.Code}
	}
	return out
}
