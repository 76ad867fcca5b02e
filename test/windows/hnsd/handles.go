package hnsd

import "context"

// objectKind is what a handle stands for.
type objectKind string

const (
	kindNetwork   objectKind = "network"
	kindEndpoint  objectKind = "endpoint"
	kindNamespace objectKind = "namespace"
)

// handle is one open handle of one process.
type handle struct {
	pid  uint32
	kind objectKind
	id   guid
}

// handleTable has the open handles. No number is used twice.
type handleTable struct {
	last uint64
	open map[uint64]handle
}

func (t *handleTable) add(h handle) uint64 {
	t.last += 0x10 // in Windows they are addresses
	t.open[t.last] = h
	return t.last
}

func (t *handleTable) counts() map[uint32]int {
	out := map[uint32]int{}
	for _, h := range t.open {
		out[h.pid]++
	}
	return out
}

// opened returns the reply that hands a new handle to the process of r.
func (s *Server) opened(r request, kind objectKind, id guid) reply {
	s.mu.Lock()
	defer s.mu.Unlock()
	return reply{handle: s.handles.add(handle{r.pid, kind, id})}
}

// object returns what the handle of r stands for. It must be open, of the same
// process and of this kind.
func (s *Server) object(r request, kind objectKind) (guid, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	h, ok := s.handles.open[r.handle]
	if !ok || h.pid != r.pid || h.kind != kind {
		return guid{}, refuse(codeInvalidHandle, "0x%x is no open handle of a %s", r.handle, kind)
	}
	return h.id, nil
}

func closeHandle(kind objectKind) func(*Server, context.Context, request) (reply, error) {
	return func(s *Server, _ context.Context, r request) (reply, error) {
		if _, err := s.object(r, kind); err != nil {
			return reply{}, err
		}
		s.forgetHandle(r.handle)
		return reply{}, nil
	}
}

// forgetHandle takes a handle out of the table; one that is not there is fine.
func (s *Server) forgetHandle(n uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.handles.open, n)
}
