package torture

import (
	"slices"

	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/pkg/state"
	"github.com/winnpm/winnpm/test/hnsfault"
)

// checkDump checks that the state of each endpoint in a dump fits the rest of the dump, as it
// must between two transactions, and that no set is pinned while nothing is pending.
func (r *replay) checkDump() {
	d := r.dp.Dump()
	pending, quiet := map[string]bool{}, true
	for _, p := range d.Pending {
		pending[p.Endpoint] = true
	}
	for _, ep := range d.Endpoints {
		settled := !pending[ep.ID]
		quiet = quiet && settled && ep.Known
		fits := ep.Known == (ep.Next.Version != "") && ep.Known == (len(ep.Maybe) == 0) && settled == (ep.Next.Turn == 0)
		switch {
		case !ep.Known:
			fits = fits && len(ep.Applied) == 0 && settled == (ep.Pod == "")
		case settled: // a pending one may turn out to be right
			fits = fits && !ep.Next.Exposed && (ep.Pod == "" || inForce(ep, r.sets()))
		default:
			fits = fits && ep.Pod != ""
		}
		if !fits {
			r.fail("the dump contradicts itself: settled %t, %+v", settled, ep)
		}
	}
	for _, s := range d.Sets {
		if quiet && len(s.Pins) > 0 {
			r.fail("nothing is pending, but %s is pinned by %v", s.Name, s.Pins)
		}
	}
}

// inForce reports whether an endpoint has the rules that it should have, in whatever order. A
// rule for an unused number of a named port may stay until the next Update, but not in a list
// of tiers.
func inForce(ep state.EndpointDump, sets map[string]hns.SetPolicy) bool {
	extra := slices.Clone(ep.Applied)
	for _, rule := range ep.Wanted {
		at := slices.Index(extra, rule)
		if at < 0 {
			return false
		}
		extra = slices.Delete(extra, at, at+1)
	}
	tiered := slices.ContainsFunc(ep.Sources, func(s state.RuleSource) bool { return s.Tier == "Admin" || s.Tier == "Baseline" })
	return !slices.ContainsFunc(extra, func(a hns.ACL) bool { return tiered || !hnsfault.Unused(a, sets) })
}
