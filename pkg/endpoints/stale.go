package endpoints

import (
	"slices"
	"time"

	"github.com/winnpm/winnpm/pkg/acl"
	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/pkg/ipsets"
)

// closeAfter is how long updates of a stale endpoint may fail before the agent closes it.
const closeAfter = 30 * time.Second

// stale returns the namespace sets of the endpoint's pods while the endpoint may still have rules
// for old labels of these namespaces; otherwise it returns nil. A label change can make a namespace
// both the subject of another ClusterNetworkPolicy and a peer in it. Until the endpoint has its new
// rules, the namespace must not join a nested set that the old rules name.
func (d *State) stale(ep *Endpoint) (leaves []ipsets.Name) {
	if !ep.updatable() || !ep.Pending() || ep.repair || ep.shut() || !ep.followsLabels() {
		return nil
	}
	for _, p := range d.desired.Home(ep.addrs) {
		leaves = append(leaves, ipsets.Namespace(p.Namespace))
	}
	return leaves
}

// followsLabels reports whether the endpoint's desired or actual rules depend on the labels of its
// namespace. Only rules of ClusterNetworkPolicies do.
func (ep *Endpoint) followsLabels() bool {
	ofTiers := func(a hns.ACL) bool {
		return a.Priority >= hns.PriorityTiers && a.Priority < hns.PriorityDefault && a.Priority != hns.PriorityBlock
	}
	return ep.desired.Tiered || slices.ContainsFunc(ep.possible(), func(list []hns.ACL) bool { return slices.ContainsFunc(list, ofTiers) })
}

// shut reports whether the endpoint has the shield: block rules before all tiers, which drop every
// packet that the tiers may deny.
func (ep *Endpoint) shut() bool {
	if !ep.desired.Tiered {
		return false
	}
	have := acl.Count(ep.actual)
	return ep.state.rules == rulesShielded || ep.Known() && !slices.ContainsFunc(ep.shield(), func(a hns.ACL) bool {
		return a.Priority == hns.PriorityShield && have[a.Canonical()] == 0
	})
}

// closeStale marks a stale endpoint to be closed by its next write, if members of sets wait for the
// endpoint and its updates have failed for closeAfter.
func (d *State) closeStale(ep *Endpoint) {
	if d.clock.Sub(ep.since) >= closeAfter && d.cache.Awaited(ep.ID) {
		ep.exposed = true
	}
}
