package hnssim

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/winnpm/winnpm/pkg/hns"
)

// LoseRules has HNS forget our rules on an endpoint; what others have there stays.
func (s *Sim) LoseRules(id string) error {
	return s.change("LoseRules", id, func(e *endpoint) *refused {
		e.dropRules(func(r *rule) bool { return r.ACL.Ours() })
		return nil
	})
}

// LoseSet has HNS forget a set by its Id, in use or not, and with it what names
// it: nested sets and rules, those that name such a nested set too. A rule that
// stayed would mean something that nobody knows.
func (s *Sim) LoseSet(id string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	at := s.sets[id]
	if at == nil {
		return fmt.Errorf("hnssim: lose a set: %w", setMissing.of(id))
	}
	s.lose([]*set{at}, func(hns.ACL) bool { return false })
	s.wrote("LoseSet", id)
	return nil
}

// LoseAll has HNS forget everything of ours, sets and rules, and every rule that
// names such a set, while its process lives on.
func (s *Sim) LoseAll() {
	s.mu.Lock()
	defer s.mu.Unlock()
	var ours []*set
	for id, at := range s.sets {
		if strings.HasPrefix(id, hns.SetIDPrefix) {
			ours = append(ours, at)
		}
	}
	s.lose(ours, hns.ACL.Ours)
	s.wrote("LoseAll", s.network)
}

// lose forgets sets with what names them, and the rules that match; s.mu must be
// held.
func (s *Sim) lose(sets []*set, match func(hns.ACL) bool) {
	gone := map[*set]bool{}
	for _, at := range sets {
		gone[at] = true
	}
	for _, at := range s.sets { // nested sets have leaves only, so once is enough
		if slices.ContainsFunc(at.members, func(m *set) bool { return gone[m] }) {
			gone[at] = true
		}
	}
	for _, e := range s.endpoints {
		e.dropRules(func(r *rule) bool {
			return match(r.ACL) || slices.ContainsFunc(r.sets, func(at *set) bool { return gone[at] })
		})
	}
	for at := range maps.Keys(gone) {
		s.removeSet(at)
	}
}

// dropRules takes rules away from an endpoint.
func (e *endpoint) dropRules(match func(*rule) bool) {
	e.setPolicies(slices.DeleteFunc(slices.Clone(e.policies), func(p policy) bool { return p.rule != nil && match(p.rule) }))
}
