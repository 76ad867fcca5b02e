package acl

import (
	"slices"

	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/pkg/ipsets"
	"github.com/winnpm/winnpm/pkg/policy"
	"github.com/winnpm/winnpm/pkg/state"
)

// Options are the inputs of Render besides the rules.
type Options struct {
	ID    func(ipsets.Name) string // of a set
	Limit int                      // how many ACLs there may be
	// IPv6: the endpoint has IPv6 addresses. In a direction with tiers in which a rule denies, all
	// IPv6 is blocked by the first ACL. Sets hold IPv4 addresses only, so no other ACL can deny
	// an IPv6 peer.
	IPv6 bool
}

// Render turns the ordered rules of one endpoint into ACLs (ADR 24), ingress before egress. The first
// rule that matches a packet decides. A packet that no rule matches is blocked if the packet's direction
// has rules of the Admin or the Baseline tier; otherwise other rules of the endpoint decide. Render
// reports false if the list is over its limit or took too many steps: then it is not complete.
//
// In a direction without rules of these tiers each rule is an ACL with the numbers of
// NetworkPolicies. There is no order among them, so their ACLs may come from several calls.
//
// While the plain sets lack members, an ACL that allows matches too few packets, never too many. While
// the deny twins have surplus members, an ACL that blocks matches too many packets, never too few. So
// no packet is allowed that the rules deny, whichever sets are being written.
func Render(rules []ResolvedRule, o Options) (acls []*SourcedACL, fits bool) {
	l := list{Options: o, work: maxSteps, seen: map[hns.ACL]*SourcedACL{}, ports: portTexts{}}
	egress := slices.IndexFunc(rules, func(r ResolvedRule) bool { return r.Direction == policy.Egress })
	if egress < 0 {
		egress = len(rules)
	}
	tiered := func(r ResolvedRule) bool { return r.From.Tier == policy.Admin || r.From.Tier == policy.Baseline }
	fits = true
	for _, rules := range [][]ResolvedRule{rules[:egress], rules[egress:]} {
		if l.number, l.last = 0, ""; slices.ContainsFunc(rules, tiered) {
			l.tiers(rules)
			fits = fits && !l.over()
			continue
		}
		for i := range rules {
			l.rule(&rules[i], nil)
		}
		fits = fits && len(l.out) <= l.Limit
	}
	return l.out, fits
}

// maxSteps bounds the pairs of atoms that Render looks at. A list that takes more is far over
// the limit, or most of its products are empty.
const maxSteps = 1 << 19

// list is a list that is being made.
type list struct {
	Options
	work   int            // steps that are left
	number uint16         // the last priority in a direction with tiers, 0 in any other
	last   hns.ActionType // of the last ACL with this priority
	out    []*SourcedACL
	seen   map[hns.ACL]*SourcedACL // without Ids
	ports  portTexts
}

// over reports whether the list is over its limit, or took too long to make.
func (l *list) over() bool {
	return len(l.out) > l.Limit || l.work < 0 || l.number >= hns.PriorityDefault
}

// tiers adds the rules of a direction with tiers. The tail is what follows the Admin tier: the
// rules of the NetworkPolicies and a Deny of everything if they isolate; or the rules of the
// Baseline tier, whose Pass allows, and an Accept of everything. A tail that has no rule for
// everything is closed by a block. A Pass of the Admin tier has no ACL of its own. Where a later rule of
// the tier matches the same packets, the rules of the tail come before that rule, for these packets.
func (l *list) tiers(rules []ResolvedRule) {
	if deny := slices.IndexFunc(rules, func(r ResolvedRule) bool { return r.Action == policy.Deny }); l.IPv6 && deny >= 0 {
		shield := l.head(&rules[deny], nil)
		shield.Priority, shield.RemoteAddresses = hns.PriorityShield, hns.EveryIPv6
		l.out = append(l.out, &shield)
	}
	tail := slices.IndexFunc(rules, func(r ResolvedRule) bool { return r.From.Tier != policy.Admin })
	if tail < 0 {
		tail = len(rules)
	}
	admin, ended := cut(rules[:tail])
	after, closed := cut(rules[tail:])
	if !closed {
		after = append(slices.Clone(after), ResolvedRule{Direction: rules[0].Direction, Action: policy.Deny, Atoms: []Atom{{}}})
	}
	var via []Source
	l.number = hns.PriorityTiers
	for i := range admin {
		r := &admin[i]
		switch {
		case r.Action != policy.Pass:
			l.rule(r, nil)
		case ended && i == len(admin)-1:
			via = []Source{r.From}
		default:
			l.passed(l.overlapping(r.Atoms, admin[i+1:]), r.From, after)
		}
		if l.over() {
			return
		}
	}
	if ended && via == nil {
		return // no packet reaches the tail
	}
	l.number, l.last = max(l.number+1, hns.PriorityTail), ""
	for i := range after {
		l.rule(&after[i], via)
	}
}

// cut returns the rules up to the first that matches everything, of which one atom is left, because
// no packet reaches the rules after it. It reports whether a rule matches everything.
func cut(rules []ResolvedRule) ([]ResolvedRule, bool) {
	for i, r := range rules {
		if at := slices.IndexFunc(r.Atoms, Atom.everything); at >= 0 {
			r.Atoms = r.Atoms[at : at+1]
			return append(slices.Clone(rules[:i]), r), true
		}
	}
	return rules, false
}

