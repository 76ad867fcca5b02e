package endpoints

import (
	"iter"
	"slices"

	"github.com/winnpm/winnpm/pkg/acl"
	"github.com/winnpm/winnpm/pkg/backoff"
	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/pkg/ipsets"
	"github.com/winnpm/winnpm/pkg/render"
)

// What HNS refuses of a list of tiers. A rule that allows is left out. One that blocks
// is never: in its place stands one that matches more, in the end everything of its
// direction.

// compromise is what stands in place of a rule that HNS refuses.
type compromise struct {
	form int // of forms; of a rule that allows it means nothing
	// alone is how often HNS was asked again for this rule without the others that it
	// refuses.
	alone int
	backoff.Again
}

// forms returns what can stand in place of a rule that blocks: itself, and rules that
// match more and more.
func forms(a hns.ACL) []hns.ACL {
	out := []hns.ACL{a}
	add := func(a hns.ACL) {
		if a != out[len(out)-1] {
			out = append(out, a)
		}
	}
	a.LocalPorts, a.RemotePorts = "", ""
	add(a)
	a.Protocols = ""
	add(a)
	a.LocalAddresses, a.RemoteAddresses = "", ""
	add(a)
	return out
}

// condition is what a rule means wherever it stands: what HNS refuses of it.
func condition(a hns.ACL) hns.ACL {
	a.ID, a.Priority = "", 0
	return a.Canonical()
}

// tierRules returns the rules that should be on an endpoint with a list of tiers, in order and
// without duplicates. It replaces or omits rules that HNS rejects, or whose sets it rejects. It
// omits all rules after one that blocks everything, because no packet reaches them.
func (ep *Endpoint) tierRules(rejected func(ipsets.Name) bool) []render.TierRule {
	var out []render.TierRule
	ended, seen := map[hns.Direction]bool{}, seenRules{}
	for r := range ep.asked(rejected) {
		if ended[r.ACL.Direction] {
			continue
		}
		if len(ep.compromises) > 0 {
			if c, is := ep.compromises[condition(r.ACL)]; is {
				if !r.IsBlock() {
					continue
				}
				r.ACL = forms(r.ACL)[c.form]
			}
		}
		if seen.again(r) {
			continue
		}
		ended[r.ACL.Direction] = r.BlocksAll()
		out = append(out, r)
	}
	return out
}

// asked yields the rules that should be there as far as their sets are, whatever HNS
// refuses of them.
func (ep *Endpoint) asked(rejected func(ipsets.Name) bool) iter.Seq[render.TierRule] {
	return func(yield func(render.TierRule) bool) {
		for _, a := range ep.desired.Shared {
			if !yield(render.TierRule{ACL: a, Asked: a, Shared: true}) {
				return
			}
		}
		for _, r := range ep.desired.Tiers.As(rejected) {
			if r.Asked = r.ACL; !yield(r) {
				return
			}
		}
	}
}

// listTiers returns the complete list of our ACLs with these rules, each once, and with
// the allow-all pair where nobody else gives one.
func (ep *Endpoint) listTiers(rules []render.TierRule) []hns.ACL {
	out := acl.MissingDefaults(ep.open, ep.desired.Shared)
	seen := seenRules{}
	for _, r := range rules {
		if !seen.again(r) {
			out = append(out, r.ACL)
		}
	}
	return out
}

// seenRules finds duplicate rules in a list. Rules become equal when they lose a condition that HNS
// rejects, and several policies may deny the same traffic.
type seenRules map[hns.ACL]bool

// again adds a rule and reports whether an equal one was added before. It ignores the Ids of block
// rules.
func (s seenRules) again(r render.TierRule) bool {
	if r.IsBlock() {
		r.ACL.ID = ""
	}
	was := s[r.ACL]
	s[r.ACL] = true
	return was
}

// shield returns the rules that close the endpoint in every direction in which
// something is to be blocked. They name no set and no policy.
func (ep *Endpoint) shield() []hns.ACL {
	out := ep.shared()
	if ep.desired.Tiers == nil {
		return out
	}
	blocks := ep.desired.Tiers.Blocks()
	for _, a := range []hns.ACL{{ID: acl.IDBlockIn, Direction: hns.In}, {ID: acl.IDBlockOut, Direction: hns.Out}} {
		if blocks[a.Direction] {
			a.Action, a.RuleType, a.Priority = hns.Block, hns.Switch, hns.PriorityShield
			out = append(out, a)
		}
	}
	return out
}

// covered reports the directions of which a list has every rule that blocks of others,
// or one that blocks everything.
func covered(list []hns.ACL, rules []render.TierRule) map[hns.Direction]bool {
	have := acl.Count(list)
	out := map[hns.Direction]bool{hns.In: true, hns.Out: true}
	for _, r := range rules {
		if r.IsBlock() && have[r.ACL.Canonical()] == 0 {
			out[r.ACL.Direction] = false
		}
	}
	for _, a := range list {
		out[a.Direction] = out[a.Direction] || acl.BlocksAll(a)
	}
	return out
}

// blocksFirst returns the places of rules, those of rules that block first.
func blocksFirst(rules []render.TierRule, of func(render.TierRule) bool) (at []int) {
	for _, block := range []bool{true, false} {
		for i, r := range rules {
			if r.IsBlock() == block && of(r) {
				at = append(at, i)
			}
		}
	}
	return slices.Clip(at)
}
