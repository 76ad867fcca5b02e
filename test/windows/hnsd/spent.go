package hnsd

import (
	"maps"
	"unicode/utf16"
)

// SpentPath is a GET of HNSCall that HNS does not have: it returns a Spent as
// JSON, of the calling process since it asked last. HNSCalls are not counted.
const SpentPath = "/hnsd/spent"

// Spent is what a process has cost.
type Spent struct {
	Calls map[string]int // by export
	// In and Out are the bytes of the texts that crossed the boundary to HNS and
	// back, in UTF-16.
	In, Out int
	Open    int // handles that the process has open now
}

func (s *Spent) add(export string, r request, a reply) {
	if s.Calls == nil {
		s.Calls = map[string]int{}
	}
	s.Calls[export]++
	s.In += textBytes(&r.text[0]) + textBytes(&r.text[1])
	s.Out += textBytes(a.record) + textBytes(a.output)
}

func (s *Server) takeSpent(pid uint32) Spent {
	s.mu.Lock()
	defer s.mu.Unlock()
	spent := s.spent[pid]
	spent.Calls = maps.Clone(spent.Calls)
	spent.Open = s.handles.counts()[pid]
	delete(s.spent, pid)
	return spent
}

// textBytes is how long a text is in UTF-16; nil is none.
func textBytes(s *string) (n int) {
	if s == nil {
		return 0
	}
	for _, r := range *s {
		n += 2 * utf16.RuneLen(r)
	}
	return n
}
