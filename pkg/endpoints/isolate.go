package endpoints

import (
	"errors"
	"slices"
	"time"

	"github.com/winnpm/winnpm/pkg/acl"
	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/pkg/ipsets"
)

// newborn reports whether the endpoint was never right for its pod, or lost what
// made it so: then the block goes first.
func (ep *Endpoint) newborn() bool { return ep.writtenFor != ep.owner || ep.exposed }

// Open reports whether a newborn endpoint lacks a block that it is to have, as
// far as is known.
func (d *State) Open(ep *Endpoint) bool {
	return ep.owner != "" && ep.newborn() && ep.state.rules != rulesShielded && len(d.Unblocked(ep, ep.shield())) > 0
}

// Unblocked returns what the endpoint lacks of shared rules, when a block is among
// it for a direction that nothing else of ours closes (the predecessor's blocks have
// other Ids); otherwise nothing. Of an endpoint whose list is not known that is all
// of them.
func (d *State) Unblocked(ep *Endpoint, shared []hns.ACL) []hns.ACL {
	if !d.leavesOpen(ep, ep.actual, shared) {
		return nil
	}
	added, _ := acl.Diff(ep.actual, shared)
	return added
}

// openPause is the longest pause between two tries for an endpoint that is open.
const openPause = 5 * time.Second

// soonTries is after how many tries HNS is asked no more often than for anything else
// that it refuses: a minute at openPause.
const soonTries = 12

// maxBlind bounds the blocks that are added to an endpoint which cannot be read, when
// HNS never says that it took one: it may have taken all of them.
const maxBlind = 8

// soon has an endpoint that is open tried again soon.
func (d *State) soon(ep *Endpoint) {
	if soon := d.clock.Add(openPause); d.Open(ep) && ep.retryAt.After(soon) {
		ep.retryAt = soon
	}
}

// Isolation is one way to close an endpoint.
type Isolation struct {
	Rules func(*Endpoint) []hns.ACL
	Verb  hns.Verb
}

// Isolations are what an endpoint that is open is given, each when the one before
// failed, and after the first two only if HNS answers. A block without the rest closes
// more than is asked for; with HNS against a rule of the other direction, or a pair, it
// is what closes this one.
func Isolations() []Isolation { return slices.Clone(isolations[:]) }

var isolations = [...]Isolation{
	{(*Endpoint).shield, hns.Add},
	{(*Endpoint).essentials, hns.Add},
	{func(ep *Endpoint) []hns.ACL { return ep.block(hns.In) }, hns.Add},
	{func(ep *Endpoint) []hns.ACL { return ep.block(hns.Out) }, hns.Add},
	{(*Endpoint).essentials, hns.Update},
}

// block returns the shared rule that closes a direction, if there is to be one.
func (ep *Endpoint) block(dir hns.Direction) []hns.ACL {
	return slices.DeleteFunc(slices.Clone(ep.shield()), func(a hns.ACL) bool { return a.Direction != dir || !acl.BlocksAll(a) })
}

// SaysOfRules reports whether an error may be HNS's word against the rules that were
// sent, so that others may do better.
func SaysOfRules(err error) bool {
	return hns.Answered(err) && !errors.Is(err, hns.ErrConflict) &&
		(refusedObject(err) != hns.KindEndpoint || errors.Is(err, hns.ErrUnlisted))
}

// closingSteps returns the Update that takes away the accepts which name a set
// that HNS rejects, when what comes in their place has to wait for other sets. A deny of such a
// set blocks its direction meanwhile. Without this Update, who left that set
// would stay in it for the rules, and could join no other.
func (d *State) closingSteps(ep *Endpoint) []acl.Step {
	_, removed := acl.Diff(ep.actual, d.listFor(ep))
	going := map[hns.ACL]int{}
	for _, a := range removed {
		if slices.ContainsFunc(d.namesOf([]hns.ACL{a}), d.stuck) {
			going[a.Canonical()]++
		}
	}
	if len(going) == 0 {
		return nil
	}
	var acls []hns.ACL
	for _, a := range ep.actual {
		if going[a.Canonical()] > 0 {
			going[a.Canonical()]--
			if a.Action == hns.Allow {
				continue
			}
			a = acl.Everything(a)
		}
		acls = append(acls, a)
	}
	shared := ep.shared(ep.quarantined(d.cache.Rejected))
	if d.Open(ep) {
		shared = ep.shield()
	}
	missing, _ := acl.Diff(acls, shared)
	return []acl.Step{{Verb: hns.Update, ACLs: slices.Concat(acls, missing)}}
}

// stuck reports whether others wait for a set that cannot lose who has to leave it, or of
// deny twins for one that HNS refuses who has to join it. While it is not known what is
// in a deny twin its rules stay: it is asked for again.
func (d *State) stuck(n ipsets.Name) bool {
	if n.Denies() {
		return d.cache.Rejected(n)
	}
	return d.cache.Stuck(n)
}

// closes reports whether a step takes rules away for which others wait: they
// name a set that cannot lose who has to leave it, so he joins no other set. Such a
// step may name sets that lack him.
func (d *State) closes(steps []acl.Step, removed []hns.ACL) bool {
	return len(steps) == 1 && steps[0].Verb == hns.Update && slices.ContainsFunc(d.namesOf(removed), d.stuck)
}

// TakeBlindAdd takes what came of rules that were added to an endpoint which cannot be read.
func (d *State) TakeBlindAdd(ep *Endpoint, acls []hns.ACL, err error) {
	d.unknown(ep, acl.Canonical(slices.Concat(ep.actual, acls)))
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
