package hnssim

import (
	"slices"

	"github.com/winnpm/winnpm/pkg/hns"
)

// shared are policies that were read before. Nobody changes what was read, so that endpoints
// share what is the same on all of them: the policies of a CNI, and the rules of ours that
// all pods of a workload have.
type shared struct {
	texts map[policyText]policy
	rules map[hns.ACL]policy
}

// policyText is a policy as it is written.
type policyText struct{ policyType, settings string }

// maxShared is how many of each are remembered; when there are more, it begins anew.
const maxShared = 1 << 16

func newShared() shared { return shared{map[policyText]policy{}, map[hns.ACL]policy{}} }

// remember keeps what was read.
func remember[K comparable](in map[K]policy, as K, p policy) {
	if len(in) >= maxShared {
		clear(in)
	}
	in[as] = p
}

// readPolicy checks a policy for an endpoint; s.mu must be held.
func (s *Sim) readPolicy(e *endpoint, p hns.EndpointPolicy) (policy, *refused) {
	found, known := s.shared.texts[policyText{p.Type, string(p.Settings)}] // no copy of the text
	if !known || !s.still(e, found) {
		var r *refused
		if found, r = readPolicy(hns.EndpointPolicy{Type: p.Type, Settings: slices.Clone(p.Settings)}, s.lookup(e)); r != nil {
			return policy{}, r
		}
		remember(s.shared.texts, policyText{p.Type, string(p.Settings)}, found)
	}
	return found, s.unlessRejected(found)
}

// readACL checks a rule for an endpoint; s.mu must be held.
func (s *Sim) readACL(e *endpoint, a hns.ACL) (policy, *refused) {
	found, known := s.shared.rules[a]
	if !known || !s.still(e, found) {
		read, r := readACL(a, s.lookup(e))
		if r != nil {
			return policy{}, r
		}
		found = policy{read: normalised(read.ACL), rule: read}
		remember(s.shared.rules, a, found)
	}
	return found, s.unlessRejected(found)
}

// still reports whether an endpoint sees the sets that a policy names; s.mu must be held.
func (s *Sim) still(e *endpoint, p policy) bool {
	find := s.lookup(e)
	return p.rule == nil || !slices.ContainsFunc(p.rule.sets, func(at *set) bool { return find(at.ID) != at })
}

// unlessRejected refuses a rule that somebody wants refused; s.mu must be held.
func (s *Sim) unlessRejected(p policy) *refused {
	if p.rule != nil && s.rejected(p.rule.ACL) {
		return aclRejected.of(p.rule.ACL.ID)
	}
	return nil
}
