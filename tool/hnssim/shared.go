package hnssim

import (
	"slices"

	"github.com/winnpm/winnpm/pkg/hns"
)

// shared has policies that were read before, by their text and by their rule. What was read is
// never changed, so endpoints with equal policies share it: those of a CNI, and rules of ours
// that all pods of a workload have.
type shared struct {
	texts map[policyText]policy
	rules map[hns.ACL]policy
}

// policyText is a policy as it is written.
type policyText struct{ policyType, settings string }

// maxShared is how many of each kind are kept. When one more comes, all are dropped.
const maxShared = 1 << 14

func newShared() shared { return shared{map[policyText]policy{}, map[hns.ACL]policy{}} }

// remember keeps what was read.
func remember[K comparable](in map[K]policy, as K, p policy) {
	if len(in) >= maxShared {
		clear(in)
	}
	in[as] = p
}

// forget drops everything: a set is gone that some of it may name.
func (s *shared) forget() {
	clear(s.texts)
	clear(s.rules)
}

// readPolicy checks a policy for an endpoint; s.mu must be held.
func (s *Sim) readPolicy(e *endpoint, p hns.EndpointPolicy) (policy, *refused) {
	found, known := s.shared.texts[policyText{p.Type, string(p.Settings)}] // no copy of the text
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

// shares reports whether an endpoint sees the sets that shared policies name.
func (s *Sim) shares(e *endpoint) bool { return e.network == s.network }
