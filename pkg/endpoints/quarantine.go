package endpoints

import (
	"iter"
	"maps"
	"slices"
	"time"

	"github.com/winnpm/winnpm/pkg/acl"
	"github.com/winnpm/winnpm/pkg/backoff"
	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/pkg/policy"
)

// A policy that HNS rejects on an endpoint is quarantined there. Its accepts are left out, each of
// its denies blocks everything of its direction, and its isolation stays. A shared rule has a key of
// its own and is left out, unless it is essential. A policy that names a set which
// HNS rejects is quarantined on every endpoint that needs it.

// quarantine says why a policy is quarantined on an endpoint, and when HNS is asked again.
type quarantine struct {
	rules  []hns.ACL // rejected by HNS, without Ids and priorities
	trying bool      // HNS is being asked again, so the policy counts as desired
	backoff.Again
}

// essential reports whether a pod without the ACL would be open, or cut off in a
// direction that no policy isolates.
func essential(a hns.ACL) bool {
	return a.MatchesAll() && slices.Contains([]string{acl.IDBlockIn, acl.IDBlockOut, acl.IDAllowIn, acl.IDAllowOut}, a.ID)
}

// owned yields the desired rules that a quarantine changes, with the policy of each.
func (ep *Tracked) owned() iter.Seq2[policy.Key, hns.ACL] {
	return func(yield func(policy.Key, hns.ACL) bool) {
		for _, a := range ep.desired.Shared {
			if !yield(acl.RuleKey(a), a) {
				return
			}
		}
		for _, a := range ep.desired.ACLs {
			if !essential(a.ACL) && !yield(a.Owner(), a.ACL) {
				return
			}
		}
	}
}

// rulesOf returns the desired rules of a policy, without what depends on other policies.
func (ep *Tracked) rulesOf(key policy.Key) (out []hns.ACL) {
	for owner, a := range ep.owned() {
		if owner == key {
			a.ID, a.Priority = "", 0
			out = append(out, a)
		}
	}
	return out
}

// quarantine quarantines a policy, until its rules change or HNS takes them.
func (d *Table) quarantine(ep *Tracked, key policy.Key, err error) {
	q := ep.rejected[key]
	q.rules, q.trying = ep.rulesOf(key), false
	q.Failed(err, d.Clock)
	ep.rejected[key] = q
	d.relist(ep)
	d.pin(ep)
}

// forgetChanged ends the quarantines of policies whose rules changed since HNS rejected them.
func (ep *Tracked) forgetChanged() {
	maps.DeleteFunc(ep.rejected, func(key policy.Key, q quarantine) bool { return !slices.Equal(q.rules, ep.rulesOf(key)) })
}

// dueQuarantine reports whether HNS can be asked again about a policy of the endpoint.
func (ep *Tracked) dueQuarantine(now time.Time) bool {
	if ep.Pending() || !ep.Known() || ep.owner == "" {
		return false
	}
	for _, q := range ep.rejected {
		if !q.At.After(now) {
			return true
		}
	}
	return false
}

// DueQuarantines returns the endpoints with quarantined policies that HNS is to be asked about
// again now, in order.
func (d *Table) DueQuarantines(now time.Time) (due []string) {
	for id, ep := range d.byID {
		if len(ep.rejected) > 0 && ep.dueQuarantine(now) {
			due = append(due, id)
		}
	}
	slices.Sort(due)
	return due
}

// TryQuarantined queues an update of an endpoint that tests its quarantined policies which are due
// again.
func (d *Table) TryQuarantined(id string, now time.Time) {
	ep := d.byID[id]
	if ep == nil || !ep.dueQuarantine(now) {
		return
	}
	for key, q := range ep.rejected {
		if !q.At.After(now) {
			q.trying = true
			ep.rejected[key] = q
		}
	}
	d.relist(ep)
	if d.Queue(ep); ep.Pending() {
		ep.changedIn.From, ep.changedIn.To = d.generation, d.generation
		ep.state.bisect()
		d.suspect(ep)
	}
}
