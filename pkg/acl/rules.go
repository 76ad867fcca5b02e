package acl

import (
	"iter"

	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/pkg/ipsets"
	"github.com/winnpm/winnpm/pkg/policy"
	"github.com/winnpm/winnpm/pkg/state"
)

// Rules are what one endpoint should have, for the pod that owns it.
type Rules struct {
	Shared []hns.ACL // base rules, and where something isolates the pod the node rule and blocks
	// Groups are one per NetworkPolicy that selects the pod, sorted by key. Tiered endpoints
	// have one group with their ordered lists, and no blocks in Shared.
	Groups []*Group
	// Tiered: a ClusterNetworkPolicy selects the pod.
	Tiered bool
}

// Group is the share of one policy, or of all in order. It never changes: endpoints may share it.
type Group struct {
	Key      policy.Key
	Isolates [2]bool
	Rules    []Rule
	served   []hns.ACL // the rules but those that are unused
}

// ACLs returns the group's rules but those that are unused. They are not to be changed.
func (g *Group) ACLs() []hns.ACL { return g.served }

// Source is what a rule came from. The zero one is the end of a list.
type Source struct {
	Tier  policy.Tier
	Key   policy.Key // of the policy; the zero key for the block that all NetworkPolicies share
	Index int        // of the rule in its direction
	Name  string     // of the rule
}

// Rule is one ACL with the sets that it names.
type Rule struct {
	ACL   hns.ACL
	Names []ipsets.Name
	// Unused: a named port number that no pod serves any more. It matches
	// nothing; where it is on an endpoint it may stay until the next Update.
	Unused bool
	From   Source   // what decides
	Also   []int    // indexes of more rules of the policy and direction that it came from
	Via    []Source // the rules that passed the packet on, in order
}

// Owner returns the policy whose Id the rule has; the zero key for a rule that is no
// policy's own.
func (r *Rule) Owner() policy.Key {
	if r.From.Key == (policy.Key{}) && len(r.Via) > 0 {
		return r.Via[len(r.Via)-1].Key
	}
	return r.From.Key
}

// Indexes returns the indexes of the policy's rules that the rule came from.
func (r *Rule) Indexes() []int { return append([]int{r.From.Index}, r.Also...) }

// IsBlock reports whether the rule blocks.
func (r *Rule) IsBlock() bool { return r.ACL.Action == hns.Block }

// All yields the rules that are in use, in order. They are not to be changed.
func (r *Rules) All() iter.Seq[*Rule] {
	return func(yield func(*Rule) bool) {
		for _, g := range r.Groups {
			for i := range g.Rules {
				if !g.Rules[i].Unused && !yield(&g.Rules[i]) {
					return
				}
			}
		}
	}
}

// Without yields the rules in order and without duplicates, with some policies quarantined:
// what they accept is left out, and each of their denies blocks everything of its direction.
// It omits all rules after one that blocks everything, because no packet reaches them.
func (r *Rules) Without(out map[policy.Key]bool) iter.Seq[*Rule] {
	return func(yield func(*Rule) bool) {
		ended, seen := map[hns.Direction]bool{}, map[hns.ACL]bool{}
		for rule := range r.All() {
			if len(out) > 0 && out[rule.Owner()] {
				rule = rule.quarantined()
			}
			if rule == nil || ended[rule.ACL.Direction] || rule.repeats(seen) {
				continue
			}
			if rule.IsBlock() {
				ended[rule.ACL.Direction] = BlocksAll(rule.ACL)
			}
			if !yield(rule) {
				return
			}
		}
	}
}

// repeats reports whether an earlier rule of seen blocks the same traffic, and adds the rule to seen:
// several policies may deny the same.
func (r *Rule) repeats(seen map[hns.ACL]bool) bool {
	if !r.IsBlock() {
		return false
	}
	is := r.ACL
	is.ID = ""
	was := seen[is]
	seen[is] = true
	return was
}

// quarantined returns what is left of a rule when its policy is quarantined: nothing of one that
// accepts, and a block of its whole direction for one that denies.
func (r *Rule) quarantined() *Rule {
	if !r.IsBlock() {
		return nil
	}
	wide := *r
	wide.ACL = Everything(r.ACL)
	return &wide
}

// Names returns the sets that the rules name, but for those that are never reached.
func (r *Rules) Names() (out []ipsets.Name) {
	for rule := range r.Without(nil) {
		out = append(out, rule.Names...)
	}
	return out
}

// Blocks reports whether a rule blocks anything in a direction.
func (r *Rules) Blocks(dir hns.Direction) bool {
	for rule := range r.All() {
		if rule.IsBlock() && rule.ACL.Direction == dir {
			return true
		}
	}
	return false
}

// Everything returns a rule that matches all packets of its direction.
func Everything(a hns.ACL) hns.ACL {
	a.Protocols, a.LocalPorts, a.RemotePorts, a.LocalAddresses, a.RemoteAddresses = "", "", "", "", ""
	return a
}

// RuleKey returns the key under which a shared rule is quarantined. It has no namespace, unlike the
// keys of policies.
func RuleKey(a hns.ACL) policy.Key { return policy.Key{Name: a.ID} }

// Dump says what a rule came from.
func (s Source) Dump() state.TierSource {
	out := state.TierSource{Tier: s.Tier.String(), Rule: s.Index, Name: s.Name}
	if name, is := s.Key.Cluster(); is {
		out.Policy = name
	} else if s.Key.Name != "" {
		out.Policy = s.Key.String()
	}
	return out
}
