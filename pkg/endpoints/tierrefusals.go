package endpoints

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
	"github.com/winnpm/winnpm/pkg/render"
)

// trial is a list on the way to the one that HNS takes.
type trial struct {
	acl.Step
	// tried are the rules of which it is not known whether HNS takes them, and that are
	// in the list.
	tried []render.TierRule
}

// nextTrial returns the next list; false when all that can be there is.
func (d *State) nextTrial(ep *Endpoint) (trial, bool) {
	rules := ep.tierRules(d.cache.Rejected)
	have := acl.Count(ep.actual)
	units := blocksFirst(rules, func(r render.TierRule) bool { // nothing can stand for a block of everything
		return !r.BlocksAll() && (ep.distrusted || have[r.ACL.Canonical()] == 0)
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
func park(rules []render.TierRule, wait []int) (out []render.TierRule) {
	waits, parked := map[int]bool{}, map[hns.Direction]bool{}
	for _, at := range wait {
		waits[at] = true
	}
	for i, r := range rules {
		if waits[i] {
			if !r.IsBlock() || parked[r.ACL.Direction] {
				continue
			}
			parked[r.ACL.Direction] = true
			all := forms(r.ACL)
			r.ACL = all[len(all)-1]
		}
		out = append(out, r)
	}
	return out
}

// carefulTiers plans for an endpoint with a list of tiers of which HNS refused
// something.
func (d *State) carefulTiers(ep *Endpoint) []acl.Step {
	if t, more := d.nextTrial(ep); more {
		return []acl.Step{t.Step}
	}
	return nil
}

// refusedTiers deals with a careful list that HNS refused.
func (d *State) refusedTiers(ep *Endpoint, sent []hns.ACL, err *versioned.Refused) error {
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
func (d *State) compromise(ep *Endpoint, r render.TierRule, err *versioned.Refused) {
	c := ep.compromises[condition(r.Asked)]
	c.form++
	c.Failed(err, d.clock)
	ep.compromises[condition(r.Asked)] = c
	d.pin(ep)
}

// TierProbe is a try of rules of one endpoint that were refused, by their conditions.
type TierProbe struct {
	Endpoint string
	Rules    []hns.ACL
}

// TierProbes returns the endpoints with rules that are to be tried again now, in order.
func (d *State) TierProbes(now time.Time) []TierProbe {
	var due []TierProbe
	for id, ep := range d.byID {
		if len(ep.compromises) == 0 || ep.Pending() || !ep.Known() || ep.owner == "" {
			continue
		}
		p, some := TierProbe{Endpoint: id, Rules: slices.Collect(maps.Keys(ep.compromises))}, false
		for _, c := range ep.compromises {
			some = some || !c.At.After(now)
		}
		if some && d.ready(ep, []acl.Step{{Verb: hns.Update, ACLs: d.Trusting(ep, p.Rules)}}) {
			slices.SortFunc(p.Rules, func(a, b hns.ACL) int {
				return cmp.Or(cmp.Compare(ep.compromises[a].alone, ep.compromises[b].alone), cmp.Compare(acl.RuleText(a), acl.RuleText(b)))
			})
			due = append(due, p)
		}
	}
	slices.SortFunc(due, func(a, b TierProbe) int { return cmp.Compare(a.Endpoint, b.Endpoint) })
	return due
}

// Trusting returns the list that the endpoint should have if HNS took some rules.
func (d *State) Trusting(ep *Endpoint, rules []hns.ACL) []hns.ACL {
	was := ep.compromises
	ep.compromises = maps.Clone(was)
	defer func() { ep.compromises = was }()
	for _, rule := range rules {
		delete(ep.compromises, rule)
	}
	return d.listFor(ep)
}

// TakeTierProbe takes what came of one try. It reports whether HNS refused it again.
func (d *State) TakeTierProbe(ep *Endpoint, rules []hns.ACL, err error) bool {
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
		d.refusals.Count(err)
	}
	return refused
}
