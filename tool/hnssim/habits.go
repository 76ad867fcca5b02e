package hnssim

import (
	"cmp"
	"hash/fnv"
	"maps"
	"slices"

	"github.com/winnpm/winnpm/pkg/hns"
)

// born gives a new endpoint the habits of this HNS; s.mu must be held.
func (s *Sim) born(e *endpoint) {
	o := s.odd
	if o == nil {
		return
	}
	if o.Endpoints.Late > 0 {
		o.late[e.id] = o.Endpoints.Late
	}
	if o.Endpoints.Twice == 0 || len(e.addrs) == 0 {
		return
	}
	o.created++
	id := twinID(e.id)
	if o.created%o.Endpoints.Twice != 0 || s.endpoints[id] != nil {
		return
	}
	twin := &endpoint{id: id, addrs: slices.Clone(e.addrs), state: e.state, remote: e.remote, network: e.network}
	twin.setPolicies(slices.Clone(e.policies))
	e.twin = id
	s.endpoints[id] = twin
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

// enumerated returns the endpoints that HNS enumerates now, by GUID, and counts
// that it did; s.mu must be held.
func (s *Sim) enumerated() []*endpoint {
	out := make([]*endpoint, 0, len(s.endpoints))
	for _, id := range slices.Sorted(maps.Keys(s.endpoints)) {
		if s.odd != nil && s.odd.late[id] > 0 {
			s.odd.late[id]--
			continue
		}
		out = append(out, s.endpoints[id])
	}
	if s.odd != nil && s.odd.Spelling.Shuffled {
		shuffle(s.odd.rng, out)
	}
	return out
}

// EnumerateEndpoints returns the endpoints of the node that HNS enumerates now, of
// every network and in every state, for whoever stands for its DLLs. Each call is
// an enumeration to endpoints that come late.
func (s *Sim) EnumerateEndpoints() []EndpointView {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []EndpointView
	for _, e := range s.enumerated() {
		out = append(out, e.view())
	}
	return out
}

// unread returns the error of a read of an endpoint that is there, nil when it can
// be read; s.mu must be held.
func (s *Sim) unread(c *Call, e *endpoint) error {
	o := s.odd
	switch {
	case o == nil:
		return nil
	case o.happens(o.Endpoints.Vanish, &o.vanishes):
		return s.coded(endpointMissing.of(e.id)).in(c.Op, e.id)
	case !o.chosen(e.id) || o.Endpoints.UnreadFor >= 0 && o.unread[e.id] >= o.Endpoints.UnreadFor:
		return nil
	}
	o.unread[e.id]++
	return c.failed(cmp.Or(o.Endpoints.UnreadCode, codeAfterUnload))
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

// defaults returns the policies of an endpoint that is created without any; s.mu
// must be held.
func (s *Sim) defaults() []hns.EndpointPolicy {
	if s.odd != nil && s.odd.Foreign != nil {
		return s.odd.Foreign
	}
	return s.foreign
}
