package endpoints

import (
	"slices"
	"time"

	"github.com/winnpm/winnpm/pkg/acl"
	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/pkg/ipsets"
)

// closeAfter is for how long the update of a stale endpoint may fail before it is closed.
const closeAfter = 30 * time.Second

// stale returns the namespace sets of the endpoint's pods while the endpoint may still have the
// rules for the namespaces' old labels. A namespace that becomes the subject of another
// ClusterNetworkPolicy may also be a peer in it: until the endpoint has its new rules, the old
// rules must not see the namespace in a set that only the new labels put it in.
func (d *State) stale(ep *Endpoint) (leaves []ipsets.Name) {
	if !ep.updatable() || !ep.Pending() || ep.repair || ep.shut() || !ep.followsLabels() {
		return nil
	}
	for _, p := range d.desired.Home(ep.addrs) {
		leaves = append(leaves, ipsets.Namespace(p.Namespace))
	}
	return leaves
}

// followsLabels reports whether the endpoint's rules, desired or actual, depend on the labels
// of its namespace: those of NetworkPolicies do not.
func (ep *Endpoint) followsLabels() bool {
	ofTiers := func(a hns.ACL) bool {
		return a.Priority >= hns.PriorityTiers && a.Priority < hns.PriorityDefault && a.Priority != hns.PriorityBlock
	}
	return ep.desired.Tiers != nil || slices.ContainsFunc(ep.possible(), func(list []hns.ACL) bool { return slices.ContainsFunc(list, ofTiers) })
}

// shut reports whether the endpoint has the blocks that stand before a list of tiers, so that
// nothing passes that this list may deny.
func (ep *Endpoint) shut() bool {
	if ep.desired.Tiers == nil {
		return false
	}
	have := acl.Count(ep.actual)
	return ep.state.rules == rulesShielded || ep.Known() && !slices.ContainsFunc(ep.shield(), func(a hns.ACL) bool {
		return a.Priority == hns.PriorityShield && have[a.Canonical()] == 0
	})
}

// closeStale has a stale endpoint closed with its next try, when members of sets wait for it
// and its update has failed for long.
func (d *State) closeStale(ep *Endpoint) {
	if d.clock.Sub(ep.since) >= closeAfter && d.cache.Awaited(ep.ID) {
		ep.exposed = true
	}
}
