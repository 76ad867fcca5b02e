package hnsd

import (
	"context"
	"time"
)

// habits are what tells one HNS from another, and no fault.
type habits struct {
	latency  time.Duration
	dislikes []*dislike
	seen     func(export string)
	once     bool // an address is taken once in a network
	deaf     bool // a query has no filter, whatever it says
}

// dislike is what HNS does not take.
type dislike struct {
	match func(request string) bool
	code  uint32
}

// SetLatency sets how long each call of the DLLs takes, 0 at first. Calls of all
// processes take it one after the other, as they do in HNS; HNSCalls take none.
func (s *Server) SetLatency(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.habits.latency = d
}

// Refuse has HNS answer every HcnModifyNetwork and HcnModifyEndpoint whose request
// matches with a code, and do nothing of it, until lift is called. match runs on
// the goroutine of a connection, several at a time.
func (s *Server) Refuse(match func(request string) bool, code uint32) (lift func()) {
	r := &dislike{match, code}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.habits.dislikes = append(s.habits.dislikes, r)
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		var left []*dislike // calls may be reading the old ones
		for _, other := range s.habits.dislikes {
			if other != r {
				left = append(left, other)
			}
		}
		s.habits.dislikes = left
	}
}

// TakeOnce has HNS refuse an endpoint with an address that another one of its network has, which
// it does not at first.
func (s *Server) TakeOnce() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.habits.once = true
}

// HeedNoFilter has HNS enumerate endpoints and networks whatever the query's filter says.
func (s *Server) HeedNoFilter() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.habits.deaf = true
}

// filterOf returns the filter of a query as HNS heeds it.
func (s *Server) filterOf(query string) (filter, error) {
	f, err := parseQuery(query)
	if s.current().deaf {
		f = filter{}
	}
	return f, err
}

// current returns a copy of the habits.
func (s *Server) current() habits {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.habits
}

// takeTime lets the latency of a call pass. It fails when ctx ends.
func (s *Server) takeTime(ctx context.Context, export string) error {
	latency := s.current().latency
	if latency == 0 || export == callHNS {
		return nil
	}
	select {
	case s.turn <- struct{}{}:
		defer func() { <-s.turn }()
	case <-ctx.Done():
		return ctx.Err()
	}
	timer := time.NewTimer(latency)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// refuses returns an error for a request that HNS does not take.
func (h habits) refuses(export string, r request) error {
	if export != "HcnModifyNetwork" && export != "HcnModifyEndpoint" {
		return nil
	}
	for _, rule := range h.dislikes {
		if rule.match(r.text[0]) {
			return refuse(rule.code, "refused: %.200s", r.text[0])
		}
	}
	return nil
}
