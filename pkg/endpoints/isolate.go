package endpoints

import (
	"errors"
	"slices"
	"time"

	"github.com/winnpm/winnpm/pkg/acl"
	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/pkg/ipsets"
)

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
