package hnsd

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/test/hnsfault"
)

// network is one HNS network of the node, with its endpoints in a simulator of
// its own.
type network struct {
	id, name string
	shown    settings
	sim      *hnsfault.Sim
}

const policyTypeSet = "SetPolicy"

// setSettings are those of a SetPolicy (hcsshim hcn SetPolicySetting).
type setSettings struct {
	ID         string `json:"Id"`
	Name       string
	PolicyType hns.SetType
	Values     string // separated by commas
}

func newNetwork(id, name string, shown settings, foreign []hns.EndpointPolicy) *network {
	return &network{
		id: id, name: name, shown: shown,
		sim: hnsfault.New(hnsfault.Options{Network: name, ID: id, Foreign: foreign}),
	}
}

// listNetworks returns the networks that are there.
func (s *Server) listNetworks() []*network {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.networks)
}

func (s *Server) networkObjects() (all []object) {
	for _, n := range s.listNetworks() {
		all = append(all, object{
			id: n.id, name: n.name, in: n, show: n.show, modify: n.modify,
			remove: func() error { return s.removeNetwork(n) },
		})
	}
	return all
}

// show shows sets beside a policy that is none. A type that is left out means NAT to hcsshim, so
// it never is.
func (n *network) show(ctx context.Context) (settings, error) {
	read, err := n.sim.Network(ctx)
	if err != nil {
		return nil, err
	}
	all := []hns.EndpointPolicy{{Type: "NetAdapterName", Settings: []byte(`{"NetworkAdapterName":"Ethernet"}`)}}
	for _, p := range read.Sets {
		set := encode(setSettings{p.ID, p.Name, p.Type, strings.Join(p.Values, ",")})
		all = append(all, hns.EndpointPolicy{Type: policyTypeSet, Settings: []byte(set.Output)})
	}
	out := maps.Clone(n.shown)
	out["Name"], out["Policies"], out["State"], out["Version"] = n.name, all, 1, 0xF00000000
	return out, nil
}

// modification is a Modify request of any kind.
type modification struct {
	ResourceType, RequestType string
	Settings                  json.RawMessage
}

// parsePolicies reads a request for policies. Settings without any policy are
// an empty object: clients leave the list out then.
func parsePolicies(text string) (hns.Verb, []hns.EndpointPolicy, error) {
	var m modification
	if err := decode(text, &m); err != nil {
		return "", nil, err
	}
	if m.ResourceType != "Policy" {
		return "", nil, refuse(codeRequestUnsupported, "resource type %q", m.ResourceType)
	}
	var p struct{ Policies []hns.EndpointPolicy } // of networks too: they have the same shape
	return hns.Verb(m.RequestType), p.Policies, decode(string(m.Settings), &p)
}

func (n *network) modify(ctx context.Context, request string) error {
	verb, list, err := parsePolicies(request)
	if err != nil {
		return err
	}
	sets := make([]hns.SetPolicy, len(list))
	for i, p := range list {
		if p.Type != policyTypeSet {
			return refuse(codeInvalidArgument, "a network policy of type %q", p.Type)
		}
		var s setSettings
		if err := decode(string(p.Settings), &s); err != nil {
			return err
		}
		sets[i] = hns.SetPolicy{ID: s.ID, Name: s.Name, Type: s.PolicyType}
		if s.Values != "" {
			sets[i].Values = strings.Split(s.Values, ",")
		}
	}
	return n.sim.ModifySets(ctx, verb, sets)
}

func (s *Server) createNetwork(id string, shown settings) error {
	name, _ := shown["Name"].(string)
	if name == "" {
		return refuse(codeInvalidJSON, "a network without a name")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if slices.ContainsFunc(s.networks, func(n *network) bool { return n.id == id || n.name == name }) {
		return refuse(codeNetworkExists, "network %s is there", name)
	}
	made := newNetwork(id, name, shown, nil)
	made.sim.SetPersonality(s.personality)
	s.networks = append(s.networks, made)
	return nil
}

// removeNetwork refuses to take endpoints along, and the node's own network.
func (s *Server) removeNetwork(n *network) error {
	if left := len(n.sim.Endpoints()); left > 0 || n == s.own {
		return refuse(codeHasReferences, "network %s has %d endpoints, or is the node's own", n.name, left)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.networks = slices.DeleteFunc(s.networks, func(o *network) bool { return o == n })
	return nil
}
