package hnsd

import (
	"bytes"
	"context"
	"maps"
	"slices"

	"github.com/winnpm/winnpm/tool/hnssim"
)

// namespace is one network namespace of Windows, a compartment.
type namespace struct {
	number    int
	kind      string
	endpoints []guid
}

func (n *namespace) remove(endpoint guid) {
	n.endpoints = slices.DeleteFunc(n.endpoints, func(id guid) bool { return id == endpoint })
}

// namespaceView is a namespace as clients send it and as HNS shows it.
type namespaceView struct {
	ID            string `json:",omitempty"`
	NamespaceID   int    `json:"NamespaceId"`
	Type          string
	Resources     []namespaceResource `json:",omitempty"`
	SchemaVersion schemaVersion
}

type namespaceResource struct {
	Type string
	Data struct{ ID string }
}

// namespaceOf returns the GUID of the namespace that an endpoint is attached
// to; empty: none.
func (s *Server) namespaceOf(endpoint guid) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, n := range s.spaces {
		if slices.Contains(n.endpoints, endpoint) {
			return id.String()
		}
	}
	return ""
}

func (s *Server) enumerateNamespaces(_ context.Context, r request) (reply, error) {
	f, err := parseQuery(r.text[0])
	if err != nil {
		return reply{}, err
	}
	if f.Name != nil || f.State != nil || f.VirtualNetwork != nil {
		return reply{}, refuse(codeInvalidArgument, "namespaces are filtered by ID: %s", r.text[0])
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	ids := []string{}
	byBytes := func(a, b guid) int { return bytes.Compare(a[:], b[:]) }
	for _, id := range slices.SortedFunc(maps.Keys(s.spaces), byBytes) {
		if matchesID(f.ID, id.String()) {
			ids = append(ids, id.String())
		}
	}
	return encode(ids), nil
}

// space finds a namespace; s.mu must be held.
func (s *Server) space(id guid) (*namespace, error) {
	n := s.spaces[id]
	if n == nil {
		return nil, refuse(codeElementNotFound, "Element not found. %v", id)
	}
	return n, nil
}

func (s *Server) openNamespace(_ context.Context, r request) (reply, error) {
	s.mu.Lock()
	_, err := s.space(r.id)
	s.mu.Unlock()
	if err != nil {
		return reply{}, err
	}
	return s.opened(r, kindNamespace, r.id), nil
}

func (s *Server) queryNamespace(_ context.Context, r request) (reply, error) {
	id, err := s.object(r, kindNamespace)
	if err != nil {
		return reply{}, err
	}
	if _, err := parseQuery(r.text[0]); err != nil {
		return reply{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	n, err := s.space(id)
	if err != nil {
		return reply{}, err
	}
	view := namespaceView{ID: id.String(), NamespaceID: n.number, Type: n.kind, SchemaVersion: v2}
	for _, endpoint := range n.endpoints {
		res := namespaceResource{Type: "Endpoint"}
		res.Data.ID = endpoint.String()
		view.Resources = append(view.Resources, res)
	}
	return encode(view), nil
}

func (s *Server) createNamespace(_ context.Context, r request) (reply, error) {
	var settings namespaceView
	if err := decode(r.text[0], &settings); err != nil {
		return reply{}, err
	}
	id, err := s.chooseID(r.id, settings.ID)
	if err != nil {
		return reply{}, err
	}
	s.mu.Lock()
	taken := s.spaces[id] != nil
	if !taken {
		s.compartments++
		s.spaces[id] = &namespace{number: 1 + s.compartments, kind: settings.Type} // 1 is the host's own
	}
	s.mu.Unlock()
	if taken {
		return reply{}, refuse(codeInvalidArgument, "namespace %v is there", id)
	}
	return s.opened(r, kindNamespace, id), nil
}

// modifyNamespace attaches an endpoint or takes it off.
func (s *Server) modifyNamespace(_ context.Context, r request) (reply, error) {
	spaceID, err := s.object(r, kindNamespace)
	if err != nil {
		return reply{}, err
	}
	var m modification
	if err := decode(r.text[0], &m); err != nil {
		return reply{}, err
	}
	if m.ResourceType != "Endpoint" || m.RequestType != "Add" && m.RequestType != "Remove" {
		return reply{}, refuse(codeRequestUnsupported, "%s of a %s", m.RequestType, m.ResourceType)
	}
	var settings struct{ EndpointID string }
	if err := decode(string(m.Settings), &settings); err != nil {
		return reply{}, err
	}
	id, err := parseGUID(settings.EndpointID)
	if err != nil {
		return reply{}, err
	}
	n, e, err := s.endpoint(id)
	if err != nil {
		return reply{}, err
	}
	add := m.RequestType == "Add"
	if err := s.attach(spaceID, id, add); err != nil {
		return reply{}, err
	}
	state := hnssim.Detached
	if add {
		state = hnssim.AttachedSharing
	}
	return reply{}, n.sim.SetState(e.ID, state)
}

// attach notes that an endpoint is in a namespace, or is there no more.
func (s *Server) attach(spaceID, endpoint guid, add bool) error {
	taken := s.namespaceOf(endpoint)
	s.mu.Lock()
	defer s.mu.Unlock()
	n, err := s.space(spaceID)
	switch {
	case err != nil:
		return err
	case add && taken != "":
		return refuse(codeEndpointAttached, "endpoint %v is attached to %s", endpoint, taken)
	case add:
		n.endpoints = append(n.endpoints, endpoint)
	case taken != spaceID.String():
		return refuse(codeEndpointNotFound, "endpoint %v is not attached to %v", endpoint, spaceID)
	default:
		n.remove(endpoint)
	}
	return nil
}

func (s *Server) deleteNamespace(_ context.Context, r request) (reply, error) {
	return reply{}, s.dropNamespace(r.id)
}

// dropNamespace refuses to leave endpoints behind.
func (s *Server) dropNamespace(id guid) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	n, err := s.space(id)
	if err != nil {
		return err
	}
	if len(n.endpoints) > 0 {
		return refuse(codeHasReferences, "namespace %v has %d endpoints", id, len(n.endpoints))
	}
	delete(s.spaces, id)
	return nil
}
