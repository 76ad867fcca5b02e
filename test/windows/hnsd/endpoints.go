package hnsd

import (
	"cmp"
	"context"
	"encoding/json"
	"net/netip"
	"slices"
	"strings"

	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/tool/hnssim"
)

// remoteFlag marks an endpoint of another node (hcn EndpointFlagsRemoteEndpoint).
const remoteFlag = 1

type ipConfig struct {
	IPAddress    string `json:"IpAddress"`
	PrefixLength uint8
}

// endpointSettings is what a client says when it makes an endpoint.
type endpointSettings struct {
	ID                   string
	Name                 string
	HostComputeNetwork   string
	HostComputeNamespace string `json:",omitempty"`
	Policies             []hns.EndpointPolicy
	IPConfigurations     []ipConfig      `json:"IpConfigurations"`
	DNS                  json.RawMessage `json:"Dns,omitempty"`
	Routes               json.RawMessage `json:",omitempty"`
	MacAddress           string
	Flags                uint32
	Health               json.RawMessage `json:",omitempty"`
	SchemaVersion        schemaVersion
}

// endpointView is an endpoint as HNS shows it.
type endpointView struct {
	endpointSettings
	State   hnssim.EndpointState
	Version uint64
	Owner   string
}

// endpoint finds an endpoint by its GUID in the networks that are there.
func (s *Server) endpoint(id guid) (*network, hnssim.EndpointView, error) {
	for _, n := range s.listNetworks() {
		for _, text := range []string{id.String(), strings.ToLower(id.String())} {
			if e, ok := n.sim.Endpoint(text); ok {
				return n, e, nil
			}
		}
	}
	return nil, hnssim.EndpointView{}, refuse(codeEndpointNotFound, "the endpoint was not found: %v", id)
}

// endpointOf finds the endpoint that the handle of r stands for.
func (s *Server) endpointOf(r request) (*network, hnssim.EndpointView, error) {
	id, err := s.object(r, kindEndpoint)
	if err != nil {
		return nil, hnssim.EndpointView{}, err
	}
	return s.endpoint(id)
}

// networkID returns the GUID of the network that e, found in n, is in: a test
// may put it into another one than n, which need not exist.
func networkID(n *network, e hnssim.EndpointView) guid {
	if e.Network == n.name {
		return n.id
	}
	return guidOf("network " + e.Network)
}

func (s *Server) enumerateEndpoints(_ context.Context, r request) (reply, error) {
	f, err := s.filterOf(r.text[0])
	if err != nil {
		return reply{}, err
	}
	ids := []string{}
	for _, n := range s.listNetworks() {
		for _, e := range n.sim.Endpoints() {
			id, err := parseGUID(e.ID)
			if err != nil {
				return reply{}, err
			}
			if matchesID(f.ID, e.ID) && matches(f.Name, s.endpointName(id)) &&
				(f.State == nil || hnssim.EndpointState(*f.State) == e.State) &&
				matchesID(f.VirtualNetwork, networkID(n, e).String()) {
				ids = append(ids, id.String())
			}
		}
	}
	return encode(ids), nil
}

func (s *Server) endpointName(id guid) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.made[id].Name
}

func (s *Server) openEndpoint(_ context.Context, r request) (reply, error) {
	if _, _, err := s.endpoint(r.id); err != nil {
		return reply{}, err
	}
	return s.opened(r, kindEndpoint, r.id), nil
}

func (s *Server) queryEndpoint(ctx context.Context, r request) (reply, error) {
	n, e, err := s.endpointOf(r)
	if err != nil {
		return reply{}, err
	}
	if _, err := parseQuery(r.text[0]); err != nil {
		return reply{}, err
	}
	read, err := n.sim.QueryEndpoint(ctx, e.ID)
	if err != nil {
		return reply{}, err
	}
	id, err := parseGUID(e.ID)
	if err != nil {
		return reply{}, err
	}
	s.mu.Lock()
	made := s.made[id]
	s.mu.Unlock()
	view := endpointView{State: e.State, Version: 0xF00000000}
	view.ID, view.Name, view.SchemaVersion = e.ID, made.Name, v2
	view.HostComputeNetwork = networkID(n, e).String()
	view.HostComputeNamespace = s.namespaceOf(id)
	view.MacAddress = cmp.Or(made.MacAddress, "00-15-5D-00-00-01")
	view.DNS, view.Routes = made.DNS, made.Routes
	if e.Remote {
		view.Flags = remoteFlag
	}
	view.Policies = read.Policies
	for _, a := range read.Addrs {
		view.IPConfigurations = append(view.IPConfigurations, ipConfig{a.String(), n.bits()})
	}
	return encode(view), nil
}

