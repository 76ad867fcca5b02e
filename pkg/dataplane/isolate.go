package dataplane

import (
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/winnpm/winnpm/pkg/acl"
	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/pkg/hns/versioned"
)

// A pod that is to be isolated and has no block yet is open. Whatever fails on the
// way to its rules, the block is the next thing that HNS is asked for.

// openPause is the longest pause between two tries for an endpoint that is open.
const openPause = 5 * time.Second

// soonTries is after how many tries HNS is asked no more often than for anything else
// that it refuses: a minute at openPause.
const soonTries = 12

// maxBlind bounds the blocks that are added to an endpoint which cannot be read, when
// HNS never says that it took one: it may have taken all of them.
const maxBlind = 8

// soon has an endpoint that is open tried again soon.
func (d *core) soon(ep *endpoint) {
	if soon := d.clock.Add(openPause); d.open(ep) && ep.retryAt.After(soon) {
		ep.retryAt = soon
	}
}

// isolateNewborn gives every endpoint that is open its block, before what may take
// long: other pods' sets are being looked through for one that HNS refuses.
func (r *run) isolateNewborn() {
	d := r.d
	var open []string
	for _, ep := range d.due(r.started) {
		if d.open(ep) {
			open = append(open, ep.id)
		}
	}
	for _, id := range open {
		if r.ending {
			return
		}
		d.progress.note("isolating", kindEndpoint, "", id)
		r.isolateHeld(id)
	}
}

// isolateHeld is isolate with the endpoint held.
func (r *run) isolateHeld(id string) {
	defer r.hold(id)()
	r.isolate(id)
}

// isolation is one way to close an endpoint.
type isolation struct {
	rules func(*endpoint) []hns.ACL
	verb  hns.Verb
}

// isolations are what an endpoint that is open is given, each when the one before
// failed, and after the first two only if HNS answers. A block without the rest closes
// more than is asked for; with HNS against a rule of the other direction, or a pair, it
// is what closes this one.
var isolations = []isolation{
	{(*endpoint).shield, hns.Add},
	{(*endpoint).core, hns.Add},
	{func(ep *endpoint) []hns.ACL { return ep.block(hns.In) }, hns.Add},
	{func(ep *endpoint) []hns.ACL { return ep.block(hns.Out) }, hns.Add},
	{(*endpoint).core, hns.Update},
}

// block returns the shared rule that closes a direction, if there is to be one.
func (ep *endpoint) block(dir hns.Direction) []hns.ACL {
	return slices.DeleteFunc(slices.Clone(ep.shield()), func(a hns.ACL) bool { return a.Direction != dir || !acl.BlocksAll(a) })
}

// saysOfRules reports whether an error may be HNS's word against the rules that were
// sent, so that others may do better.
func saysOfRules(err error) bool {
	return hns.Answered(err) && !errors.Is(err, hns.ErrConflict) &&
		(refusedObject(err) != hns.KindEndpoint || errors.Is(err, hns.ErrUnlisted))
}

// isolate gives an endpoint that is open the rules that all policies share, and
// when that fails those of them that are essential; then each block alone, if HNS
// answers. It names no set and needs no policy. What a write left that broke off is
// read first; where that cannot be read either, the rules are added all the same: at
// the worst they are there twice, and the next Update ends that. The caller holds the
// endpoint.
func (r *run) isolate(id string) {
	d := r.d
	var last []hns.ACL
	answered := false
	for i, way := range isolations {
		ep := d.endpoints[id]
		if i > 1 && !answered || ep == nil || !d.open(ep) || r.ending {
			return
		}
		if !ep.known() {
			r.get(id)
		}
		if ep = d.endpoints[id]; ep == nil || !d.open(ep) {
			continue
		}
		acls := d.unblocked(ep, way.rules(ep))
		switch {
		case len(acls) == 0, way.verb == hns.Add && slices.Equal(acls, last):
			continue
		case way.verb == hns.Update && !ep.known():
			return
		case way.verb == hns.Update:
			acls = slices.Concat(ep.actual, acls)
		}
		last = acls
		var blind bool
		if answered, blind = r.try(ep, acl.Step{Verb: way.verb, ACLs: acls}); blind {
			return
		}
	}
}

// try is one way to close an endpoint. It reports whether HNS answered what may be its
// word against the rules, and whether it took them though the endpoint cannot be read.
func (r *run) try(ep *endpoint, s acl.Step) (answered, blind bool) {
	if ep.known() {
		done, err := r.step(ep, s) // the error of the write before it counts
		if s.Verb == hns.Update || !errors.Is(err, versioned.ErrUnread) {
			return !done && (err == nil || saysOfRules(err)), false
		}
	}
	err := r.addBlind(ep, s.ACLs)
	return saysOfRules(err), err == nil
}

// addBlind adds rules to an endpoint that cannot be read, which may be gone from our
// state by now.
func (r *run) addBlind(ep *endpoint, acls []hns.ACL) error {
	err := r.ask(hns.Request{Op: hns.OpACLAdd, Endpoint: ep.id, ACLs: acls}).Err
	if r.d.endpoints[ep.id] == ep && !hns.EndpointGone(err) {
		r.d.unknown(ep, acl.Canonical(slices.Concat(ep.actual, acls)))
		ep.blind++
		if err == nil || ep.blind >= maxBlind {
			ep.state.shield()
		}
	}
	return err
}

// closingSteps returns the Update that takes away the rules which name a set
// that HNS refuses, when what comes in their place has to wait for other sets; a rule
// that blocks stays without the set. It
// is more closed than before and than what is desired. Without it, who left that set
// would stay in it for the rules, and could join no other.
func (d *core) closingSteps(ep *endpoint) []acl.Step {
	desired := d.desired(ep)
	_, removed := acl.Diff(ep.actual, desired)
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
			a = d.unstuck(a)
		}
		acls = append(acls, a)
	}
	missing, _ := acl.Diff(acls, ep.shared())
	return []acl.Step{{Verb: hns.Update, ACLs: slices.Concat(acls, missing)}}
}

// unstuck returns a rule that blocks without the sets that HNS refuses: it matches more.
func (d *core) unstuck(a hns.ACL) hns.ACL {
	strip := func(field string) string {
		ids := strings.Split(field, ",")
		return strings.Join(slices.DeleteFunc(ids, func(id string) bool {
			n, known := d.cache.Lookup(id)
			return known && d.stuck(n)
		}), ",")
	}
	a.LocalAddresses, a.RemoteAddresses = strip(a.LocalAddresses), strip(a.RemoteAddresses)
	return a
}
