package endpoints

import (
	"errors"
	"slices"
	"time"

	"github.com/winnpm/winnpm/pkg/acl"
	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/pkg/ipsets"
)

// Open reports whether the endpoint was never right for its pod, or lost its block, and lacks a block
// that it should have, as far as known. Then the block goes first.
func (ep *Tracked) Open() bool {
	newborn := ep.writtenFor != ep.owner || ep.exposed
	return newborn && ep.owner != "" && ep.state.rules != rulesShielded && ep.leavesOpen(ep.Actual, ep.shield())
}

// Unblocked returns the shared rules that the endpoint lacks, if one of them is a block for a
// direction that none of our other rules closes (the predecessor's blocks have other Ids);
// otherwise nil. An endpoint whose actual list is unknown counts as one that lacks
// all of them.
func (ep *Tracked) Unblocked(shared []hns.ACL) []hns.ACL {
	if !ep.leavesOpen(ep.Actual, shared) {
		return nil
	}
	added, _ := acl.Diff(ep.Actual, shared)
	return added
}

// openPause is the longest pause between two tries for an endpoint that is open.
const openPause = 5 * time.Second

// soonTries is the number of tries after which HNS is asked about an open endpoint only as often
// as about any other rejected object. With openPause they take a minute.
const soonTries = 12

// maxBlind bounds the additions of blocks to an endpoint that cannot be read, if HNS accepts
// none of them: it may have carried out all of them.
const maxBlind = 8

// soon lets an open endpoint wait no longer than openPause.
func (d *Table) soon(ep *Tracked) {
	if soon := d.Clock.Add(openPause); ep.Open() && ep.retryAt.After(soon) {
		ep.retryAt = soon
	}
}

// Isolations is the number of ways to close an open endpoint.
const Isolations = 5

// Isolation returns one of the ways to close an open endpoint. Each is tried if the one before failed;
// the ways after the first two only if HNS answered. A block alone closes more than is desired. It closes
// its direction even if HNS rejects the rule of the other direction, or the allow-all pair.
func (ep *Tracked) Isolation(try int) (verb hns.Verb, rules []hns.ACL) {
	switch try {
	case 0:
		return hns.Add, ep.shield()
	case 1:
		return hns.Add, ep.essentials()
	case 2:
		return hns.Add, ep.block(hns.In)
	case 3:
		return hns.Add, ep.block(hns.Out)
	}
	return hns.Update, ep.essentials()
}

// block returns the shared rule that closes a direction, none if the direction is not isolated.
func (ep *Tracked) block(dir hns.DirectionType) []hns.ACL {
	return slices.DeleteFunc(ep.shield(), func(a hns.ACL) bool { return a.Direction != dir || !acl.BlocksAll(a) })
}

// SaysOfRules reports whether an error may mean that HNS rejected the rules that were sent, so
// that other rules may succeed.
func SaysOfRules(err error) bool {
	return hns.Answered(err) && !errors.Is(err, hns.ErrConflict) &&
		(refusedObject(err) != hns.KindEndpoint || errors.Is(err, hns.ErrUnlisted))
}

// closingSteps returns the Update that removes the accepts which name a stuck set, when the new
// rules still wait for other sets. Meanwhile a deny of a stuck set blocks its whole direction.
// Without this Update, a pod that left a stuck set would stay in it as the rules see it, and
// could join no other set.
func (d *Table) closingSteps(ep *Tracked) []acl.Step {
	_, removed := acl.Diff(ep.Actual, ep.list)
	going := map[hns.ACL]int{}
	for _, a := range removed {
		if slices.ContainsFunc(namesOf(d.cache.Lookup, []hns.ACL{a}), d.stuck) {
			going[a.Canonical()]++
		}
	}
	if len(going) == 0 {
		return nil
	}
	var acls []hns.ACL
	for _, a := range ep.Actual {
		if going[a.Canonical()] > 0 {
			going[a.Canonical()]--
			if a.Action == hns.Allow {
				continue
			}
			a = acl.Everything(a)
		}
		acls = append(acls, a)
	}
	shared := ep.shared(ep.out)
	if ep.Open() {
		shared = ep.shield()
	}
	missing, _ := acl.Diff(acls, shared)
	return []acl.Step{{Verb: hns.Update, ACLs: slices.Concat(acls, missing)}}
}

// stuck reports whether other sets wait for a set because HNS does not let members leave it, or
// join it if it is a deny twin. While the members of a deny twin in HNS are only unknown, its
// rules stay: the next read tells.
func (d *Table) stuck(n ipsets.Name) bool {
	if n.Denies() {
		return d.cache.Rejected(n)
	}
	return d.cache.Stuck(n)
}

// closes reports whether a step removes rules that name a stuck set. Members that have to leave
// that set wait for this step before they join other sets, so the step may name sets that lack
// them.
func (d *Table) closes(steps []acl.Step, removed []hns.ACL) bool {
	return len(steps) == 1 && steps[0].Verb == hns.Update && slices.ContainsFunc(namesOf(d.cache.Lookup, removed), d.stuck)
}

// TakeBlindAdd records the outcome of an Add to an endpoint that cannot be read.
func (d *Table) TakeBlindAdd(ep *Tracked, acls []hns.ACL, err error) {
	d.unknown(ep, acl.Canonical(slices.Concat(ep.Actual, acls)))
	ep.blind++
	if err == nil || ep.blind >= maxBlind {
		ep.state.shield()
	}
}

// closeAfter is how long updates of a stale endpoint may fail before the agent closes it.
const closeAfter = 30 * time.Second

// stale returns the namespace sets of the endpoint's pods while the endpoint may still have rules
// for old labels of these namespaces; otherwise it returns nil. A label change can make a namespace
// both the subject of another ClusterNetworkPolicy and a peer in it. Until the endpoint has its new
// rules, the namespace must not join a nested set that the old rules name.
func (d *Table) stale(ep *Tracked) (leaves []ipsets.Name) {
	ofTiers := func(a hns.ACL) bool { // only rules of ClusterNetworkPolicies depend on these labels
		return a.Priority >= hns.PriorityTiers && a.Priority < hns.PriorityDefault && a.Priority != hns.PriorityBlock
	}
	tiered := ep.desired.Tiered || slices.ContainsFunc(ep.possible(), func(list []hns.ACL) bool { return slices.ContainsFunc(list, ofTiers) })
	if !tiered || ep.owner == "" || !ep.Pending() || ep.repair || ep.shut() {
		return nil
	}
	for _, p := range d.desired.Home(ep.addrs) {
		leaves = append(leaves, ipsets.Namespace(p.Namespace))
	}
	return leaves
}

// shut reports whether the endpoint has the shield: block rules before all tiers, which drop every
// packet that the tiers may deny.
func (ep *Tracked) shut() bool {
	if !ep.desired.Tiered {
		return false
	}
	missing, _ := acl.Diff(ep.Actual, ep.shield())
	return ep.state.rules == rulesShielded || ep.Known() && !slices.ContainsFunc(missing, func(a hns.ACL) bool { return a.Priority == hns.PriorityShield })
}

// closeStale marks a stale endpoint to be closed by its next write, if members of sets wait for the
// endpoint and its updates have failed for closeAfter.
func (d *Table) closeStale(ep *Tracked) {
	if d.Clock.Sub(ep.since) >= closeAfter && d.cache.Awaited(ep.ID) {
		ep.exposed = true
	}
}
