package hnsd

import (
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/test/hnsfault"
)

// network is one HNS network of the node, with its endpoints in a simulator of
// its own.
type network struct {
	id       guid
	name     string
	settings networkSettings
	subnet   netip.Prefix // zero: not known
	sim      *hnsfault.Sim
}

// bits is the length of the prefix that its endpoints have.
func (n *network) bits() uint8 {
	if n.subnet.IsValid() {
		return uint8(n.subnet.Bits())
	}
	return 16
}

// ipamOf is how HNS shows the subnet of a network; nil: it has none.
func ipamOf(subnet netip.Prefix) json.RawMessage {
	if !subnet.IsValid() {
		return nil
	}
	gateway := subnet.Masked().Addr().Next()
	return fmt.Appendf(nil, `[{"Type":"Static","Subnets":[{"IpAddressPrefix":%q,"Routes":[{"NextHop":%q,"DestinationPrefix":"0.0.0.0/0"}]}]}]`, subnet, gateway)
}

// networkSettings is what a client says when it makes a network.
type networkSettings struct {
	ID            string `json:",omitempty"`
	Name          string
	Type          string
	Policies      []hns.EndpointPolicy
	MacPool       json.RawMessage `json:",omitempty"`
	DNS           json.RawMessage `json:"Dns,omitempty"`
	Ipams         json.RawMessage `json:",omitempty"`
	Flags         uint32
	Health        json.RawMessage `json:",omitempty"`
	SchemaVersion schemaVersion
}

// networkView is a network as HNS shows it. A type that is left out means NAT
// to hcsshim, so it never is.
type networkView struct {
	networkSettings
	State   int
	Version uint64
	Owner   string
}

const policyTypeSet = "SetPolicy"

// setSettings are those of a SetPolicy (hcsshim hcn SetPolicySetting).
type setSettings struct {
	ID         string `json:"Id"`
	Name       string
	PolicyType hns.SetType
	Values     string // separated by commas
}

func newNetwork(id guid, name string, settings networkSettings, foreign []hns.EndpointPolicy) *network {
	settings.ID, settings.Name, settings.SchemaVersion = id.String(), name, v2
	if settings.Type == "" {
		settings.Type = "L2Bridge"
	}
	if settings.Policies == nil {
		settings.Policies = []hns.EndpointPolicy{{
			Type: "NetAdapterName", Settings: []byte(`{"NetworkAdapterName":"Ethernet"}`),
		}}
	}
	return &network{
		id: id, name: name, settings: settings,
		sim: hnsfault.New(hnsfault.Options{Network: name, ID: id.String(), Foreign: foreign, Now: time.Now}),
	}
}

// listNetworks returns the networks that are there.
func (s *Server) listNetworks() []*network {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.hidden {
		return slices.Clone(s.networks[1:])
	}
	return slices.Clone(s.networks)
}

func (s *Server) network(id guid) (*network, error) {
	for _, n := range s.listNetworks() {
		if n.id == id {
			return n, nil
		}
	}
	return nil, refuse(codeNetworkNotFound, "the network was not found: %v", id)
}

func (s *Server) enumerateNetworks(_ context.Context, r request) (reply, error) {
	f, err := s.filterOf(r.text[0])
	if err != nil {
		return reply{}, err
	}
	if f.State != nil || f.VirtualNetwork != nil {
		return reply{}, refuse(codeInvalidArgument, "networks are filtered by Name and ID: %s", r.text[0])
	}
	ids := []string{}
	for _, n := range s.listNetworks() {
		if matches(f.Name, n.name) && matchesID(f.ID, n.id.String()) {
			ids = append(ids, n.id.String())
		}
	}
	return encode(ids), nil
}

func (s *Server) openNetwork(_ context.Context, r request) (reply, error) {
	if _, err := s.network(r.id); err != nil {
		return reply{}, err
	}
	return s.opened(r, kindNetwork, r.id), nil
}

// networkOf returns the network that the handle of r stands for.
func (s *Server) networkOf(r request) (*network, error) {
	id, err := s.object(r, kindNetwork)
	if err != nil {
		return nil, err
	}
	return s.network(id)
}

