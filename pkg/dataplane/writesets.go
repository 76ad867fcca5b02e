package dataplane

import (
	"cmp"
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/winnpm/winnpm/pkg/backoff"
	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/pkg/ipsets"
)

// maxSearch bounds the requests for suspects, and probes, of one transaction.
const maxSearch = 64

// writeSets sends a plan, and what is left to plan after it. A set that HNS refuses is
// singled out and left out. Any other answer means that our view is wrong, or that it is a
// refusal with a code of no known meaning: what is there tells. While the outcome of a
// write of a needed set is unknown nothing is written, as one event's changes belong
// together, nor before our sets were read.
func (r *run) writeSets(plan []ipsets.Request) {
	r.progress.Note("writing sets", "", "", "")
	done := r.sendPlans(plan)
	if r.probeSets() {
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

// sendPlans sends plans until nothing is left that may be written now, or the search for what
// HNS refuses is to go on in the next transaction. It reports whether HNS did its part.
func (r *run) sendPlans(plan []ipsets.Request) bool {
	const attempts = 3
	var doubted ipsets.Request // as it was sent last, in vain, and nothing had changed
	for faults := 0; faults < attempts; {
		if r.inDoubt() {
			return false
		}
		req, err := r.sendPlan(plan)
		switch {
		case errors.Is(err, errLater):
			return true
		case err == nil:
		case errors.Is(err, hns.ErrInvalid):
			r.refuseSets(req, err)
		case !hns.Answered(err):
			return false
		default:
			r.readUnknownSets()
			switch again := r.planSets(); {
			case len(again) == 0 || !sameRequest(again[0], req): // something had changed
				faults++
				doubted = ipsets.Request{}
			case sameRequest(doubted, req):
				r.refuseSets(req, err)
			default:
				doubted = req
			}
		}
		if plan = r.planSets(); len(plan) == 0 {
			return true
		}
	}
	return false
}

// errLater ends a plan in the midst of a search.
var errLater = errors.New("the search goes on in the next transaction")

// sendPlan sends the requests in order until one fails, which it returns.
func (r *run) sendPlan(plan []ipsets.Request) (ipsets.Request, error) {
	for _, req := range plan {
		if req.Search && r.searchEnds() {
			return req, errLater
		}
		if err := r.sendSets(req); err != nil {
			return req, err
		}
	}
	return ipsets.Request{}, nil
}

func sameRequest(a, b ipsets.Request) bool {
	return a.Verb == b.Verb && a.Nested == b.Nested && slices.EqualFunc(a.Sets, b.Sets, func(a, b ipsets.SetValue) bool {
		return a.ID == b.ID && slices.Equal(a.Values, b.Values)
	})
}

// inDoubt reports whether nothing may be written before the sets were read.
func (r *run) inDoubt() bool {
	return r.fresh || r.cache.InDoubt()
}

// searchEnds counts a request of a search that is about to be sent, and reports
// whether it is to be left to the next transaction instead: that is due, or it would
// be one too many. The first one always goes, so that every transaction gets on.
func (r *run) searchEnds() bool {
	if r.searched > 0 && r.yields(1) || r.searched == maxSearch {
		return true
	}
	r.searched++
	return false
}

// sendSets sends one request and records what came of it. At the first write that
// fails, pods that may be open come first.
func (r *run) sendSets(req ipsets.Request) error {
	err := r.ask(hns.Request{Op: hns.OpSets(hnsVerbs[req.Verb]), Sets: hnsSets(req)}).Err
	r.recordSets(req, err)
	if err != nil && req.Verb != ipsets.Remove && !r.isolated {
		r.isolated = true
		r.isolateOpen()
	}
	return err
}

// recordSets records the outcome of a set request.
func (n *nodeState) recordSets(req ipsets.Request, err error) {
	if errors.Is(err, hns.ErrInvalid) || req.Verb == ipsets.Remove && errors.Is(err, hns.ErrInUse) {
		return // nothing was done
	}
	for _, s := range req.Sets {
		switch {
		case err == nil && req.Verb == ipsets.Remove:
			n.cache.Removed(s.Name)
		case err == nil:
			n.cache.Wrote(s)
		default:
			n.cache.Unknown(s.Name)
		}
		n.endpoints.WroteSet(s.Name)
	}
}

// refuseSets records that HNS refused a request. A set that is found out is left out,
// and the rules that name it with it.
func (r *run) refuseSets(req ipsets.Request, err error) {
	name, found := r.cache.RejectRequest(req)
	if !found {
		return
	}
	if r.refused[name] == nil {
		r.refused[name] = &backoff.Again{}
	}
	if a := r.refused[name]; a.At.After(r.clock) { // it changed, so it was tried before its time
		a.Code = hns.CodeOf(err)
	} else {
		a.Failed(err, r.clock)
	}
}

// probeSets asks HNS again for the sets that it refused, each alone, when their time
// has come. It reports whether HNS took one: the rules that name it come back.
func (r *run) probeSets() (accepted bool) {
	for _, name := range r.dueProbes() {
		if r.inDoubt() || r.ctx.Err() != nil {
			return accepted
		}
		req, may := r.cache.Probe(name)
		if may && r.searchEnds() {
			return accepted
		}
		var err error
		if may {
			err = r.sendSets(req)
		}
		if err != nil && !errors.Is(err, hns.ErrInvalid) && hns.Answered(err) {
			r.readUnknownSets()
		}
		switch a := r.refused[name]; {
		case !may, err != nil && !hns.Answered(err): // it may not be written now, or came to no answer
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

// dueProbes brings what is remembered of refused sets up to date, and returns those
// whose time has come, in its order.
func (r *run) dueProbes() (due []ipsets.Name) {
	refused := map[ipsets.Name]bool{}
	for _, name := range r.cache.RejectedSets() {
		refused[name] = true
		if r.refused[name] == nil { // nothing needed it when it was refused
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

// hnsVerbs has HNS's words.
var hnsVerbs = map[ipsets.Verb]hns.Verb{ipsets.Add: hns.Add, ipsets.Update: hns.Update, ipsets.Remove: hns.Remove}

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

// observedSets returns our sets of a network. HNS may show Ids in either case; ours
// are in lower case, as they are in rules. An address may come with its mask.
func observedSets(sets []hns.SetPolicy) []ipsets.Observed {
	var out []ipsets.Observed
	for _, s := range sets {
		o := ipsets.Observed{ID: strings.ToLower(s.ID), Name: s.Name, Nested: s.Type == hns.NestedIPSet, Values: make([]string, len(s.Values))}
		if !strings.HasPrefix(o.ID, hns.SetIDPrefix) {
			continue
		}
		for i, v := range s.Values {
			if o.Nested {
				o.Values[i] = strings.ToLower(strings.TrimSpace(v))
			} else if value, ok := hns.CanonicalValue(v); ok {
				o.Values[i] = value
			} else {
				o.Values[i] = v
			}
		}
		out = append(out, o)
	}
	return out
}
