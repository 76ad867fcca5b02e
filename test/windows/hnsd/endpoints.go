package hnsd

import (
	"context"
	"encoding/json"
	"maps"
	"net/netip"

	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/tool/hnssim"
)

// remoteFlag marks an endpoint of another node (hcn EndpointFlagsRemoteEndpoint).
const remoteFlag = 1

type ipConfig struct {
	IPAddress    netip.Addr `json:"IpAddress"`
	PrefixLength int
}

func (s *Server) endpointObjects() (all []object) {
	for _, n := range s.listNetworks() {
		for _, e := range n.sim.Endpoints() {
			s.mu.Lock()
			made := s.made[e.ID]
			s.mu.Unlock()
			name, _ := made["Name"].(string)
			all = append(all, object{
				id: e.ID, name: name, in: n, state: e.State,
				show:   func(ctx context.Context) (settings, error) { return s.showEndpoint(ctx, n, e, made) },
				modify: func(ctx context.Context, request string) error { return modifyEndpoint(ctx, n, e.ID, request) },
				remove: func() error { return s.removeEndpoint(n, e.ID) },
			})
		}
	}
	return all
}

func (s *Server) showEndpoint(ctx context.Context, n *network, e hnssim.EndpointView, made settings) (settings, error) {
	read, err := n.sim.QueryEndpoint(ctx, e.ID)
	if err != nil {
		return nil, err
	}
	configs := []ipConfig{}
	for _, a := range read.Addrs {
		configs = append(configs, ipConfig{a, 16})
	}
	out := settings{"MacAddress": "00-15-5D-00-00-01", "Flags": 0}
	maps.Copy(out, made)
	if e.Remote {
		out["Flags"] = remoteFlag
	}
	out["HostComputeNetwork"], out["Policies"], out["IpConfigurations"] = n.id, read.Policies, configs
	out["State"], out["Version"] = e.State, 0xF00000000
	s.mu.Lock()
	defer s.mu.Unlock()
	out["HostComputeNamespace"] = s.in[e.ID]
	return out, nil
}

func modifyEndpoint(ctx context.Context, n *network, id, request string) error {
	verb, list, err := parsePolicies(request)
	if err != nil {
		return err
	}
	if verb == hns.Update {
		return n.sim.ReplacePolicies(ctx, id, list)
	}
	acls := make([]hns.ACL, len(list))
	for i, p := range list {
		if verb != hns.Add || p.Type != hns.PolicyTypeACL {
			return refuse(codeRequestUnsupported, "%s of a %s", verb, p.Type)
		}
		if acls[i], err = p.ACL(); err != nil {
			return refuse(codeInvalidJSON, "%w", err)
		}
	}
	return n.sim.AddACLs(ctx, id, acls)
}

func (s *Server) createEndpoint(id string, shown settings, r request) error {
	network, err := s.held(r, kindNetwork)
	if err != nil {
		return err
	}
	var asked struct {
		Policies         []hns.EndpointPolicy
		IPConfigurations []ipConfig `json:"IpConfigurations"`
		Flags            uint32
	}
	if err := json.Unmarshal([]byte(r.text[0]), &asked); err != nil {
		return refuse(codeInvalidJSON, "%w", err)
	}
	e := hnssim.NewEndpoint{ID: id, State: hnssim.Created, Policies: asked.Policies}
	if asked.Flags&remoteFlag != 0 {
		// Strict: only the flag tells it from a pod's.
		e.Remote, e.State = true, hnssim.AttachedSharing
	}
	for _, c := range asked.IPConfigurations {
		e.Addrs = append(e.Addrs, c.IPAddress)
	}
	if err := network.in.sim.CreateEndpoint(e); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.made[id] = shown
	return nil
}

func (s *Server) removeEndpoint(n *network, id string) error {
	if err := n.sim.DeleteEndpoint(id); err != nil {
		return refuse(codeEndpointNotFound, "%w", err) // another call was faster
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.made, id)
	delete(s.in, id)
	return nil
}
