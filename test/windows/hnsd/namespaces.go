package hnsd

import (
	"context"
	"maps"
	"slices"

	"github.com/winnpm/winnpm/tool/hnssim"
)

// createNamespace makes a network namespace, a compartment.
func (s *Server) createNamespace(id string, shown settings) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.spaces[id] != nil {
		return refuse(codeInvalidArgument, "namespace %s is there", id)
	}
	s.lastID++
	shown["NamespaceId"] = 1 + s.lastID // 1 is the host's own
	s.spaces[id] = shown
	return nil
}

func (s *Server) namespaceObjects() (all []object) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, id := range slices.Sorted(maps.Keys(s.spaces)) {
		all = append(all, object{
			id:     id,
			show:   func(context.Context) (settings, error) { return s.showNamespace(id), nil },
			modify: func(_ context.Context, request string) error { return s.modifyNamespace(id, request) },
			remove: func() error { return s.removeNamespace(id) },
		})
	}
	return all
}

// inside returns the endpoints that are attached to a namespace; s.mu must be held.
func (s *Server) inside(id string) (all []string) {
	for endpoint, in := range s.in {
		if in == id {
			all = append(all, endpoint)
		}
	}
	return all
}

func (s *Server) showNamespace(id string) settings {
	s.mu.Lock()
	defer s.mu.Unlock()
	var resources []settings
	for _, endpoint := range s.inside(id) {
		resources = append(resources, settings{"Type": "Endpoint", "Data": settings{"ID": endpoint}})
	}
	out := settings{"Resources": resources}
	maps.Copy(out, s.spaces[id])
	return out
}

// modifyNamespace attaches an endpoint or takes it off.
func (s *Server) modifyNamespace(id, request string) error {
	var m modification
	if err := decode(request, &m); err != nil {
		return err
	}
	if m.ResourceType != "Endpoint" || m.RequestType != "Add" && m.RequestType != "Remove" {
		return refuse(codeRequestUnsupported, "%s of a %s", m.RequestType, m.ResourceType)
	}
	var asked struct{ EndpointID string }
	if err := decode(string(m.Settings), &asked); err != nil {
		return err
	}
	e, err := s.find(kindEndpoint, asked.EndpointID)
	if err != nil {
		return err
	}
	state := hnssim.Detached
	s.mu.Lock()
	switch taken := s.in[e.id]; {
	case m.RequestType == "Add" && taken != "":
		err = refuse(codeEndpointAttached, "endpoint %s is attached to %s", e.id, taken)
	case m.RequestType == "Add":
		state = hnssim.AttachedSharing
		s.in[e.id] = id
	case taken != id:
		err = refuse(codeEndpointNotFound, "endpoint %s is not attached to %s", e.id, id)
	default:
		delete(s.in, e.id)
	}
	s.mu.Unlock()
	if err != nil {
		return err
	}
	return e.in.sim.SetState(e.id, state)
}

// removeNamespace refuses to leave endpoints behind.
func (s *Server) removeNamespace(id string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if left := len(s.inside(id)); left > 0 {
		return refuse(codeHasReferences, "namespace %s has %d endpoints", id, left)
	}
	delete(s.spaces, id)
	return nil
}
