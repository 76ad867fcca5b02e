package hcsadapter

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/winnpm/winnpm/pkg/hns"
)

// policyTypeSet is the Type of a network policy that is an ip set.
const policyTypeSet = "SetPolicy"

// network is a network as HNS shows it.
type network struct {
	ID, Name string
	Type     string
	Policies []hns.EndpointPolicy // network policies have the same fields as endpoint policies
}

// endpoint is an endpoint as HNS shows it.
type endpoint struct {
	ID, HostComputeNetwork string // GUIDs
	HostComputeNamespace   string // GUID, or empty
	Flags                  uint32
	IPConfigurations       []ipConfig `json:"IpConfigurations"`
	Policies               []hns.EndpointPolicy
}

type ipConfig struct {
	IPAddress string `json:"IpAddress"`
}

// remoteEndpoint is the flag of an endpoint of another node.
const remoteEndpoint = 1

func (e endpoint) remote() bool { return e.Flags&remoteEndpoint != 0 }

// has reports whether the endpoint has an address for which is returns true.
func (e endpoint) has(is func(netip.Addr) bool) bool {
	return slices.ContainsFunc(e.decode().Addrs, is)
}

// request changes policies.
type request struct {
	ResourceType string
	RequestType  hns.Verb
	Settings     policies
}

// policies is the Settings of a request. Without policies it is encoded as {}, which makes an
// Update clear an endpoint.
type policies struct {
	Policies []policy `json:",omitempty"`
}

type policy struct {
	Type     string
	Settings any `json:",omitempty"`
}

// setSettings is a set on the wire (SetPolicySetting of HNS_Schema.md).
type setSettings struct {
	ID     string `json:"Id"`
	Name   string
	Type   hns.SetType `json:"PolicyType"`
	Values string
}

// encodeSets returns a request for sets.
func encodeSets(verb hns.Verb, sets []hns.SetPolicy) string {
	list := make([]policy, len(sets))
	for i, s := range sets {
		list[i] = policy{policyTypeSet, setSettings{ID: s.ID, Name: s.Name, Type: s.Type, Values: strings.Join(s.Values, ",")}}
	}
	text, err := encode(request{"Policy", verb, policies{list}})
	if err != nil {
		panic("BUG: a set always encodes: " + err.Error())
	}
	return text
}

// encodePolicies returns a request for endpoint policies. It fails when the
// settings of one are no JSON.
func encodePolicies(verb hns.Verb, list []hns.EndpointPolicy) (string, error) {
	var out policies
	for _, p := range list {
		sent := policy{Type: p.Type}
		if len(p.Settings) > 0 {
			sent.Settings = p.Settings
		}
		out.Policies = append(out.Policies, sent)
	}
	text, err := encode(request{"Policy", verb, out})
	if err != nil {
		return "", fmt.Errorf("encode endpoint policies: %w", err)
	}
	return text, nil
}

// encode returns JSON in which raw JSON keeps its bytes, except for blanks between tokens.
func encode(v any) (string, error) {
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return "", err
	}
	return strings.TrimSuffix(out.String(), "\n"), nil
}

// hcnQuery returns an HCN query for the objects that match a filter, or for all objects if it is
// empty.
func hcnQuery(filter string) string {
	type version struct{ Major, Minor int }
	text, err := json.Marshal(struct {
		SchemaVersion version
		Filter        string `json:",omitempty"`
	}{version{Major: 2}, filter})
	if err != nil {
		panic("BUG: a query always encodes: " + err.Error())
	}
	return string(text)
}

// filter returns an HCN filter: a JSON object with one key.
func filter[T string | int](key string, value T) string {
	text, err := json.Marshal(map[string]T{key: value})
	if err != nil {
		panic("BUG: a filter always encodes: " + err.Error())
	}
	return string(text)
}

// decode returns the network with the sets of every owner.
func (n network) decode() hns.Network {
	out := hns.Network{ID: n.ID, Name: n.Name}
	for _, p := range n.Policies {
		if p.Type != policyTypeSet {
			continue
		}
		var s setSettings
		if err := json.Unmarshal(p.Settings, &s); err != nil && s.ID == "" {
			continue // a set without Id can be neither used nor removed
		}
		// A set with unknown parts keeps the readable ones. If it is ours it differs from the
		// desired set, and is written again.
		set := hns.SetPolicy{ID: s.ID, Name: s.Name, Type: s.Type}
		if s.Values != "" {
			set.Values = strings.Split(s.Values, ",")
		}
		out.Sets = append(out.Sets, set)
	}
	return out
}

// hasOurs reports whether the network has one of our sets.
func (n network) hasOurs() bool {
	return slices.ContainsFunc(n.decode().Sets, func(s hns.SetPolicy) bool {
		return strings.HasPrefix(strings.ToLower(s.ID), hns.SetIDPrefix)
	})
}

// lacks returns a function that reports whether the network has no set with an Id.
func (n network) lacks() func(id string) bool {
	there := map[string]bool{}
	for _, s := range n.decode().Sets {
		there[s.ID] = true
	}
	return func(id string) bool { return !there[id] }
}

// decode returns the endpoint. It omits addresses that do not parse.
func (e endpoint) decode() hns.Endpoint {
	out := hns.Endpoint{ID: e.ID, Netns: e.HostComputeNamespace}
	for _, c := range e.IPConfigurations {
		if addr, err := netip.ParseAddr(c.IPAddress); err == nil {
			out.Addrs = append(out.Addrs, addr)
		}
	}
	for _, p := range e.Policies {
		out.Policies = append(out.Policies, hns.EndpointPolicy{Type: p.Type, Settings: stable(p.Settings)})
	}
	return out
}

// stable returns a copy of JSON without blanks between tokens. Requests are encoded without such
// blanks too. So policies that a caller reads and sends back reach HNS with the same bytes, and are
// the same in the next read.
func stable(raw json.RawMessage) json.RawMessage {
	var out bytes.Buffer
	if json.Compact(&out, raw) != nil {
		return slices.Clone(raw) // not JSON, so it cannot be sent back anyway
	}
	return out.Bytes()
}