// overlapping returns the atoms that later rules of the tier decide otherwise, or might. All other
// packets reach the tail anyway. When no steps are left, the remaining atoms count as overlapping.
func (l *list) overlapping(atoms []Atom, later []ResolvedRule) (out []Atom) {
	for _, a := range atoms {
		if l.work <= 0 || slices.ContainsFunc(later, func(r ResolvedRule) bool {
			return r.Action != policy.Pass && slices.ContainsFunc(r.Atoms, func(b Atom) bool {
				l.work -= steps(a, b)
				_, ok := meet(a, b)
				return ok || l.work <= 0
			})
		}) {
			out = append(out, a)
		}
	}
	return out
}

// steps estimates the cost of meet for two atoms.
func steps(a, b Atom) int {
	return 1 + (1+len(a.Sets))*(1+len(b.Sets)) + len(a.Blocks) + len(b.Blocks) + len(a.Ports)*len(b.Ports)
}

// passed adds the ACLs with which the tail decides some atoms. The tail ends with a rule for everything,
// so it decides each packet of them.
func (l *list) passed(atoms []Atom, from Source, tail []ResolvedRule) {
	for i := range tail {
		var left []Atom // for later rules
		for _, a := range atoms {
			whole := false
			for _, t := range tail[i].Atoms {
				if l.work -= steps(a, t); l.over() {
					return
				}
				if both, ok := meet(a, t); ok {
					l.decide(&tail[i], both, []Source{from})
					whole = whole || allowed(a) && both.equal(a)
				}
			}
			if !whole {
				left = append(left, a)
			}
		}
		atoms = left
	}
}

// equal reports whether an atom that is a part of another one is all of it.
func (a Atom) equal(whole Atom) bool {
	return len(a.Sets) == len(whole.Sets) && slices.Equal(a.Blocks, whole.Blocks) && slices.Equal(a.Ports, whole.Ports)
}

// rule adds a rule as it is, but nothing to a list that is over its limit.
func (l *list) rule(r *ResolvedRule, via []Source) {
	for _, a := range r.Atoms {
		if len(l.out) > l.Limit {
			return
		}
		l.decide(r, a, via)
	}
}

// decide adds the ACLs of a rule for the packets of an atom. A Pass here is one of the tail, and
// allows, as no tier follows. The final rule that allows everything has no ACL: the
// allow-all pair of the CNI or ours does that.
func (l *list) decide(r *ResolvedRule, a Atom, via []Source) {
	rule := l.head(r, via)
	rule.Unused = a.Unused
	atoms, block := []Atom{a}, rule.Action == hns.Block
	switch {
	case block:
		atoms = blocked(a)
	case !allowed(a):
		return
	case rule.From == Source{} && a.everything() && (l.number == 0 || l.number >= hns.PriorityTail):
		return
	}
	switch {
	case l.number == 0 && block:
		rule.Priority = hns.PriorityBlock
	case l.number == 0:
		rule.Priority = hns.PriorityAllow
	default: // each run of ACLs of one action has a number of its own
		if l.last != "" && l.last != rule.Action {
			l.number++
		}
		rule.Priority, l.last = l.number, rule.Action
	}
	for _, a := range atoms {
		for _, peer := range l.peers(a, block) {
			for _, m := range l.ports.of(a.Ports) {
				l.add(rule, m, peer)
			}
		}
	}
}

// head returns the ACL of a rule without peers, ports and priority.
func (l *list) head(r *ResolvedRule, via []Source) SourcedACL {
	out := SourcedACL{From: r.From, Via: via, ACL: hns.ACL{Action: hns.Allow, Direction: DirectionOf[r.Direction], RuleType: hns.Switch}}
	switch r.Action {
	case policy.Accept:
	case policy.Deny:
		out.Action = hns.Block
	case policy.Pass:
		out.From, out.Via = Source{}, append(slices.Clone(via), r.From)
	}
	if out.ID = idOfBlock[r.Direction]; out.Owner() != (policy.Key{}) {
		out.ID = state.ACLID(out.Owner())
	}
	return out
}

// allowed reports whether an ACL that allows may match the atom.
func allowed(a Atom) bool { return !slices.ContainsFunc(a.Sets, ipsets.Name.Denies) }

// blocked returns the atoms of the ACLs that block an atom: it with the deny twins of its
// sets, and, if pods are among these, the same traffic of the addresses that may belong to
// any pod.
func blocked(a Atom) []Atom {
	twin := a
	twin.Sets = slices.Clone(a.Sets)
	for i := range twin.Sets {
		twin.Sets[i] = twin.Sets[i].Deny()
	}
	if !slices.ContainsFunc(a.Sets, ofPods) {
		return []Atom{twin}
	}
	doubt := Atom{Sets: []ipsets.Name{ipsets.Doubt()}, Blocks: a.Blocks, Ports: a.Ports}
	for _, n := range a.Sets {
		if !ofPods(n) && n != ipsets.Doubt() {
			doubt.Sets = append(doubt.Sets, n.Deny())
		}
	}
	return []Atom{twin, doubt}
}

// ofPods reports whether the members of a set are addresses of pods only, so that an address may
// be in doubt.
func ofPods(n ipsets.Name) bool {
	return n.Kind() != ipsets.KindNodes && n.Kind() != ipsets.KindInBlocks && n.Kind() != ipsets.KindDoubt
}