func (s *Server) queryNetwork(ctx context.Context, r request) (reply, error) {
	n, err := s.networkOf(r)
	if err != nil {
		return reply{}, err
	}
	if _, err := parseQuery(r.text[0]); err != nil {
		return reply{}, err
	}
	read, err := n.sim.Network(ctx)
	if err != nil {
		return reply{}, err
	}
	view := networkView{networkSettings: n.settings, State: 1, Version: 0xF00000000, Owner: ""}
	view.Policies = slices.Clone(view.Policies)
	for _, p := range read.Sets {
		settings := encode(setSettings{p.ID, p.Name, p.Type, strings.Join(p.Values, ",")})
		view.Policies = append(view.Policies, hns.EndpointPolicy{Type: policyTypeSet, Settings: []byte(*settings.output)})
	}
	return encode(view), nil
}

func (s *Server) modifyNetwork(ctx context.Context, r request) (reply, error) {
	n, err := s.networkOf(r)
	if err != nil {
		return reply{}, err
	}
	verb, list, err := parsePolicies(r.text[0])
	if err != nil {
		return reply{}, err
	}
	sets := make([]hns.SetPolicy, len(list))
	for i, p := range list {
		if p.Type != policyTypeSet {
			return reply{}, refuse(codeInvalidPolicyType, "a network policy of type %q", p.Type)
		}
		if sets[i], err = parseSet(p.Settings); err != nil {
			return reply{}, err
		}
	}
	return reply{}, n.sim.ModifySets(ctx, verb, sets)
}

func parseSet(settings json.RawMessage) (hns.SetPolicy, error) {
	if err := checkKeys(settings, "Id", "Name", "PolicyType", "Values"); err != nil {
		return hns.SetPolicy{}, err
	}
	var p setSettings
	if err := decode(string(settings), &p); err != nil {
		return hns.SetPolicy{}, err
	}
	set := hns.SetPolicy{ID: p.ID, Name: p.Name, Type: p.PolicyType}
	if p.Values != "" {
		set.Values = strings.Split(p.Values, ",")
	}
	return set, nil
}

func (s *Server) createNetwork(_ context.Context, r request) (reply, error) {
	var settings networkSettings
	if err := decode(r.text[0], &settings); err != nil {
		return reply{}, err
	}
	if settings.Name == "" {
		return reply{}, refuse(codeInvalidJSON, "a network without a name")
	}
	id, err := s.chooseID(r.id, settings.ID)
	if err != nil {
		return reply{}, err
	}
	s.mu.Lock()
	taken := slices.ContainsFunc(s.networks, func(n *network) bool { return n.id == id || n.name == settings.Name })
	if !taken {
		made := newNetwork(id, settings.Name, settings, nil)
		made.sim.SetPersonality(s.personality)
		s.networks = append(s.networks, made)
	}
	s.mu.Unlock()
	if taken {
		return reply{}, refuse(codeNetworkExists, "network %s is there", settings.Name)
	}
	return s.opened(r, kindNetwork, id), nil
}

// chooseID returns the GUID of a new object: what the caller gives as an
// argument or in the settings, or a new one.
func (s *Server) chooseID(arg guid, text string) (guid, error) {
	if arg != (guid{}) {
		return arg, nil
	}
	if text != "" {
		return parseGUID(text)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.newID(), nil
}

// deleteNetwork refuses to take endpoints along, and the node's own network.
func (s *Server) deleteNetwork(_ context.Context, r request) (reply, error) {
	n, err := s.network(r.id)
	if err != nil {
		return reply{}, err
	}
	if n == s.own {
		return reply{}, refuse(codeRequestUnsupported, "network %s is the node's own", n.name)
	}
	if left := len(n.sim.Endpoints()); left > 0 {
		return reply{}, refuse(codeHasReferences, "network %s has %d endpoints", n.name, left)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.networks = slices.DeleteFunc(s.networks, func(o *network) bool { return o == n })
	return reply{}, nil
}
