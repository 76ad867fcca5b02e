package hnsd

import (
	"fmt"
	"slices"
)

// CreateNamespace makes a network namespace, as a runtime does for a pod before it asks
// CNI, and returns its GUID.
func (s *Server) CreateNamespace() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	id := s.newID()
	s.compartments++
	s.spaces[id] = &namespace{number: 1 + s.compartments, kind: "HostDefault"}
	return id.String()
}

// DeleteNamespace takes a namespace away. It fails while an endpoint is attached to it.
func (s *Server) DeleteNamespace(text string) error {
	id, err := parseGUID(text)
	if err != nil {
		return fmt.Errorf("hnsd: delete namespace: %w", err)
	}
	if err := s.dropNamespace(id); err != nil {
		return fmt.Errorf("hnsd: delete namespace %s: %w", text, err)
	}
	return nil
}

// changing are the calls of the DLLs that change what becomes of packets.
var changing = []string{"HcnCreateEndpoint", "HcnModifyEndpoint", "HcnDeleteEndpoint", "HcnModifyNetwork", "HcnModifyNamespace"}

// Observe has seen run after each call of the DLLs that may change what becomes of
// packets, before it is answered and before the next such call is carried out. So it
// sees every state that there ever is. nil, as at first: nobody observes.
func (s *Server) Observe(seen func(export string)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.habits.seen = seen
}

// observed does a call and has it seen.
func (s *Server) observed(h habits, export string, do func() (reply, error)) (reply, error) {
	if h.seen == nil || !slices.Contains(changing, export) {
		return do()
	}
	s.seeing.Lock()
	defer s.seeing.Unlock()
	defer h.seen(export)
	return do()
}
