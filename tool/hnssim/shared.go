package hnssim

import (
	"slices"

	"github.com/winnpm/winnpm/pkg/hns"
)

// shared caches parsed policies by their text and by their rule. Parsed policies are immutable, so
// endpoints with equal policies share them, like the policies of a CNI or the rules of a workload's pods.
type shared struct {
	texts map[policyText]policy
	rules map[hns.ACL]policy
}

// policyText is the text of a policy.
type policyText struct{ policyType, settings string }

// maxShared limits the entries of each map. A full map is cleared.
const maxShared = 1 << 14

func newShared() shared { return shared{map[policyText]policy{}, map[hns.ACL]policy{}} }

// remember adds a parsed policy.
func remember[K comparable](in map[K]policy, as K, p policy) {
	if len(in) >= maxShared {
		clear(in)
	}
	in[as] = p
}

// forget clears the cache when a set is removed, as cached policies may point to it.
func (s *shared) forget() {
	clear(s.texts)
	clear(s.rules)
}

// readPolicy checks a policy for an endpoint; s.mu must be held.
func (s *Sim) readPolicy(e *endpoint, p hns.EndpointPolicy) (policy, *refused) {
	found, known := s.shared.texts[policyText{p.Type, string(p.Settings)}] // does not copy the text
	if !known || !s.shares(e) {
		var r *refused
		if found, r = readPolicy(hns.EndpointPolicy{Type: p.Type, Settings: slices.Clone(p.Settings)}, s.lookup(e)); r != nil {
			return policy{}, r
		}
		if s.shares(e) {
			remember(s.shared.texts, policyText{p.Type, string(p.Settings)}, found)
		}
	}
	return found, nil
}

// readACL checks a rule for an endpoint; s.mu must be held.
func (s *Sim) readACL(e *endpoint, a hns.ACL) (policy, *refused) {
	found, known := s.shared.rules[a]
	if !known || !s.shares(e) {
		read, r := readACL(a, s.lookup(e))
		if r != nil {
			return policy{}, r
		}
		found = policy{read: ReadBack(read.ACL), rule: read}
		if s.shares(e) {
			remember(s.shared.rules, a, found)
		}
	}
	return found, nil
}

// shares reports whether an endpoint may use shared policies: it is on the network of their sets.
func (s *Sim) shares(e *endpoint) bool { return e.network == s.network }
