package endpoints

import (
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
