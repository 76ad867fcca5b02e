package hnsd

import (
	"context"
	"fmt"
)

// Direct is the answer to a call that is made without the DLLs.
type Direct struct {
	HResult        uint32
	Record, Output string // empty: NULL, or empty
	Handle         uint64
}

// Call makes one call as the DLLs would, for whoever runs beside the server. An error says
// that the call is none, or that ctx ended.
func (s *Server) Call(ctx context.Context, export, id string, handle uint64, texts ...string) (Direct, error) {
	if ctx.Err() != nil {
		return Direct{}, context.Cause(ctx)
	}
	r := request{pid: directPID, handle: handle}
	for number, op := range ops {
		if op.name == export {
			r.op = number
		}
	}
	switch {
	case r.op == 0:
		return Direct{}, fmt.Errorf("hnsd: no export %s", export)
	case export == callHNS && len(texts) == 3: // as vmcompute.c has it
		r.text[0], r.text[1] = texts[0]+" "+texts[1], texts[2]
	default:
		copy(r.text[:], texts)
	}
	if id != "" {
		var err error
		if r.id, err = parseGUID(id); err != nil {
			return Direct{}, err
		}
	}
	a, err := s.answer(ctx, r)
	if err != nil {
		return Direct{}, err
	}
	s.account(r, a)
	out := Direct{HResult: a.code, Handle: a.handle}
	if a.record != nil {
		out.Record = *a.record
	}
	if a.output != nil {
		out.Output = *a.output
	}
	return out, nil
}

// directPID is the process of calls without the DLLs.
const directPID = 1

// Restart restarts the service: calls that hang break off. With lose, sets and rules that name
// some are gone, those of every network.
func (s *Server) Restart(lose bool) {
	for _, n := range s.listNetworks() {
		n.sim.Restart(lose)
	}
}

// Exists returns the names of all networks, and how many endpoints and namespaces there are,
// for a test that looks what somebody left behind.
func (s *Server) Exists() (networks []string, endpoints, namespaces int) {
	for _, n := range s.listNetworks() {
		networks = append(networks, n.name)
		endpoints += len(n.sim.Endpoints())
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return networks, endpoints, len(s.spaces)
}
