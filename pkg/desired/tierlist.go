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

// The lists of a pod must fit into its budget of ACLs. If they do not, the agent takes the following
// steps in this order until they do: it uses fewer numbers of named ports per namespace, package
// tiers turns Pass rules into Deny rules, the NetworkPolicies of the pod close, and all Accept rules
// are left out. If the Deny rules alone are still too many, one rule blocks everything.

// room is how much of the lists of a pod is left out.
type room uint8

const (
	roomForAll room = iota
	roomWithoutNetworkPolicies
	roomWithoutAccept
)

// tiersOf returns the lists of a pod that a ClusterNetworkPolicy selects. closedOn must have been
// called for the pod before. Its cost is linear in the number of policies that select the pod, plus
// the cost of package tiers, which is bounded.
func (d *State) tiersOf(p *PodState, ipv6 bool) *render.TierList {
	defer d.progress.Within("listing tiers", progress.Pod, p.Namespace, p.Name)()
	for ; p.namesEgressPorts() && p.cut < len(numbersEach)-1; p.cut++ {
		if l, over := d.listTiers(p, roomForAll, ipv6); !over && len(l.Denied) == 0 {
			return l
		}
	}
	for room := roomForAll; ; room++ {
		if room == roomWithoutNetworkPolicies {
			p.closed = slices.Clone(p.selected)
		}
		l, over := d.listTiers(p, room, ipv6)
		if !over || room == roomWithoutAccept {
			return l
		}
	}
}

// namesEgressPorts reports whether the size of the lists depends on the numbers under which other
// pods serve named ports.
func (p *PodState) namesEgressPorts() bool {
	return slices.ContainsFunc(p.clusters, func(s subjection) bool { return s.policy.named != nil }) ||
		slices.ContainsFunc(p.selected, func(ps *policyState) bool { return len(ps.views) > 0 })
}

// listTiers returns the lists without the rules that room leaves out. over reports whether one of
// them is over the budget and therefore blocks everything.
func (d *State) listTiers(p *PodState, room room, ipv6 bool) (out *render.TierList, over bool) {
	out = &render.TierList{}
	silent := room == roomWithoutAccept
	limits, idBytes := tiers.Limits{ACLs: d.cfg.Budgets.ACLs, Bytes: d.cfg.Budgets.ACLBytes}, p.idBytes()
	limits.Cost = func(a tiers.Atom) (acls, bytes int) { return render.Cost(a, idBytes) }
	var plain [2][]render.TierRule
	for _, dir := range policy.Directions {
		if !p.tieredIn(dir) {
			plain[dir] = d.plainRules(p, dir)
			limits.ACLs -= len(plain[dir])
			limits.Bytes -= render.BytesOf(plain[dir])
		}
	}
	for dir, result := range p.share(limits, silent) {
		if plain[dir] != nil || !p.tieredIn(policy.Direction(dir)) {
			out.Rules = append(out.Rules, plain[dir]...)
			continue
		}
		lines := result.Lines
		if slices.ContainsFunc(lines, func(l tiers.Line[render.Source]) bool { return l.Run >= render.MaxRuns }) {
			result.Over, lines = true, []tiers.Line[render.Source]{{Block: true, Tail: true}}
		}
		over = over || result.Over
		if from, denies := p.denies(policy.Direction(dir), lines); ipv6 && denies {
			out.Rules = append(out.Rules, render.BlockIPv6(policy.Direction(dir), from))
		}
		out.Rules = append(out.Rules, render.Lines(policy.Direction(dir), lines, d.id)...)
		for _, from := range result.Denied {
			out.Denied = append(out.Denied, from.Key)
		}
	}
	if silent {
		for _, s := range p.clusters {
			out.Silent = append(out.Silent, state.ClusterKey(s.policy.Name))
		}
	}
	return out, over
}

// denies reports whether a pod may be denied anything in a direction in which a ClusterNetworkPolicy
// has a rule, and returns the source of the first such rule. It ignores the peers and the order of
// Deny rules, because an IPv6 peer can be any of them.
func (p *PodState) denies(dir policy.Direction, lines []tiers.Line[render.Source]) (from render.Source, is bool) {
	for _, s := range p.clusters {
		for _, r := range s.policy.Rules {
			if r.Direction == dir && (r.Action == policy.Deny || r.Action == policy.Pass && s.maybe) {
				return s.policy.source(r), true
			}
		}
	}
	at := slices.IndexFunc(lines, func(l tiers.Line[render.Source]) bool { return l.Block })
	if at >= 0 {
		from = lines[at].From
	}
	return from, at >= 0 || p.Isolated()[dir]
}

// share makes the lists of both directions within one limit. Where they are over it
// together, each may have what the other one leaves, or half.
func (p *PodState) share(limits tiers.Limits, silent bool) (out [2]tiers.Result[render.Source]) {
	list := func(dir policy.Direction, limits tiers.Limits) {
		if p.tieredIn(dir) {
			out[dir] = tiers.List(p.clusterRules(policy.Admin, dir, silent), p.tail(dir, silent), limits)
		}
	}
	var sizes [2]render.Size
	for _, dir := range policy.Directions {
		list(dir, limits)
		sizes[dir] = render.SizeOfLines(out[dir].Lines, limits)
	}
	if all := sizes[policy.Ingress].Add(sizes[policy.Egress]); all.ACLs <= limits.ACLs && all.Bytes <= limits.Bytes {
		return out
	}
	for _, dir := range policy.Directions {
		part, other := limits, sizes[1-dir]
		part.ACLs, part.Bytes = max(limits.ACLs-other.ACLs, limits.ACLs/2), max(limits.Bytes-other.Bytes, limits.Bytes/2)
		list(dir, part)
	}
	return out
}

// idBytes is the length of the longest Id that a rule of the pod may have.
func (p *PodState) idBytes() int {
	longest := len(acl.IDBlockOut)
	for _, ps := range p.selected {
		longest = max(longest, len(state.ACLID(ps.Key)))
	}
	for _, s := range p.clusters {
		longest = max(longest, len(state.ClusterACLID(s.policy.Name)))
	}
	return longest
}

// plainRules returns the rules of a direction in which no ClusterNetworkPolicy has one:
// those of an endpoint without any.
func (d *State) plainRules(p *PodState, dir policy.Direction) (out []render.TierRule) {
	for _, ps := range p.selected {
		for _, r := range d.group(ps, p).Rules {
			if r.ACL.Direction == acl.DirectionOf(dir) && !r.Unused {
				from := render.Source{Tier: policy.Namespaced, Key: ps.Key, Index: r.From[0]}
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
		p.closed = d.closedOn(p)
		l := d.tiersOf(p, ipv6)
		all.Denied, all.Silent = append(all.Denied, l.Denied...), append(all.Silent, l.Silent...)
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
