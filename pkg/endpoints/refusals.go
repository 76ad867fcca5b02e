package endpoints

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/winnpm/winnpm/pkg/acl"
	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/pkg/hns/versioned"
	"github.com/winnpm/winnpm/pkg/policy"
	"github.com/winnpm/winnpm/pkg/render"
	"github.com/winnpm/winnpm/pkg/state"
)

// essential reports whether a shared rule is one without which a pod is open, or
// cut off in the direction that nothing isolates.
func essential(a hns.ACL) bool {
	return a.ID == acl.IDBlockIn || a.ID == acl.IDBlockOut || a.ID == acl.IDAllowIn || a.ID == acl.IDAllowOut
}

// essentials returns the shared rules that are essential.
func (ep *Endpoint) essentials() []hns.ACL {
	return slices.DeleteFunc(ep.shield(), func(a hns.ACL) bool { return !essential(a) })
}

// carefulSteps plans for an endpoint of which HNS refused something: first
// the shared rules and the policies that were accepted before, in one request, then
// one Add for each other policy. When even that is refused, no policy counts as
// accepted, and then no shared rule either but those that are essential.
func (d *State) carefulSteps(ep *Endpoint) []acl.Step {
	if ep.desired.Tiers != nil {
		return d.carefulTiers(ep)
	}
	have := acl.Count(ep.actual)
	there := func(acls []hns.ACL) bool {
		return !slices.ContainsFunc(acls, func(a hns.ACL) bool { return have[a.Canonical()] == 0 })
	}
	base, shared := ep.shared(), ep.shared()
	if ep.state.update == updateBare {
		base = ep.essentials()
	}
	var rest []acl.Step
	later := func(acls []hns.ACL) {
		if added, _ := acl.Diff(ep.actual, acls); len(added) > 0 {
			rest = append(rest, acl.Step{Verb: hns.Add, ACLs: added})
		}
	}
	for _, a := range shared {
		if one := []hns.ACL{a}; ep.state.update == updateBare && !essential(a) {
			if !ep.distrusted && there(one) {
				base = append(base, a)
			}
			later(one)
		}
	}
	for _, g := range ep.desired.Groups {
		if ep.Refuses(g.Key, g.Digest) {
			continue
		}
		acls := g.ACLs(d.cache.Rejected)
		if !ep.distrusted && there(acls) {
			base = append(base, acls...)
		} else {
			later(acls)
		}
	}
	switch added, removed := acl.Diff(ep.actual, base); {
	case len(removed) > 0:
		return []acl.Step{{Verb: hns.Update, ACLs: base}}
	case len(added) > 0:
		return []acl.Step{{Verb: hns.Add, ACLs: added}}
	}
	return rest
}

// refused deals with a write that HNS answered and did not do: the next steps
// are careful; what is refused then, alone, is remembered and left out until it
// changes or is tried again. An answer with a code that we do not know is a refusal
// when it comes twice in a row; a pod that is open does not wait for that.
func (d *State) refused(ep *Endpoint, sent []hns.ACL, err *versioned.Refused) error {
	if errors.Is(err, hns.ErrUnlisted) && (ep.state.careful() || !d.Open(ep)) {
		if ep.unlisted++; ep.unlisted == 1 {
			return nil
		}
	}
	ep.unlisted = 0
	if !ep.state.careful() {
		ep.state.refuse()
		return nil
	}
	if ep.desired.Tiers != nil {
		return d.refusedTiers(ep, sent, err)
	}
	for _, g := range ep.desired.Groups {
		if !ep.Refuses(g.Key, g.Digest) && len(sent) > 0 && isPart(g, sent) {
			d.leaveOutRules(ep, g.Key, g.Digest, err)
			return nil
		}
	}
	if len(sent) == 1 && !essential(sent[0]) {
		d.leaveOutRules(ep, render.RuleKey(sent[0]), render.RuleDigest(sent[0]), err)
		return nil
	}
	switch {
	case !ep.distrusted && len(sent) > len(ep.shared()):
		ep.distrusted = true
		return nil
	case ep.state.update != updateBare && len(sent) > len(ep.essentials()):
		ep.state.strip()
		return nil
	case !ep.distrusted && len(sent) > len(ep.essentials()):
		ep.distrusted = true // one of the rules that all policies share was accepted before
		return nil
	}
	ep.distrusted = false
	ep.state.restart()
	return fmt.Errorf("the rules that all policies share: %w", err)
}

// leaveOutRules leaves rules out that HNS refuses.
func (d *State) leaveOutRules(ep *Endpoint, key policy.Key, digest string, err error) {
	ref := refusal{digest: digest}
	ref.Failed(err, d.clock)
	ep.refused[key] = ref
	d.pin(ep)
}

// isPart reports whether the ACLs are all of one policy.
func isPart(g *render.Group, acls []hns.ACL) bool {
	return !slices.ContainsFunc(acls, func(a hns.ACL) bool { return a.ID != state.ACLID(g.Key) })
}

// Probing is one try of what was refused.
type Probing struct {
	Endpoint string
	Key      policy.Key
	Digest   string
	ACLs     []hns.ACL
}

// Probes returns what is to be tried again now, in order.
func (d *State) Probes(now time.Time) []Probing {
	var due []Probing
	for id, ep := range d.byID {
		if len(ep.refused) == 0 || ep.Pending() || !ep.Known() || ep.owner == "" {
			continue
		}
		add := func(key policy.Key, digest string, acls []hns.ACL) {
			if !ep.Refuses(key, digest) || ep.refused[key].At.After(now) || len(acls) == 0 {
				return
			}
			if d.ready(ep, []acl.Step{{Verb: hns.Add, ACLs: acls}}) {
				due = append(due, Probing{id, key, digest, acls})
			}
		}
		for _, a := range ep.desired.Shared {
			add(render.RuleKey(a), render.RuleDigest(a), []hns.ACL{a})
		}
		for _, g := range ep.desired.Groups {
			add(g.Key, g.Digest, g.ACLs(d.cache.Rejected))
		}
	}
	slices.SortFunc(due, func(a, b Probing) int {
		return cmp.Or(cmp.Compare(a.Endpoint, b.Endpoint), a.Key.Compare(b.Key))
	})
	return due
}

// TakeProbe takes what came of one try. It reports whether HNS refused it again.
func (d *State) TakeProbe(ep *Endpoint, p Probing, err error) (refused bool) {
	ref, is := errors.AsType[*versioned.Refused](err)
	still, left := ep.refused[p.Key]
	switch {
	case is && refusedObject(err) != hns.KindSet:
		d.refusals.Count(err)
		still.Failed(ref, d.clock)
		ep.refused[p.Key] = still
		return true
	case err == nil:
		delete(ep.refused, p.Key)
	case left: // it came to no answer: later, once more
		still.Wait(d.clock)
		ep.refused[p.Key] = still
	}
	return false
}
