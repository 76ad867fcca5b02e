package dataplane

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

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
	step
	// tried are the rules of which it is not known whether HNS takes them, and that are
	// in the list.
	tried []tierRule
}

// nextTrial returns the next list; false when all that can be there is.
func (d *core) nextTrial(ep *endpoint) (trial, bool) {
	rules := ep.tierRules(d.cache.Rejected)
	have := countACLs(ep.actual)
	units := blocksFirst(rules, func(r tierRule) bool { // nothing can stand for a block of everything
		return !r.blocksAll() && (ep.distrusted || have[r.acl.Canonical()] == 0)
	})
	for few := ep.trial; ; few = max(1, 2*few) {
		few = min(few, len(units))
		list := ep.listTiers(park(rules, units[few:]))
		t := trial{step: step{verb: hns.Update, acls: list}}
		for _, at := range units[:few] {
			t.tried = append(t.tried, rules[at])
		}
		switch added, removed := diffACLs(ep.actual, list); {
		case len(removed) > 0:
			return t, true
		case len(added) > 0:
			t.step = step{verb: hns.Add, acls: added}
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
func (d *core) carefulTiers(ep *endpoint) []step {
	if t, more := d.nextTrial(ep); more {
		return []step{t.step}
	}
	return nil
}

// refusedTiers deals with a careful list that HNS refused.
func (d *core) refusedTiers(ep *endpoint, sent []hns.ACL, err *versioned.Refused) error {
	t, more := d.nextTrial(ep)
	switch {
	case !more || !sameACLs(sent, t.acls): // it was what closes the endpoint
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
	c.failed(err, d.clock)
	ep.compromises[condition(r.asked)] = c
	d.pin(ep)
}

// tierProbe is one try of a rule that was refused.
type tierProbe struct {
	endpoint string
	rule     hns.ACL // its condition
	at       time.Time
}

// tierProbes returns the rules of lists that are to be tried again now, in order. The
// rules that HNS refused bound them.
func (d *core) tierProbes(now time.Time) []tierProbe {
	var due []tierProbe
	for id, ep := range d.endpoints {
		if len(ep.compromises) == 0 || ep.queued > 0 || !ep.known() || ep.owner == "" {
			continue
		}
		for rule, c := range ep.compromises {
			if !c.at.After(now) && d.ready(ep, []step{{verb: hns.Update, acls: d.without(ep, rule)}}) {
				due = append(due, tierProbe{id, rule, c.at})
			}
		}
	}
	slices.SortFunc(due, func(a, b tierProbe) int {
		return cmp.Or(cmp.Compare(a.endpoint, b.endpoint), a.at.Compare(b.at), cmp.Compare(RuleText(a.rule), RuleText(b.rule)))
	})
	return due
}

// without returns the list that the endpoint should have if HNS took a rule.
func (d *core) without(ep *endpoint, rule hns.ACL) []hns.ACL {
	c := ep.compromises[rule]
	delete(ep.compromises, rule)
	defer func() { ep.compromises[rule] = c }()
	return d.desired(ep)
}

// probeTier makes one try: the list with the true rule.
func (r *run) probeTier(p tierProbe) error {
	d := r.d
	ep := d.endpoints[p.endpoint]
	if ep == nil || !ep.known() || ep.queued > 0 {
		return nil
	}
	c, still := ep.compromises[p.rule]
	if !still {
		return nil
	}
	list := d.without(ep, p.rule)
	defer r.hold(p.endpoint)()
	is, err := r.writer().Replace(p.endpoint, ep.version, list)
	if ref, refused := errors.AsType[*versioned.Refused](err); refused && refusedObject(err) != hns.KindSet {
		d.countRefusal(err)
		c.failed(ref, d.clock)
		ep.compromises[p.rule] = c
		return nil
	}
	if err == nil {
		delete(ep.compromises, p.rule)
	} else { // it came to no answer: later, once more
		c.wait(d.clock)
		ep.compromises[p.rule] = c
	}
	_, err = d.wrote(ep, canonical(list), list, is, err)
	if d.endpoints[p.endpoint] == ep {
		d.queue(ep)
	}
	return err
}
