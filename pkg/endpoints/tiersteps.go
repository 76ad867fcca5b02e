package endpoints

import (
	"maps"
	"slices"

	"github.com/winnpm/winnpm/pkg/acl"
	"github.com/winnpm/winnpm/pkg/hns"
)

// An endpoint with a list of tiers is written whole, in one request: of a list by halves
// a rule might allow what one that is missing would have blocked before.

// tierSteps returns the requests that the endpoint's update takes. Where rules only come,
// and fit into one Add, it is an Add; any other change is one Update. On an endpoint that
// is open a list that takes more than one Add may take long: it is closed before.
func (d *State) tierSteps(ep *Endpoint) []acl.Step {
	want := d.listFor(ep)
	added, removed := acl.Diff(ep.actual, want)
	whole := acl.Step{Verb: hns.Update, ACLs: want}
	switch {
	case len(removed) > 0, len(added) > 0 && ep.conflicts > quietConflicts:
		return []acl.Step{whole}
	case len(added) == 0:
		return nil
	case len(added) <= max(d.cfg.MaxBatchedACLs, 1):
		return []acl.Step{{Verb: hns.Add, ACLs: added}}
	}
	if shield := ep.shield(); d.Open(ep) {
		missing, _ := acl.Diff(ep.actual, shield)
		return []acl.Step{{Verb: hns.Add, ACLs: missing}, whole}
	}
	return []acl.Step{whole}
}

// leavesOpen reports whether a list leaves a direction open that shared rules close. One
// with a list of tiers is closed as far as it should be by the rules of that, too.
func (d *State) leavesOpen(ep *Endpoint, list, shared []hns.ACL) bool {
	if ep.desired.Tiers == nil {
		return acl.LacksBlock(list, shared)
	}
	closed := covered(list, ep.tierRules(d.cache.Rejected))
	return slices.ContainsFunc(shared, func(a hns.ACL) bool { return acl.BlocksAll(a) && !closed[a.Direction] })
}

// forgetCompromises drops what HNS refuses of rules that are not desired any more.
func (d *State) forgetCompromises(ep *Endpoint) {
	if len(ep.compromises) == 0 {
		return
	}
	desired := map[hns.ACL]bool{}
	if ep.desired.Tiers != nil {
		for r := range ep.asked(d.cache.Rejected) {
			desired[condition(r.ACL)] = true
		}
	}
	maps.DeleteFunc(ep.compromises, func(a hns.ACL, _ compromise) bool { return !desired[a] })
}
