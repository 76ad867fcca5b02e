package dataplane

import (
	"cmp"
	"errors"
	"maps"
	"slices"

	"github.com/winnpm/winnpm/pkg/backoff"
	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/pkg/ipsets"
)

// maxSearch bounds the requests of one transaction that search for a rejected set or try one again.
const maxSearch = 64

// writeSets sends a plan, and plans again until nothing differs. It searches for the set that made HNS
// reject a request, and omits it. After any other error the sets are read: either the recorded
// sets were wrong, or the error was a rejection with an unknown code. Nothing is written while the
// outcome of a write of a needed set is unknown, because the changes of one event must become
// visible together, and nothing before the sets were read.
func (r *run) writeSets(plan []ipsets.Write) {
	r.progress.Note("writing sets", "", "", "")
	done := r.sendPlans(plan)
	if rejected := r.cache.RejectedSets(); len(rejected)+len(r.refused) > 0 && r.probeSets(rejected) {
		done = r.sendPlans(r.planSets())
	}
	r.renderDirty()
	if r.setsFailed = !done; r.setsFailed {
		r.sets.Failed(r.started, r.clock)
	}
	if r.due || r.held {
		r.endpoints.Wake()
	}
}

// sendPlans sends plans until nothing is left to write now, or until the search for a rejected
// set is left to the next transaction. It returns false if sets could not be read or written.
func (r *run) sendPlans(plan []ipsets.Write) bool {
	const attempts = 3
	var doubted ipsets.Write // the last one that failed although the sets were as recorded
	for faults := 0; faults < attempts && !r.cache.InDoubt(); {
		if len(plan) == 0 {
			return true
		}
		req := plan[0]
		if req.Search && r.searchEnds() {
			return true
		}
		err := r.sendSets(req)
		switch {
		case err == nil && len(plan) > 1:
			plan = plan[1:]
			continue
		case err == nil:
		case errors.Is(err, hns.ErrInvalid):
			r.refuseSets(req, err)
		case !hns.Answered(err):
			return false
		default:
			r.readUnknownSets()
			switch again := r.planSets(); {
			case len(again) == 0 || !sameRequest(again[0], req): // the sets were not as recorded
				faults++
				doubted = ipsets.Write{}
			case sameRequest(doubted, req):
				r.refuseSets(req, err)
			default:
				doubted = req
			}
		}
		plan = r.planSets()
	}
	return len(plan) == 0 && !r.cache.InDoubt()
}

func sameRequest(a, b ipsets.Write) bool {
	return a.Verb == b.Verb && a.Nested == b.Nested && slices.EqualFunc(a.Sets, b.Sets, func(a, b ipsets.SetValue) bool {
		return a.ID == b.ID && slices.Equal(a.Values, b.Values)
	})
}

// searchEnds counts a request of a search before it is sent. It reports whether to leave the
// request to the next transaction, because that is due or there were maxSearch requests. The first
// request of a transaction is always sent, so that each search ends.
func (r *run) searchEnds() bool {
	if r.searched > 0 && r.yields() || r.searched == maxSearch {
		return true
	}
	r.searched++
	return false
}

// sendSets sends one request and records its outcome. After the first failure, open endpoints are
// isolated before anything else is sent.
func (r *run) sendSets(req ipsets.Write) error {
	kind, sets := hns.IPSet, make([]hns.SetPolicy, len(req.Sets))
	if req.Nested {
		kind = hns.NestedIPSet
	}
	for i, s := range req.Sets {
		sets[i] = hns.SetPolicy{ID: s.ID, Name: s.Text, Type: kind, Values: s.Values}
	}
	err := r.ask(hns.Request{Op: hns.OpSets(hnsVerbs[req.Verb]), Sets: sets}).Err
	remove := req.Verb == ipsets.Remove
	if nothingDone := errors.Is(err, hns.ErrInvalid) || remove && errors.Is(err, hns.ErrInUse); !nothingDone {
		for _, s := range req.Sets {
			switch {
			case err != nil:
				r.cache.Unknown(s.Name)
			case remove:
				r.cache.Removed(s.Name)
			default:
				r.cache.Wrote(s)
			}
			r.endpoints.WroteSet(s.Name)
		}
	}
	if err != nil && !remove && !r.isolated {
		r.isolated = true
		r.isolateOpen()
	}
	return err
}

// refuseSets records that HNS rejected a request. If the request had one set, that set is omitted
// until it changes or HNS accepts it.
func (r *run) refuseSets(req ipsets.Write, err error) {
	name, found := r.cache.RejectRequest(req)
	if !found {
		return
	}
	if r.refused[name] == nil {
		r.refused[name] = &backoff.Again{}
	}
	if a := r.refused[name]; a.At.After(r.clock) { // its content changed before it was due
		a.Code = hns.CodeOf(err)
	} else {
		a.Failed(err, r.clock)
	}
}

// probeSets tries the rejected sets again that are due, each alone. It reports whether HNS
// accepted one.
func (r *run) probeSets(rejected []ipsets.Name) (accepted bool) {
	due := r.dueProbes(rejected)
	if len(due) == 0 {
		return false
	}
	planned := len(r.planSets()) > 0 // it is written first
	for _, name := range due {
		if r.cache.InDoubt() || r.ctx.Err() != nil {
			return accepted
		}
		req, may := r.cache.Probe(name)
		may = may && !planned
		if may && r.searchEnds() {
			return accepted
		}
		var err error
		if may {
			err = r.sendSets(req)
			if err != nil && !errors.Is(err, hns.ErrInvalid) && hns.Answered(err) {
				r.readUnknownSets()
			}
			planned = len(r.planSets()) > 0
		}
		switch a := r.refused[name]; {
		case !may, err != nil && !hns.Answered(err): // it cannot be written now, or HNS did not answer
			a.Wait(r.clock)
		case err != nil:
			a.Failed(err, r.clock)
		default:
			accepted = true
			delete(r.refused, name)
		}
	}
	return accepted
}

// dueProbes updates the list of rejected sets, and returns the sets that are due, the earliest first.
func (r *run) dueProbes(rejected []ipsets.Name) (due []ipsets.Name) {
	refused := map[ipsets.Name]bool{}
	for _, name := range rejected {
		refused[name] = true
		if r.refused[name] == nil { // it was not needed when it was rejected
			r.refused[name] = &backoff.Again{At: r.started}
		}
	}
	maps.DeleteFunc(r.refused, func(name ipsets.Name, _ *backoff.Again) bool { return !refused[name] })
	for name, a := range r.refused {
		if !a.At.After(r.started) {
			due = append(due, name)
		}
	}
	slices.SortFunc(due, func(a, b ipsets.Name) int {
		return cmp.Or(r.refused[a].At.Compare(r.refused[b].At), ipsets.Compare(a, b))
	})
	return due
}

// hnsVerbs translates verbs.
var hnsVerbs = map[ipsets.WriteVerb]hns.Verb{ipsets.Add: hns.Add, ipsets.Update: hns.Update, ipsets.Remove: hns.Remove}
