package desired

import (
	"slices"

	"github.com/winnpm/winnpm/pkg/acl"
	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/pkg/policy"
	"github.com/winnpm/winnpm/pkg/progress"
	"github.com/winnpm/winnpm/pkg/render"
	"github.com/winnpm/winnpm/pkg/state"
	"github.com/winnpm/winnpm/pkg/tiers"
)

// The lists of a pod must be within its limit of ACLs. If they are not, the agent takes the
// following steps in this order until they are: it uses fewer numbers of named ports per namespace,
// the NetworkPolicies of the pod close, and only Deny rules remain. If these are still too many, one
// rule of each direction blocks everything.

// tiersOf returns the lists of a pod that a ClusterNetworkPolicy selects. fit must have been
// called for the pod before. Its cost is linear in the number of policies that select the pod, plus
// the cost of package tiers, which is bounded.
func (d *State) tiersOf(p *PodState, ipv6 bool) *render.TierList {
	defer d.progress.Within("listing tiers", progress.Pod, p.Namespace, p.Name)()
	l, over := d.listTiers(p, false, ipv6)
	for ; over && p.namesEgressPorts() && p.cut < len(numbersEach)-1; l, over = d.listTiers(p, false, ipv6) {
		p.cut++
	}
	if over && !p.closed {
		p.closed = true
		l, over = d.listTiers(p, false, ipv6)
	}
	if over {
		l, _ = d.listTiers(p, true, ipv6)
	}
	return l
}

// namesEgressPorts reports whether the size of the lists depends on the numbers under which other
// pods serve named ports.
func (p *PodState) namesEgressPorts() bool {
	return slices.ContainsFunc(p.selected, func(s subjection) bool { return len(s.views) > 0 })
}

// listTiers returns the lists, without Accept and Pass rules if silent is set. over reports whether
// they are over the limit together; each of them then blocks everything.
func (d *State) listTiers(p *PodState, silent, ipv6 bool) (out *render.TierList, over bool) {
	out = &render.TierList{}
	idBytes := p.idBytes()
	limit := tiers.Limit{ACLs: d.cfg.Budgets.ACLs, Cost: func(a tiers.Atom) int { return render.Cost(a, idBytes) }}
	var plain [2][]render.TierRule
	var lists [2]tiers.Result[render.Source]
	acls := 0
	for _, dir := range policy.Directions {
		if p.tieredIn(dir) {
			lists[dir] = tiers.List(p.clusterRules(policy.Admin, dir, silent), p.tail(dir, silent), limit)
			over = over || lists[dir].Over || slices.ContainsFunc(lists[dir].Lines, func(l tiers.Line[render.Source]) bool { return l.Run >= render.MaxRuns })
			acls += lists[dir].ACLs
		} else {
			plain[dir] = d.plainRules(p, dir)
			acls += render.SizeOfRules(plain[dir])
		}
	}
	over = over || acls > limit.ACLs
	for _, dir := range policy.Directions {
		if !p.tieredIn(dir) {
			out.Rules = append(out.Rules, plain[dir]...)
			continue
		}
		if over {
			lists[dir] = tiers.BlockAll[render.Source]()
		}
		if from, denies := p.denies(dir, lists[dir].Lines); ipv6 && denies {
			out.Rules = append(out.Rules, render.BlockIPv6(dir, from))
		}
		out.Rules = append(out.Rules, render.Lines(dir, lists[dir].Lines, d.id)...)
	}
	if silent {
		for _, s := range p.selected {
			if s.Tier != policy.Namespaced {
				out.Silent = append(out.Silent, s.Key)
			}
		}
	}
	return out, over
}

// denies reports whether a pod may be denied anything in a direction in which a ClusterNetworkPolicy
// has a rule, and returns the source of the first such rule. It ignores the peers and the order of
// Deny rules, because an IPv6 peer can be any of them.
func (p *PodState) denies(dir policy.Direction, lines []tiers.Line[render.Source]) (from render.Source, is bool) {
	for _, s := range p.selected {
		for _, r := range s.Rules {
			if r.Direction == dir && (r.Action == policy.Deny || r.Action == policy.Pass && s.maybe) {
				return s.source(r), true
			}
		}
	}
	at := slices.IndexFunc(lines, func(l tiers.Line[render.Source]) bool { return l.Block })
	if at >= 0 {
		from = lines[at].From
	}
	return from, at >= 0 || p.Isolated()[dir]
}

// idBytes is the length of the longest Id that a rule of the pod may have.
func (p *PodState) idBytes() int {
	longest := len(acl.IDBlockOut)
	for _, s := range p.selected {
		longest = max(longest, len(state.ACLID(s.Key)))
	}
	return longest
}

// plainRules returns the rules of a direction in which no ClusterNetworkPolicy has one:
// those of an endpoint without any.
func (d *State) plainRules(p *PodState, dir policy.Direction) (out []render.TierRule) {
	for _, s := range p.of(policy.Namespaced) {
		for _, r := range d.group(s.policyState, p).Rules {
			if r.ACL.Direction == acl.DirectionOf(dir) && !r.Unused {
				from := render.Source{Tier: policy.Namespaced, Key: s.Key, Index: r.From[0]}
				out = append(out, render.TierRule{ACL: r.ACL, Names: r.Names, From: from})
			}
		}
	}
	var isolated [2]bool
	isolated[dir] = p.Isolated()[dir]
	for _, a := range acl.Shared(isolated, nil) {
		out = append(out, render.TierRule{ACL: a, From: render.Source{Tier: policy.Namespaced}})
	}
	return out
}

// tieredBy renders what an endpoint has while it may be any of these pods', at least
// one, and a ClusterNetworkPolicy selects one of them. What one of them denies is denied
// before all else, and the rest is the list of one of them: of the one that
// NetworkPolicies isolate, or when they isolate several just the blocks.
func (d *State) tieredBy(home []*PodState, ipv6 bool) render.Rules {
	isolating := slices.DeleteFunc(slices.Clone(home), func(p *PodState) bool { return p.Isolated() == [2]bool{} })
	chosen := home[0]
	if len(isolating) > 0 {
		chosen = isolating[0]
	}
	all := &render.TierList{}
	for _, p := range home {
		d.fit(p)
		l := d.tiersOf(p, ipv6)
		all.Silent = append(all.Silent, l.Silent...)
		if p != chosen || len(isolating) > 1 {
			all.Rules = append(l.Rivals(), all.Rules...)
		} else {
			all.Rules = append(all.Rules, l.Rules...)
		}
	}
	slices.SortStableFunc(all.Rules, func(a, b render.TierRule) int { return cmpDirection(a.ACL, b.ACL) })
	w := render.Rules{Shared: slices.Clone(d.cfg.BaseACLs), Tiers: all}
	if slices.ContainsFunc(all.Rules, func(r render.TierRule) bool { return r.ACL.Direction == hns.In }) { // so the node needs nobody's leave
		w.Shared = append(w.Shared, acl.Node(d.nodeAddrs)...)
	}
	return w
}

// cmpDirection sorts what comes in before what goes out, and either by priority.
func cmpDirection(a, b hns.ACL) int {
	if a.Direction != b.Direction {
		if a.Direction == hns.In {
			return -1
		}
		return 1
	}
	return int(a.Priority) - int(b.Priority)
}