// aclKeys are those of a rule that is added; settings that HNS showed, and that
// come back in an Update, have Scope and Type besides.
var aclKeys = []string{
	"Id", "Protocols", "Action", "Direction", "LocalAddresses", "RemoteAddresses",
	"LocalPorts", "RemotePorts", "RuleType", "Priority", "Scope", "Type",
}

func (s *Server) modifyEndpoint(ctx context.Context, r request) (reply, error) {
	n, e, err := s.endpointOf(r)
	if err != nil {
		return reply{}, err
	}
	verb, list, err := parsePolicies(r.text[0])
	if err != nil {
		return reply{}, err
	}
	acls := make([]hns.ACL, 0, len(list))
	for _, p := range list {
		if p.Type != hns.PolicyTypeACL {
			continue
		}
		if err := checkKeys(p.Settings, aclKeys...); err != nil {
			return reply{}, err
		}
		a, err := p.ACL()
		if err != nil {
			return reply{}, refuse(codeInvalidJSON, "%v", err)
		}
		acls = append(acls, a)
	}
	switch {
	case verb == hns.Update:
		return reply{}, n.sim.ReplacePolicies(ctx, e.ID, list)
	case verb == hns.Add && len(acls) == len(list):
		return reply{}, n.sim.AddACLs(ctx, e.ID, acls)
	}
	return reply{}, refuse(codeRequestUnsupported, "%s of these endpoint policies", verb)
}

func (s *Server) createEndpoint(_ context.Context, r request) (reply, error) {
	n, err := s.networkOf(r)
	if err != nil {
		return reply{}, err
	}
	var settings endpointSettings
	if err := decode(r.text[0], &settings); err != nil {
		return reply{}, err
	}
	id, err := s.chooseID(r.id, settings.ID)
	if err != nil {
		return reply{}, err
	}
	e := hnssim.NewEndpoint{ID: id.String(), State: hnssim.Created, Policies: settings.Policies}
	if settings.Flags&remoteFlag != 0 {
		// Strict: only the flag tells it from a pod's.
		e.Remote, e.State = true, hnssim.AttachedSharing
	}
	for _, c := range settings.IPConfigurations {
		a, err := netip.ParseAddr(c.IPAddress)
		if err != nil {
			return reply{}, refuse(codeInvalidIP, "%v", err)
		}
		if n.subnet.IsValid() && !n.subnet.Contains(a) {
			return reply{}, refuse(codeAddressInvalid, "%v is not in %v", a, n.subnet)
		}
		if s.current().once && n.has(a) {
			return reply{}, refuse(codeAddressInvalid, "%v is taken", a)
		}
		e.Addrs = append(e.Addrs, a)
	}
	if err := n.sim.CreateEndpoint(e); err != nil {
		return reply{}, err
	}
	s.mu.Lock()
	s.made[id] = settings
	s.mu.Unlock()
	return s.opened(r, kindEndpoint, id), nil
}

// has reports whether an endpoint has an address.
func (n *network) has(a netip.Addr) bool {
	return slices.ContainsFunc(n.sim.Endpoints(), func(e hnssim.EndpointView) bool { return slices.Contains(e.Addrs, a) })
}

func (s *Server) deleteEndpoint(_ context.Context, r request) (reply, error) {
	n, e, err := s.endpoint(r.id)
	if err != nil {
		return reply{}, err
	}
	if err := n.sim.DeleteEndpoint(e.ID); err != nil {
		return reply{}, refuse(codeEndpointNotFound, "%v", err) // somebody was faster
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.made, r.id)
	for _, space := range s.spaces {
		space.remove(r.id)
	}
	return reply{}, nil
}
