package hnssim

import (
	"maps"
	"slices"

	"github.com/winnpm/winnpm/pkg/hns"
)

// Forget removes the sets and the rules that match, even if they are in use. It also removes the nested
// sets and the rules that name a removed set, as their effect would be unknown. Hooks.Wrote gets op and
// target.
func (s *Sim) Forget(op, target string, isGone func(hns.SetPolicy) bool, match func(endpoint string, a hns.ACL) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	gone := map[*set]bool{}
	for _, at := range s.sets {
		if isGone(at.SetPolicy) {
			gone[at] = true
		}
	}
	for _, at := range s.sets { // nested sets are not nested twice, so one pass is enough
		if slices.ContainsFunc(at.members, func(m *set) bool { return gone[m] }) {
			gone[at] = true
		}
	}
	for id, e := range s.endpoints {
		e.setPolicies(slices.DeleteFunc(slices.Clone(e.policies), func(p policy) bool {
			return p.rule != nil &&
				(match(id, p.rule.ACL) || slices.ContainsFunc(p.rule.sets, func(at *set) bool { return gone[at] }))
		}))
	}
	for at := range maps.Keys(gone) {
		s.removeSet(at)
	}
	s.wrote(op, target)
}
