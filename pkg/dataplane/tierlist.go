package dataplane

import (
	"fmt"
	"slices"

	"github.com/winnpm/winnpm/pkg/acl"
	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/pkg/policy"
	"github.com/winnpm/winnpm/pkg/state"
	"github.com/winnpm/winnpm/pkg/tiers"
)

// The lists of a pod are within its budget of ACLs. Where they are over it, package tiers
// has what passes block. When that is not enough the NetworkPolicies of the pod close,
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
func (d *core) tiersOf(p *podState) *tierList {
	defer d.progress.within("listing tiers", kindPod, p.Namespace, p.Name)()
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

// listTiers makes the lists with so much left out. over reports whether one of them is
// a block of everything, as it is over the budget.
func (d *core) listTiers(p *podState, room room) (out *tierList, over bool) {
	out = &tierList{}
	silent := room == roomWithoutAccept
	limits, idBytes := tiers.Limits{ACLs: d.cfg.Budgets.ACLs, Bytes: d.cfg.Budgets.ACLBytes}, p.idBytes()
	limits.Cost = func(a tiers.Atom) (acls, bytes int) { return cost(a, idBytes) }
	var plain [2][]tierRule
	for _, dir := range policy.Directions {
		if !p.tieredIn(dir) {
			plain[dir] = d.plainRules(p, dir)
			limits.ACLs -= len(plain[dir])
			limits.Bytes -= bytesOf(plain[dir])
		}
	}
	for dir, result := range p.share(limits, silent) {
		if plain[dir] != nil || !p.tieredIn(policy.Direction(dir)) {
			out.rules = append(out.rules, plain[dir]...)
			continue
		}
		lines := result.Lines
		if slices.ContainsFunc(lines, func(l tiers.Line[source]) bool { return l.Run >= maxRuns }) {
			result.Over, lines = true, []tiers.Line[source]{{Block: true, Tail: true}}
		}
		over = over || result.Over
		out.rules = append(out.rules, renderLines(policy.Direction(dir), lines, d.id)...)
		for _, from := range result.Denied {
			out.denied = append(out.denied, from.key)
		}
	}
	if silent {
		for _, s := range p.clusters {
			out.silent = append(out.silent, state.ClusterKey(s.policy.Name))
		}
	}
	return out, over
}

// share makes the lists of both directions within one limit. Where they are over it
// together, each may have what the other one leaves, or half.
func (p *podState) share(limits tiers.Limits, silent bool) (out [2]tiers.Result[source]) {
	list := func(dir policy.Direction, limits tiers.Limits) {
		if p.tieredIn(dir) {
			out[dir] = tiers.List(p.clusterRules(policy.Admin, dir, silent), p.tail(dir, silent), limits)
		}
	}
	var sizes [2]size
	for _, dir := range policy.Directions {
		list(dir, limits)
		sizes[dir] = sizeOfLines(out[dir].Lines, limits)
	}
	if all := sizes[policy.Ingress].add(sizes[policy.Egress]); all.acls <= limits.ACLs && all.bytes <= limits.Bytes {
		return out
	}
	for _, dir := range policy.Directions {
		part, other := limits, sizes[1-dir]
		part.ACLs, part.Bytes = max(limits.ACLs-other.acls, limits.ACLs/2), max(limits.Bytes-other.bytes, limits.Bytes/2)
		list(dir, part)
	}
	return out
}

// idBytes is the length of the longest Id that a rule of the pod may have.
func (p *podState) idBytes() int {
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
func (d *core) plainRules(p *podState, dir policy.Direction) (out []tierRule) {
	for _, ps := range p.selected {
		for _, r := range d.group(ps, p).rules {
			if r.acl.Direction == acl.DirectionOf(dir) && !r.unused {
				from := source{tier: policy.Namespaced, key: ps.Key, index: r.rules[0]}
				out = append(out, tierRule{acl: r.acl, names: r.names, from: from})
			}
		}
	}
	var isolated [2]bool
	isolated[dir] = p.isolated()[dir]
	for _, a := range acl.Shared(isolated, nil) {
		out = append(out, tierRule{acl: a, from: source{tier: policy.Namespaced}})
	}
	return out
}

func bytesOf(rules []tierRule) (n int) {
	for _, r := range rules {
		a := r.acl
		n += bytesPerACL + len(a.ID) + len(a.LocalAddresses) + len(a.RemoteAddresses) + len(a.LocalPorts) + len(a.RemotePorts)
	}
	return n
}

func sizeOfLines(lines []tiers.Line[source], limits tiers.Limits) (s size) {
	for _, l := range lines {
		acls, bytes := limits.Cost(l.Atom)
		s = s.add(size{acls, bytes})
	}
	return s
}

// tieredBy renders what an endpoint has while it may be any of these pods', at least
// one, and a ClusterNetworkPolicy selects one of them. What one of them denies is denied
// before all else, and the rest is the list of one of them: of the one that
// NetworkPolicies isolate, or when they isolate several just the blocks.
func (d *core) tieredBy(home []*podState) desiredRules {
	isolating := slices.DeleteFunc(slices.Clone(home), func(p *podState) bool { return p.isolated() == [2]bool{} })
	chosen := home[0]
	if len(isolating) > 0 {
		chosen = isolating[0]
	}
	all := &tierList{}
	for _, p := range home {
		p.closed = d.closedOn(p)
		l := d.tiersOf(p)
		all.denied, all.silent = append(all.denied, l.denied...), append(all.silent, l.silent...)
		if p != chosen || len(isolating) > 1 {
			all.rules = append(l.rivals(), all.rules...)
		} else {
			all.rules = append(all.rules, l.rules...)
		}
	}
	slices.SortStableFunc(all.rules, func(a, b tierRule) int { return cmpDirection(a.acl, b.acl) })
	w := desiredRules{shared: slices.Clone(d.cfg.BaseACLs), tiers: all}
	if slices.ContainsFunc(all.rules, func(r tierRule) bool { return r.acl.Direction == hns.In }) { // so the node needs nobody's leave
		w.shared = append(w.shared, acl.Node(d.nodeAddrs)...)
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

// tierWarnings returns a warning for each ClusterNetworkPolicy of which some pod of this
// node has less than it asks for, as there is no room.
func (d *core) tierWarnings() (out []state.Warning) {
	denied, silent := map[policy.Key]bool{}, map[policy.Key]bool{}
	for _, ep := range d.endpoints {
		if l := ep.desired.tiers; l != nil {
			for _, key := range l.denied {
				denied[key] = true
			}
			for _, key := range l.silent {
				silent[key] = true
			}
		}
	}
	warn := func(key policy.Key, what string) {
		object, kind := objectOf(key)
		out = append(out, state.Warning{Object: object, Kind: kind, Reason: state.ReasonOverBudget, Message: fmt.Sprintf(
			"with the other policies of a pod that it selects it comes to more than %d ACLs (MaxACLsPerPod) or %d bytes (MaxACLBytesPerPod): "+
				"%s there. Make fewer rules, or order them so that less is passed", d.cfg.Budgets.ACLs, d.cfg.Budgets.ACLBytes, what)})
	}
	for key := range silent {
		warn(key, "it accepts nothing, and denies what it passes,")
	}
	for key := range denied {
		if !silent[key] {
			warn(key, "it denies what it passes, where a later rule of its tier might decide otherwise,")
		}
	}
	return out
}
