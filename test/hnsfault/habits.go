package hnsfault

import (
	"cmp"
	"context"
	"fmt"
	"hash/fnv"
	"slices"

	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/tool/hnssim"
)

// CreateEndpoint creates an endpoint, as the CNI does, with the habits of this HNS.
func (s *Sim) CreateEndpoint(n hnssim.NewEndpoint) error {
	s.mu.Lock()
	if s.odd != nil && s.odd.Foreign != nil && n.Policies == nil {
		n.Policies = s.odd.Foreign
	}
	s.mu.Unlock()
	if err := s.Sim.CreateEndpoint(n); err != nil {
		return err
	}
	if !s.born(n) {
		return nil
	}
	made, _ := s.Endpoint(n.ID)
	twin := hnssim.NewEndpoint{
		ID: twinID(n.ID), Addrs: made.Addrs, State: made.State, Remote: made.Remote, Network: made.Network, Policies: made.Policies,
	}
	if s.Sim.CreateEndpoint(twin) == nil { // the GUID may be taken
		s.mu.Lock()
		s.twins[n.ID] = twin.ID
		s.mu.Unlock()
	}
	return nil
}

// born counts a new endpoint, and reports whether it comes twice.
func (s *Sim) born(n hnssim.NewEndpoint) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	o := s.odd
	if o == nil {
		return false
	}
	if o.Endpoints.Late > 0 {
		o.late[n.ID] = o.Endpoints.Late
	}
	if o.Endpoints.Twice == 0 || len(n.Addrs) == 0 {
		return false
	}
	o.created++
	return o.created%o.Endpoints.Twice == 0
}

// DeleteEndpoint deletes an endpoint with its policies, and its twin.
func (s *Sim) DeleteEndpoint(id string) error {
	if twin := s.twin(id); twin != "" {
		_ = s.Sim.DeleteEndpoint(twin) // it may be gone
	}
	return s.Sim.DeleteEndpoint(id)
}

// SetState moves an endpoint and its twin to another state.
func (s *Sim) SetState(id string, state hnssim.EndpointState) error {
	if twin := s.twin(id); twin != "" {
		_ = s.Sim.SetState(twin, state) // it may be gone
	}
	return s.Sim.SetState(id, state)
}

// twin returns the GUID of the endpoint that goes with another one, or nothing.
func (s *Sim) twin(id string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.twins[id]
}

// twinID returns another GUID, so far from the first one that two which follow each
// other have nothing in common with it.
func twinID(id string) string {
	const digits = "0123456789abcdef"
	text := []byte(id)
	const guid = 36
	for i, d := range []byte(digits) {
		if len(text) == guid && text[0] == d {
			text[0] = digits[i^8]
			return string(text)
		}
	}
	return id + "-twin"
}

// EndpointIDs implements hns.Client.
func (s *Sim) EndpointIDs(ctx context.Context) ([]string, error) {
	ids, err := s.Sim.EndpointIDs(ctx)
	if err != nil {
		return nil, err
	}
	return s.enumerated(ids, hnssim.Attached, hnssim.AttachedSharing), nil
}

// NewEndpointIDs implements hns.Client.
func (s *Sim) NewEndpointIDs(ctx context.Context) ([]string, error) {
	ids, err := s.Sim.NewEndpointIDs(ctx)
	if err != nil {
		return nil, err
	}
	return s.enumerated(ids, hnssim.Created), nil
}

// enumerated returns an enumeration of the endpoints in some states as this HNS
// answers it, and counts that it did.
func (s *Sim) enumerated(ids []string, states ...hnssim.EndpointState) []string {
	all := s.allIfOthers()
	s.mu.Lock()
	defer s.mu.Unlock()
	o := s.odd
	if o == nil {
		return ids
	}
	for _, e := range all {
		if slices.Contains(states, e.State) && !slices.Contains(ids, e.ID) {
			ids = append(ids, e.ID)
		}
	}
	slices.Sort(ids)
	ids = slices.DeleteFunc(ids, func(id string) bool { return o.late[id] > 0 })
	for id := range o.late {
		o.late[id]--
	}
	if o.Spelling.Shuffled {
		shuffle(o.rng, ids)
	}
	for i, id := range ids {
		ids[i] = o.guid(id)
	}
	return ids
}

// allIfOthers returns all endpoints when HNS enumerates those of other networks,
// else none.
func (s *Sim) allIfOthers() []hnssim.EndpointView {
	s.mu.Lock()
	others := s.odd != nil && s.odd.Endpoints.Others
	s.mu.Unlock()
	if !others {
		return nil
	}
	return s.Endpoints()
}

// takesRules reports whether an endpoint in a state takes rules.
func (s *Sim) takesRules(state hnssim.EndpointState) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return state == hnssim.Attached || state == hnssim.AttachedSharing ||
		state == hnssim.Created && s.odd != nil && s.odd.Endpoints.Early
}

// unread returns the error of a read of an endpoint that is there, nil when it can
// be read.
func (s *Sim) unread(c hnssim.Call) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	o := s.odd
	switch {
	case o == nil:
		return nil
	case o.happens(o.Endpoints.Vanish, &o.vanishes):
		gone := &hns.OpError{
			Op: c.Op, Kind: hns.KindEndpoint, ID: c.Target, Code: codeEndpointNotFound,
			Err: fmt.Errorf("%w: no such endpoint: %s", hns.ErrNotFound, c.Target),
		}
		return recoded(c, gone, cmp.Or(o.Codes[EndpointMissing], codeEndpointNotFound))
	case !o.chosen(c.Target) || o.Endpoints.UnreadFor >= 0 && o.unread[c.Target] >= o.Endpoints.UnreadFor:
		return nil
	}
	o.unread[c.Target]++
	return failed(c, cmp.Or(o.Endpoints.UnreadCode, codeAfterUnload))
}

// chosen reports whether an endpoint is one of those that cannot be read.
func (o *odd) chosen(id string) bool {
	if o.Endpoints.Unread <= 0 {
		return false
	}
	h := fnv.New64a()
	_, _ = h.Write([]byte(id)) // a hash takes everything
	return (h.Sum64()^o.Seed)%uint64(o.Endpoints.Unread) == 0
}

// Unreadable reports whether HNS never lets an endpoint be read, so that nobody can
// know what it is.
func (s *Sim) Unreadable(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.odd != nil && s.odd.Endpoints.UnreadFor < 0 && s.odd.chosen(id)
}
