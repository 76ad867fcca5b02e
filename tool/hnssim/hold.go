package hnssim

import (
	"context"

	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/tool/hnssim/dllcalls"
)

// Hold implements hns.Client.
func (s *Sim) Hold(ctx context.Context, endpoint string) func() {
	endpoint = s.target(endpoint)
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, held := s.held[endpoint]; held {
		panic("BUG: endpoint " + endpoint + " is held twice")
	}
	s.held[endpoint] = false
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.held[endpoint] {
			s.log.dll++
			dllcalls.Count(ctx, 1) // close
		}
		delete(s.held, endpoint)
	}
}

// DLLCalls returns how many calls of the DLLs the calls since the last ResetCalls
// would have been.
func (s *Sim) DLLCalls() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.log.dll
}

// price returns the number of DLL calls that a call is, as the real adapter makes
// them when all goes well: open, one use and close, without those of a handle that
// is held. s.mu must be held.
func (s *Sim) price(c *Call) int {
	switch c.Op {
	case hns.OpNetworkGet:
		return 4 // the network is looked for by its name first
	case hns.OpEndpointIDs:
		return 2 // states 2 and 3
	case hns.OpEndpointNew:
		return 1 // state 1
	case hns.OpEndpointGet, hns.OpACLAdd, hns.OpACLUpdate:
		open, held := s.held[c.Target]
		switch {
		case open:
			return 1
		case held:
			s.held[c.Target] = true
			return 2
		}
	}
	return 3
}
