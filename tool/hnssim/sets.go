package hnssim

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/tool/match"
)

// set is one set of the network. Updates change it in place, so that rules and nested sets can point to it.
type set struct {
	hns.SetPolicy
	match   match.Set // what rules point to; also changed in place
	members []*set    // of a NESTEDIPSET
	acls    int       // rules on endpoints that name it
	lists   int       // nested sets that contain it, once per mention
}

// content is a valid, parsed set policy.
type content struct {
	policy  hns.SetPolicy
	spans   match.Spans
	members []*set
}

// ModifySets implements hns.Client.
func (s *Sim) ModifySets(ctx context.Context, verb hns.Verb, sets []hns.SetPolicy) error {
	op := hns.OpSets(verb)
	return s.call(ctx, Call{Op: op, Target: s.network, Sets: cloneSets(sets)}, func(c Call, dry bool) error {
		contents, r := s.checkSets(verb, c.Sets)
		if r != nil {
			return r.in(c)
		}
		if dry {
			return nil
		}
		for _, c := range contents {
			if verb == hns.Remove {
				s.removeSet(s.sets[c.policy.ID])
			} else if verb == hns.Add || s.sets[c.policy.ID] != nil {
				s.putSet(c)
			}
		}
		s.wrote(op, s.network)
		return nil
	})
}

// PutSet creates or changes a set on behalf of another program of the node. The checks are the same as for
// the client, except that the set may or may not exist.
func (s *Sim) PutSet(p hns.SetPolicy) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	c, r := s.checkSet(hns.Update, cloneSet(p))
	if r != nil {
		return fmt.Errorf("hnssim: put set %q: %w", p.Name, r)
	}
	s.putSet(c)
	s.wrote("PutSet", p.ID)
	return nil
}

// DropSet removes a set by its Id, on behalf of another program of the node. It fails while the set is in
// use.
func (s *Sim) DropSet(id string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := hns.SetPolicy{ID: id}
	if old := s.sets[id]; old != nil {
		p = old.SetPolicy
	}
	if _, r := s.checkSet(hns.Remove, p); r != nil {
		return fmt.Errorf("hnssim: drop set %q: %w", id, r)
	}
	s.removeSet(s.sets[id])
	s.wrote("DropSet", id)
	return nil
}

// checkSets checks a whole request; s.mu must be held.
func (s *Sim) checkSets(verb hns.Verb, sets []hns.SetPolicy) ([]content, *refused) {
	if len(sets) == 0 {
		return nil, emptyRequest.of(string(verb))
	}
	if !slices.Contains([]hns.Verb{hns.Add, hns.Update, hns.Remove}, verb) {
		return nil, unknownVerb.of(string(verb))
	}
	ids, names := map[string]bool{}, map[string]bool{}
	contents := make([]content, len(sets))
	for i, p := range sets {
		switch {
		case p.Type != sets[0].Type:
			return nil, mixedSetTypes.of(p.Name)
		case ids[p.ID]:
			return nil, setIDTwice.of(p.ID)
		case names[p.Name]:
			return nil, setNameTaken.of(p.Name)
		}
		ids[p.ID], names[p.Name] = true, true
		var r *refused
		if contents[i], r = s.checkSet(verb, p); r != nil {
			return nil, r
		}
	}
	return contents, nil
}

// checkSet checks one set against the existing sets; s.mu must be held.
func (s *Sim) checkSet(verb hns.Verb, p hns.SetPolicy) (content, *refused) {
	c := content{policy: p}
	old := s.sets[p.ID]
	switch {
	case verb == hns.Remove && old == nil:
		return c, setMissing.of(p.ID)
	case verb == hns.Add && old != nil:
		return c, setExists.of(p.ID)
	case p.Type != hns.IPSet && p.Type != hns.NestedIPSet:
		return c, unknownSetType.of(fmt.Sprintf("%q of set %s", p.Type, p.Name))
	case badID(p.ID):
		return c, badSetID.of(fmt.Sprintf("%q of set %s", p.ID, p.Name))
	case p.Name == "":
		return c, noSetName.of(p.ID)
	case old != nil && old.Name != p.Name:
		return c, setRenamed.of(fmt.Sprintf("%s: %s, not %s", p.ID, old.Name, p.Name))
	case old != nil && old.Type != p.Type:
		return c, setTypeChanged.of(p.Name)
	}
	if other := s.names[p.Name]; other != nil && other.ID != p.ID {
		return c, setNameTaken.of(fmt.Sprintf("%s is that of %s", p.Name, other.ID))
	}
	if verb == hns.Remove {
		if old.acls > 0 || old.lists > 0 {
			return c, setInUse.of(fmt.Sprintf("%s, by %d rules and %d lists", p.Name, old.acls, old.lists))
		}
		return c, nil
	}
	var r *refused
	if p.Type == hns.IPSet {
		c.spans, r = parseValues(p)
	} else {
		c.members, r = s.findMembers(p)
	}
	return c, r
}

// badID reports whether an Id is ambiguous in a list of addresses.
func badID(id string) bool {
	_, literal := match.ParseSpan(id)
	return id == "" || literal || strings.ContainsAny(id, ", \t\r\n")
}

// parseValues parses the addresses and blocks of an IPSET.
func parseValues(p hns.SetPolicy) (match.Spans, *refused) {
	out := make(match.Spans, 0, len(p.Values))
	for _, v := range p.Values {
		switch sp, ok := match.ParseSpan(v); {
		case ok:
			out = append(out, sp)
		case isIPv6(v):
			return nil, ipv6SetValue.of(fmt.Sprintf("%q of set %s", v, p.Name))
		default:
			return nil, badSetValue.of(fmt.Sprintf("%q of set %s", v, p.Name))
		}
	}
	return out.Sorted(), nil
}

// findMembers returns the members of a NESTEDIPSET; s.mu must be held. HNS accepts a set without members,
// which matches everything: see match.Set.Has.
func (s *Sim) findMembers(p hns.SetPolicy) ([]*set, *refused) {
	out := make([]*set, 0, len(p.Values))
	for _, id := range p.Values {
		m := s.sets[id]
		switch {
		case id == p.ID:
			return nil, memberSelf.of(p.Name)
		case m == nil:
			return nil, memberMissing.of(fmt.Sprintf("%q of set %s", id, p.Name))
		case m.Type == hns.NestedIPSet:
			return nil, memberNested.of(fmt.Sprintf("%s of set %s", m.Name, p.Name))
		}
		out = append(out, m)
	}
	return out, nil
}

// putSet creates or replaces a set; s.mu must be held.
func (s *Sim) putSet(c content) {
	at := s.sets[c.policy.ID]
	if at == nil {
		at = &set{}
		s.sets[c.policy.ID] = at
		s.names[c.policy.Name] = at
	}
	for _, m := range c.members {
		m.lists++
	}
	for _, m := range at.members {
		m.lists--
	}
	at.SetPolicy, at.members = c.policy, c.members
	at.match = match.Set{Type: c.policy.Type, Spans: c.spans}
	for _, m := range c.members {
		at.match.Members = append(at.match.Members, &m.match)
	}
}

// removeSet removes a set that nothing names; s.mu must be held.
func (s *Sim) removeSet(at *set) {
	for _, m := range at.members {
		m.lists--
	}
	delete(s.sets, at.ID)
	delete(s.names, at.Name)
	clear(s.shared) // it may have policies that name the set
}
