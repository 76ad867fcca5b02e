package dataplane

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/winnpm/winnpm/pkg/acl"
	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/pkg/hns/versioned"
)

// HNS refuses a list as a whole and does not say why. What it refuses is searched for
// with lists that are right for what they have: rules that HNS took before, and some of
// the others; of the rest those that allow are missing, and the first one that blocks
// blocks everything. So each of these lists allows nothing that the whole one denies.
// The number that is tried doubles with each list that HNS takes, and halves with each
// that it refuses; a rule that is refused alone has the next of its forms. The rules and
// their forms bound the requests.

// trial is a list on the way to the one that HNS takes.
type trial struct {
	acl.Step
	// tried are the rules of which it is not known whether HNS takes them, and that are
	// in the list.
	tried []tierRule
}

// nextTrial returns the next list; false when all that can be there is.
func (d *core) nextTrial(ep *endpoint) (trial, bool) {
	rules := ep.tierRules(d.cache.Rejected)
	have := acl.Count(ep.actual)
	units := blocksFirst(rules, func(r tierRule) bool { // nothing can stand for a block of everything
		return !r.blocksAll() && (ep.distrusted || have[r.acl.Canonical()] == 0)
	})
	for few := ep.trial; ; few = max(1, 2*few) {
		few = min(few, len(units))
		list := ep.listTiers(park(rules, units[few:]))
		t := trial{Step: acl.Step{Verb: hns.Update, ACLs: list}}
		for _, at := range units[:few] {
			t.tried = append(t.tried, rules[at])
		}
		switch added, removed := acl.Diff(ep.actual, list); {
		case len(removed) > 0:
			return t, true
		case len(added) > 0:
			t.Step = acl.Step{Verb: hns.Add, ACLs: added}
			return t, true
		case few == len(units):
			return t, false
		}
	}
}

// park returns rules without those that wait to be tried: where the first one that
// blocks in a direction is to be, everything is blocked.
func park(rules []tierRule, wait []int) (out []tierRule) {
	waits, parked := map[int]bool{}, map[hns.Direction]bool{}
	for _, at := range wait {
		waits[at] = true
	}
	for i, r := range rules {
		if waits[i] {
			if !r.isBlock() || parked[r.acl.Direction] {
				continue
			}
			parked[r.acl.Direction] = true
			all := forms(r.acl)
			r.acl = all[len(all)-1]
		}
		out = append(out, r)
	}
	return out
}

// carefulTiers plans for an endpoint with a list of tiers of which HNS refused
// something.
func (d *core) carefulTiers(ep *endpoint) []acl.Step {
	if t, more := d.nextTrial(ep); more {
		return []acl.Step{t.Step}
	}
	return nil
}

// refusedTiers deals with a careful list that HNS refused.
func (d *core) refusedTiers(ep *endpoint, sent []hns.ACL, err *versioned.Refused) error {
	t, more := d.nextTrial(ep)
	switch {
	case !more || !acl.Same(sent, t.ACLs): // it was what closes the endpoint
	case len(t.tried) > 1:
		ep.trial = len(t.tried) / 2
		return nil
	case len(t.tried) == 1:
		d.compromise(ep, t.tried[0], err)
		return nil
	case !ep.distrusted:
		ep.distrusted = true
		return nil
	}
	ep.distrusted = false
	return fmt.Errorf("the rules that block everything: %w", err)
}

// compromise has the next form of a rule stand in its place, or leaves it out.
func (d *core) compromise(ep *endpoint, r tierRule, err *versioned.Refused) {
	c := ep.compromises[condition(r.asked)]
	c.form++
	c.Failed(err, d.clock)
	ep.compromises[condition(r.asked)] = c
	d.pin(ep)
}

// tierProbe is a try of rules of one endpoint that were refused, by their conditions.
type tierProbe struct {
	endpoint string
	rules    []hns.ACL
}

// tierProbes returns the endpoints with rules that are to be tried again now, in order.
func (d *core) tierProbes(now time.Time) []tierProbe {
	var due []tierProbe
	for id, ep := range d.endpoints {
		if len(ep.compromises) == 0 || ep.pending() || !ep.known() || ep.owner == "" {
			continue
		}
		p, some := tierProbe{endpoint: id, rules: slices.Collect(maps.Keys(ep.compromises))}, false
		for _, c := range ep.compromises {
			some = some || !c.At.After(now)
		}
		if some && d.ready(ep, []acl.Step{{Verb: hns.Update, ACLs: d.with(ep, p.rules)}}) {
			slices.SortFunc(p.rules, func(a, b hns.ACL) int {
				return cmp.Or(cmp.Compare(ep.compromises[a].alone, ep.compromises[b].alone), cmp.Compare(acl.RuleText(a), acl.RuleText(b)))
			})
			due = append(due, p)
		}
	}
	slices.SortFunc(due, func(a, b tierProbe) int { return cmp.Compare(a.endpoint, b.endpoint) })
	return due
}

// with returns the list that the endpoint should have if HNS took some rules.
func (d *core) with(ep *endpoint, rules []hns.ACL) []hns.ACL {
	was := ep.compromises
	ep.compromises = maps.Clone(was)
	defer func() { ep.compromises = was }()
	for _, rule := range rules {
		delete(ep.compromises, rule)
	}
	return d.desired(ep)
}

// probeTiers asks for all rules of an endpoint when one of them is due, and when HNS
// refuses that for the one that was asked for least: two requests in a pause, whatever HNS
// refuses.
func (r *run) probeTiers(p tierProbe) error {
	defer r.hold(p.endpoint)()
	for _, rules := range [][]hns.ACL{p.rules, p.rules[:1]} {
		done, err := r.probeRules(p.endpoint, rules)
		if done || err != nil || len(p.rules) == 1 {
			return err
		}
	}
	return nil
}

// probeRules makes one try: the list with the true rules. done is false when HNS refused
// it.
func (r *run) probeRules(id string, rules []hns.ACL) (done bool, err error) {
	d := r.d
	ep := d.endpoints[id]
	if ep == nil || !ep.known() || ep.pending() {
		return true, nil
	}
	list := d.with(ep, rules)
	is, err := r.writer().Replace(id, ep.version, list)
	ref, refused := errors.AsType[*versioned.Refused](err)
	refused = refused && refusedObject(err) != hns.KindSet
	for _, rule := range rules {
		switch c, still := ep.compromises[rule]; {
		case !still:
			continue
		case err == nil:
			delete(ep.compromises, rule)
			continue
		case refused && c.At.After(d.clock): // with the others it was a moment ago
			c.alone++
			ep.compromises[rule] = c
		case refused:
			c.Failed(ref, d.clock)
			ep.compromises[rule] = c
		default: // it came to no answer: later, once more
			c.Wait(d.clock)
			ep.compromises[rule] = c
		}
	}
	if refused {
		d.countRefusal(err)
		return false, nil
	}
	_, err = d.wrote(ep, acl.Canonical(list), list, is, err)
	if d.endpoints[id] == ep {
		d.queue(ep)
	}
	return true, err
}
