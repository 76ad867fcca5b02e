package dataplane

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
	"github.com/winnpm/winnpm/pkg/state"
)

// essential reports whether a shared rule is one without which a pod is open, or
// cut off in the direction that nothing isolates.
func essential(a hns.ACL) bool {
	return a.ID == acl.IDBlockIn || a.ID == acl.IDBlockOut || a.ID == acl.IDAllowIn || a.ID == acl.IDAllowOut
}

// core returns the shared rules that are essential.
func (ep *endpoint) core() []hns.ACL {
	return slices.DeleteFunc(ep.shield(), func(a hns.ACL) bool { return !essential(a) })
}

// carefulSteps plans for an endpoint of which HNS refused something: first
// the shared rules and the policies that were accepted before, in one request, then
// one Add for each other policy. When even that is refused, no policy counts as
// accepted, and then no shared rule either but those that are essential.
func (d *core) carefulSteps(ep *endpoint) []acl.Step {
	if ep.desired.tiers != nil {
		return d.carefulTiers(ep)
	}
	have := acl.Count(ep.actual)
	there := func(acls []hns.ACL) bool {
		return !slices.ContainsFunc(acls, func(a hns.ACL) bool { return have[a.Canonical()] == 0 })
	}
	base, shared := ep.shared(), ep.shared()
	if ep.state.update == updateBare {
		base = ep.core()
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
	for _, g := range ep.desired.groups {
		if ep.refuses(g.key, g.digest) {
			continue
		}
		acls := g.acls(d.cache.Rejected)
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
func (d *core) refused(ep *endpoint, sent []hns.ACL, err *versioned.Refused) error {
	if errors.Is(err, hns.ErrUnlisted) && (ep.state.careful() || !d.open(ep)) {
		if ep.unlisted++; ep.unlisted == 1 {
			return nil
		}
	}
	ep.unlisted = 0
	if !ep.state.careful() {
		ep.state.refuse()
		return nil
	}
	if ep.desired.tiers != nil {
		return d.refusedTiers(ep, sent, err)
	}
	for _, g := range ep.desired.groups {
		if !ep.refuses(g.key, g.digest) && len(sent) > 0 && isPart(g, sent) {
			d.leaveOutRules(ep, g.key, g.digest, err)
			return nil
		}
	}
	if len(sent) == 1 && !essential(sent[0]) {
		d.leaveOutRules(ep, ruleKey(sent[0]), ruleDigest(sent[0]), err)
		return nil
	}
	switch {
	case !ep.distrusted && len(sent) > len(ep.shared()):
		ep.distrusted = true
		return nil
	case ep.state.update != updateBare && len(sent) > len(ep.core()):
		ep.state.strip()
		return nil
	case !ep.distrusted && len(sent) > len(ep.core()):
		ep.distrusted = true // one of the rules that all policies share was accepted before
		return nil
	}
	ep.distrusted = false
	ep.state.restart()
	return fmt.Errorf("the rules that all policies share: %w", err)
}

// leaveOutRules leaves rules out that HNS refuses.
func (d *core) leaveOutRules(ep *endpoint, key policy.Key, digest string, err error) {
	ref := refusal{digest: digest}
	ref.Failed(err, d.clock)
	ep.refused[key] = ref
	d.pin(ep)
}

// isPart reports whether the ACLs are all of one policy.
func isPart(g *group, acls []hns.ACL) bool {
	return !slices.ContainsFunc(acls, func(a hns.ACL) bool { return a.ID != state.ACLID(g.key) })
}

// probe asks HNS once more for what it refused on endpoints that wait for nothing
// else. What it takes is there then, and desired; what it refuses stays left out, and
// nothing else is touched.
func (r *run) probe() {
	d := r.d
	due, tiers := d.probes(r.started), d.tierProbes(r.started)
	ask := func(endpoint string, left int, probe func() error) (more bool) {
		if r.ending {
			return false
		}
		d.progress.note("asking again for", kindEndpoint, "", endpoint)
		if err := probe(); err != nil {
			d.failed(d.endpoints[endpoint], err, d.clock)
		}
		if r.yields(left) {
			return false
		}
		r.pause()
		return true
	}
	for i, p := range due {
		if !ask(p.endpoint, len(due)+len(tiers)-i-1, func() error { return r.probeOne(p) }) {
			return
		}
	}
	for i, p := range tiers {
		if !ask(p.endpoint, len(tiers)-i-1, func() error { return r.probeTiers(p) }) {
			return
		}
	}
}

// probing is one try of what was refused.
type probing struct {
	endpoint string
	key      policy.Key
	digest   string
	acls     []hns.ACL
}

// probes returns what is to be tried again now, in order.
func (d *core) probes(now time.Time) []probing {
	var due []probing
	for id, ep := range d.endpoints {
		if len(ep.refused) == 0 || ep.pending() || !ep.known() || ep.owner == "" {
			continue
		}
		add := func(key policy.Key, digest string, acls []hns.ACL) {
			if !ep.refuses(key, digest) || ep.refused[key].At.After(now) || len(acls) == 0 {
				return
			}
			if d.ready(ep, []acl.Step{{Verb: hns.Add, ACLs: acls}}) {
				due = append(due, probing{id, key, digest, acls})
			}
		}
		for _, a := range ep.desired.shared {
			add(ruleKey(a), ruleDigest(a), []hns.ACL{a})
		}
		for _, g := range ep.desired.groups {
			add(g.key, g.digest, g.acls(d.cache.Rejected))
		}
	}
	slices.SortFunc(due, func(a, b probing) int {
		return cmp.Or(cmp.Compare(a.endpoint, b.endpoint), compareKeys(a.key, b.key))
	})
	return due
}

// probeOne makes one try.
func (r *run) probeOne(p probing) error {
	d := r.d
	ep := d.endpoints[p.endpoint]
	if ep == nil || !ep.known() || ep.pending() || !ep.refuses(p.key, p.digest) {
		return nil
	}
	from, reached := ep.version, acl.Canonical(slices.Concat(ep.actual, p.acls))
	defer r.hold(p.endpoint)()
	is, err := r.writer().Add(p.endpoint, from, p.acls)
	if ref, refused := errors.AsType[*versioned.Refused](err); refused && refusedObject(err) != hns.KindSet {
		d.countRefusal(err)
		still := ep.refused[p.key]
		still.Failed(ref, d.clock)
		ep.refused[p.key] = still
		return nil
	}
	if err == nil {
		delete(ep.refused, p.key)
	} else if still, ok := ep.refused[p.key]; ok { // it came to no answer: later, once more
		still.Wait(d.clock)
		ep.refused[p.key] = still
	}
	_, err = d.wrote(ep, reached, p.acls, is, err)
	if d.endpoints[p.endpoint] == ep {
		d.queue(ep)
	}
	return err
}

// maxCodes bounds the codes that are counted apart: more than HNS documents.
const maxCodes = 256

// countRefusal counts an answer by its code, if it has one.
func (d *core) countRefusal(err error) {
	code := hns.CodeOf(err)
	if !hns.Answered(err) || code == 0 {
		return
	}
	if _, known := d.refusals[code]; !known && len(d.refusals) >= maxCodes {
		code = state.OtherCodes
	}
	d.refusals[code]++
}
