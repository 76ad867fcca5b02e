package hnsd

import (
	"time"
)

type refuser struct {
	match func(proc, text string) bool
	code  uint32
}

type temp struct {
	refusers []refuser
	latency  time.Duration
	show     func(proc, text string) string
}

// Refuse x.
func (s *Server) Refuse(match func(proc, text string) bool, code uint32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if match == nil {
		s.temp.refusers = nil
		return
	}
	s.temp.refusers = append(s.temp.refusers, refuser{match, code})
}

// SetLatency x.
func (s *Server) SetLatency(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.temp.latency = d
}

// Show x.
func (s *Server) Show(f func(proc, text string) string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.temp.show = f
}

func (s *Server) pre(op operation, r request) (reply, bool) {
	s.mu.Lock()
	t := s.temp
	s.mu.Unlock()
	if t.latency > 0 {
		time.Sleep(t.latency)
	}
	for _, f := range t.refusers {
		if f.match(op.name, r.text[0]) {
			return fail(f.code, "refused"), true
		}
	}
	return reply{}, false
}

func (s *Server) post(op operation, a reply) reply {
	s.mu.Lock()
	t := s.temp
	s.mu.Unlock()
	if t.show != nil && a.output != nil {
		out := t.show(op.name, *a.output)
		a.output = &out
	}
	return a
}
