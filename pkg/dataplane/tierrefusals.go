package dataplane

import (
	"github.com/winnpm/winnpm/pkg/acl"
	"github.com/winnpm/winnpm/pkg/endpoints"
	"github.com/winnpm/winnpm/pkg/hns"
)

// HNS refuses a list as a whole and does not say why. What it refuses is searched for
// with lists that are right for what they have: rules that HNS took before, and some of
// the others; of the rest those that allow are missing, and the first one that blocks
// blocks everything. So each of these lists allows nothing that the whole one denies.
// The number that is tried doubles with each list that HNS takes, and halves with each
// that it refuses; a rule that is refused alone has the next of its forms. The rules and
// their forms bound the requests.

// probeTiers asks for all rules of an endpoint when one of them is due, and when HNS
// refuses that for the one that was asked for least: two requests in a pause, whatever HNS
// refuses.
func (r *run) probeTiers(p endpoints.TierProbe) error {
	defer r.hold(p.Endpoint)()
	for _, rules := range [][]hns.ACL{p.Rules, p.Rules[:1]} {
		done, err := r.probeRules(p.Endpoint, rules)
		if done || err != nil || len(p.Rules) == 1 {
			return err
		}
	}
	return nil
}

// probeRules makes one try: the list with the true rules. done is false when HNS refused
// it.
func (r *run) probeRules(id string, rules []hns.ACL) (done bool, err error) {
	d := r.d
	ep := d.endpoints.Endpoint(id)
	if ep == nil || !ep.Known() || ep.Pending() {
		return true, nil
	}
	list := d.endpoints.Trusting(ep, rules)
	is, err := r.writer().Replace(id, ep.Version(), list)
	if d.endpoints.TakeTierProbe(ep, rules, err) {
		return false, nil
	}
	_, err = d.endpoints.Wrote(ep, acl.Canonical(list), list, is, err)
	if d.endpoints.Endpoint(id) == ep {
		d.endpoints.Queue(ep)
	}
	return true, err
}
