package dataplane

import (
	"errors"
	"slices"
	"strings"

	"github.com/winnpm/winnpm/pkg/backoff"
	"github.com/winnpm/winnpm/pkg/drift"
	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/pkg/ipsets"
)

// maxSetsPerRequest bounds requests that no applied ACL can see half done: Add
// and Remove. An Update is never cut, as one event's changes belong together.
const maxSetsPerRequest = 1000

// maxSearch bounds the requests for suspects, and probes, of one transaction.
const maxSearch = 64

// writeSets sends a plan, and what is left to plan after it. A set that HNS refuses is
// singled out and left out. Any other answer means that our view is wrong, or that it is a
// refusal with a code of no known meaning: what is there tells. While the outcome of a
// write of a needed set is unknown nothing is written, as one event's changes belong
// together, nor before our sets were read. It reports whether HNS did its part.
func (r *run) writeSets(plan []ipsets.Request) bool {
	well := r.sendPlans(plan)
	if r.probeSets() {
		well = r.sendPlans(r.planSets())
	}
	d := r.d
	d.renderDirty()
	if !well {
		d.sets.Failed(r.started, d.clock)
	}
	if d.setWork.due || d.setWork.held {
		d.endpoints.Wake()
	}
	return well
}

// sendPlans sends plans until nothing is left that may be written now, or the search
// for what HNS refuses is to go on in the next transaction.
func (r *run) sendPlans(plan []ipsets.Request) bool {
	const attempts = 3
	var doubted ipsets.Request // as it was sent last, in vain, and nothing had changed
	for faults := 0; faults < attempts; {
		if r.inDoubt() {
			return false
		}
		req, err := r.trySets(plan)
		switch {
		case errors.Is(err, errLater):
			return true
		case err == nil:
		case errors.Is(err, hns.ErrInvalid):
			r.refuseSets(req, err)
		case !hns.Answered(err):
			return false
		default:
			r.network()
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

func sameRequest(a, b ipsets.Request) bool {
	return a.Verb == b.Verb && a.Nested == b.Nested && slices.EqualFunc(a.Sets, b.Sets, func(a, b ipsets.SetValue) bool {
		return a.ID == b.ID && slices.Equal(a.Values, b.Values)
	})
}

// inDoubt reports whether nothing may be written before the sets were read.
func (r *run) inDoubt() bool {
	return r.d.fresh || r.d.cache.InDoubt()
}

// planSets returns the requests that are to be sent now.
func (r *run) planSets() []ipsets.Request {
	return inParts(r.d.cache.Plan())
}

// inParts cuts requests that may be cut.
func inParts(plan []ipsets.Request) []ipsets.Request {
	var out []ipsets.Request
	for _, req := range plan {
		if req.Verb == ipsets.Update {
			out = append(out, req)
			continue
		}
		for part := range slices.Chunk(req.Sets, maxSetsPerRequest) {
			cut := req
			cut.Sets = part
			out = append(out, cut)
		}
	}
	return out
}

// endSets ends the writing of sets of a run: with all well nothing waits, but for
// what was cut short, or could not be written before endpoints were.
func (r *run) endSets(well bool) {
	d := r.d
	if well && !d.fresh && !d.cache.InDoubt() {
		d.sets = backoff.Retry{}
	} else {
		d.sets.Failed(r.started, d.clock)
	}
	d.awaitSets()
}

// awaitSets finds what of the sets is left to be written: at once, unless they failed, or
// once somebody has left other sets.
func (d *core) awaitSets() {
	d.setWork.due = !d.cfg.DryRun && d.sets.Tries == 0 && !d.fresh && !d.cache.InDoubt() && len(d.cache.Plan()) > 0
	d.setWork.held = d.cache.HeldBack()
}

// trySets sends the requests in order until one fails, which it returns.
func (r *run) trySets(plan []ipsets.Request) (ipsets.Request, error) {
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
	d := r.d
	err := r.ask(hns.Request{Op: hns.OpSets(hnsVerbs[req.Verb]), Sets: hnsSets(req)}).Err
	d.recordSets(req, err)
	if err != nil && req.Verb != ipsets.Remove && !r.shielded {
		r.shielded = true
		r.isolateNewborn()
	}
	return err
}

// recordSets records the outcome of a set request.
func (d *core) recordSets(req ipsets.Request, err error) {
	switch {
	case errors.Is(err, hns.ErrInvalid), req.Verb == ipsets.Remove && errors.Is(err, hns.ErrInUse):
		return // nothing was done
	case err == nil && req.Verb == ipsets.Remove:
		for _, s := range req.Sets {
			d.cache.Removed(s.Name)
		}
	case err == nil:
		for _, s := range req.Sets {
			d.cache.Wrote(s)
		}
	default:
		for _, s := range req.Sets {
			d.cache.Unknown(s.Name)
		}
	}
	for _, s := range req.Sets {
		d.drift.Wrote(drift.OfSet(s.Name))
	}
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
