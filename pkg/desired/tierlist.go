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

// The lists of a pod are within its budget of ACLs. Where they are over it, fewer numbers of
// named ports count of each namespace. When that is not enough, package tiers has what passes
// block. When that is not enough the NetworkPolicies of the pod close,
// and then nothing is accepted. Rules that deny alone, and are still too many, are one
// block of everything.

// room is how far the lists of a pod are cut down.
type room uint8

const (
	roomForAll room = iota
	roomWithoutNetworkPolicies
	roomWithoutAccept
)

// tiersOf makes the lists of a pod that a ClusterNetworkPolicy selects. Which of its
// NetworkPolicies have no room was found before. It costs the policies that select the
// pod, and what package tiers is bound by.
func (d *State) tiersOf(p *PodState) *render.TierList {
	defer d.progress.Within("listing tiers", progress.Pod, p.Namespace, p.Name)()
	for ; p.namesEgressPorts() && p.cut < len(numbersEach)-1; p.cut++ {
		if l, over := d.listTiers(p, roomForAll); !over && len(l.Denied) == 0 {
			return l
		}
	}
	for room := roomForAll; ; room++ {
		if room == roomWithoutNetworkPolicies {
			p.closed = slices.Clone(p.selected)
		}
		l, over := d.listTiers(p, room)
		if !over || room == roomWithoutAccept {
			return l
		}
	}
}

// namesEgressPorts reports whether what the lists come to depends on the numbers of others.
func (p *PodState) namesEgressPorts() bool {
	return slices.ContainsFunc(p.clusters, func(s subjection) bool { return s.policy.named != nil }) ||
		slices.ContainsFunc(p.selected, func(ps *policyState) bool { return len(ps.views) > 0 })
}

// listTiers makes the lists with so much left out. over reports whether one of them is
// a block of everything, as it is over the budget.
func (d *State) listTiers(p *PodState, room room) (out *render.TierList, over bool) {
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
func (d *State) tieredBy(home []*PodState) render.Rules {
	isolating := slices.DeleteFunc(slices.Clone(home), func(p *PodState) bool { return p.Isolated() == [2]bool{} })
	chosen := home[0]
	if len(isolating) > 0 {
		chosen = isolating[0]
	}
	all := &render.TierList{}
	for _, p := range home {
		p.closed = d.closedOn(p)
		l := d.tiersOf(p)
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
