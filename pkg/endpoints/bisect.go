package endpoints

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/winnpm/winnpm/pkg/acl"
	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/pkg/hns/versioned"
	"github.com/winnpm/winnpm/pkg/policy"
)

// HNS rejects a request as a whole and does not say why. So the policies of the endpoint are
// bisected. In each request some suspects are as they should be and the others are quarantined,
// so no list on the way allows what the whole list denies. The number of suspects that are tested
// doubles with each request that HNS takes and halves with each that it rejects. A suspect that is
// rejected alone is quarantined. So a bisection takes at most 2·log2(policies) requests for each
// policy that HNS rejects.

// bisection is the state of a bisection of an endpoint's policies.
type bisection struct {
	suspects []policy.Key // in the order in which they are tested
	testing  int          // how many of them are in the next request
	widened  int          // 1: the policies that the endpoint lacked were made suspects; 2: all were
}

// trial returns the list of the next request.
func (d *Table) trial(ep *Tracked) []hns.ACL {
	out := maps.Clone(ep.out)
	for _, key := range ep.suspects[ep.testing:] {
		out[key] = true
	}
	return ep.listWithout(out)
}

// bisectSteps returns the next request of a bisection, or none when no suspect is left and the
// endpoint has the list.
func (d *Table) bisectSteps(ep *Tracked) []acl.Step {
	for {
		list := d.trial(ep)
		switch added, removed := acl.Diff(ep.Actual, list); {
		case len(removed) > 0:
			return []acl.Step{{Verb: hns.Update, ACLs: list}}
		case len(added) > 0:
			return []acl.Step{{Verb: hns.Add, ACLs: added}}
		case len(ep.suspects) == 0:
			return nil
		}
		ep.tested()
	}
}

// tested ends the test of the suspects in the last request.
func (b *bisection) tested() {
	b.suspects = b.suspects[b.testing:]
	b.testing = min(max(1, 2*b.testing), len(b.suspects))
}

// suspect makes policies suspects of a rejection: first the policies that the endpoint lacks, then all. It
// returns false if the next request would be the same as before.
func (d *Table) suspect(ep *Tracked) bool {
	before := d.trial(ep)
	for ep.widened < 2 {
		ep.widened++
		ep.suspects, ep.testing = d.suspectsOf(ep, ep.widened == 2), 0
		if !acl.Same(before, d.trial(ep)) {
			return true
		}
	}
	return false
}

// suspectsOf returns the policies of which the endpoint lacks a rule, or all its policies. Policies that
// deny come first, because nothing after a quarantined deny is tested.
func (d *Table) suspectsOf(ep *Tracked, all bool) []policy.Key {
	have := map[hns.ACL]bool{}
	for _, a := range ep.Actual {
		have[a.Canonical()] = true
	}
	var keys []policy.Key
	lacks, denies := map[policy.Key]bool{}, map[policy.Key]bool{}
	for key, a := range ep.owned() {
		if _, known := lacks[key]; !known {
			keys = append(keys, key)
		}
		lacks[key] = lacks[key] || all || !have[a.Canonical()]
		denies[key] = denies[key] || a.Action == hns.Block
	}
	keys = slices.DeleteFunc(keys, func(key policy.Key) bool { return ep.out[key] || !lacks[key] })
	return slices.Concat(
		slices.DeleteFunc(slices.Clone(keys), func(key policy.Key) bool { return !denies[key] }),
		slices.DeleteFunc(keys, func(key policy.Key) bool { return denies[key] }))
}

// refused handles a write that HNS answered and did not carry out. After an unknown code the same
// rules are sent once more, unless the endpoint is open.
func (d *Table) refused(ep *Tracked, sent []hns.ACL, err *versioned.Refused) error {
	if !ep.Bisecting() {
		ep.state.bisect()
		if errors.Is(err, hns.ErrUnlisted) && !ep.Open() || d.suspect(ep) {
			return nil
		}
		return d.rejectedWhole(ep, err)
	}
	if steps := d.bisectSteps(ep); len(steps) == 0 || !acl.Same(sent, steps[0].ACLs) {
		return err // it was a block, or took rules away
	}
	switch {
	case ep.testing > 1:
		ep.testing /= 2
	case ep.testing == 1:
		d.quarantine(ep, ep.suspects[0], err)
		ep.suspects = ep.suspects[1:]
		ep.testing = min(1, len(ep.suspects))
	case !d.suspect(ep):
		return d.rejectedWhole(ep, err)
	}
	return nil
}

// rejectedWhole ends a bisection in which HNS rejected even the list without any policy.
func (d *Table) rejectedWhole(ep *Tracked, err error) error {
	ep.endBisection()
	return fmt.Errorf("the rules that all policies share: %w", err)
}

// endBisection makes the next request the desired list.
func (ep *Tracked) endBisection() {
	ep.bisection = bisection{}
	ep.state.update = min(ep.state.update, updatePending)
}
