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

// policies is the Settings of a request. Without any it is {}, which is how an
// Update clears an endpoint.
type policies struct {
	Policies []policy `json:",omitempty"`
}

type policy struct {
	Type     string
	Settings json.RawMessage `json:",omitempty"`
}

// setSettings is a set on the wire (hcn.SetPolicySetting, HNS_Schema.md).
type setSettings struct {
	ID     string `json:"Id"`
	Name   string
	Type   hns.SetType `json:"PolicyType"`
	Values string
}

// encodeSets returns the Settings of a request for sets.
func encodeSets(sets []hns.SetPolicy) json.RawMessage {
	out := make([]hns.EndpointPolicy, len(sets))
	for i, s := range sets {
		settings, err := json.Marshal(setSettings{ID: s.ID, Name: s.Name, Type: s.Type, Values: strings.Join(s.Values, ",")})
		if err != nil {
			panic("BUG: a set always encodes: " + err.Error())
		}
		out[i] = hns.EndpointPolicy{Type: policyTypeSet, Settings: settings}
	}
	settings, err := encodePolicies(out)
	if err != nil {
		panic("BUG: an encoded set always encodes: " + err.Error())
	}
	return settings
}

// encodePolicies returns the Settings of a request for endpoint policies. It
// fails when the settings of one are no JSON.
func encodePolicies(list []hns.EndpointPolicy) (json.RawMessage, error) {
	var out policies
	for _, p := range list {
		out.Policies = append(out.Policies, policy{Type: p.Type, Settings: p.Settings})
	}
	settings, err := json.Marshal(out)
	if err != nil {
		return nil, fmt.Errorf("encode endpoint policies: %w", err)
	}
	return settings, nil
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
	out := hns.Network{ID: n.id, Name: n.name}
	for _, p := range n.policies {
		if p.Type != policyTypeSet {
			continue
		}
		var s setSettings
		if err := json.Unmarshal(p.Settings, &s); err != nil && s.ID == "" {
			continue // a set without Id cannot be named by anybody
		}
		// Of a set that is partly of an unknown form the rest counts: when it is
		// ours it differs from what it should be and is written again.
		set := hns.SetPolicy{ID: s.ID, Name: s.Name, Type: s.Type}
		if s.Values != "" {
			set.Values = strings.Split(s.Values, ",")
		}
		out.Sets = append(out.Sets, set)
	}
	return out
}

// lacks returns a test for sets that the network does not have, by Id.
func (n network) lacks() func(id string) bool {
	there := map[string]bool{}
	for _, s := range n.decode().Sets {
		there[s.ID] = true
	}
	return func(id string) bool { return !there[id] }
}

// decode returns the endpoint. An address that does not parse is none.
func (e endpoint) decode() hns.Endpoint {
	out := hns.Endpoint{ID: e.id}
	for _, text := range e.addrs {
		if addr, err := netip.ParseAddr(text); err == nil {
			out.Addrs = append(out.Addrs, addr)
		}
	}
	for _, p := range e.policies {
		out.Policies = append(out.Policies, hns.EndpointPolicy{Type: p.Type, Settings: stable(p.Settings)})
	}
	return out
}

// stable returns JSON in the form in which encoding/json sends it, in memory of
// its own: without blanks between tokens, and with <, >, & and the two line
// separators of Unicode escaped. hcn encodes every request with encoding/json,
// which does just that to raw JSON. As it is done when reading, what a caller
// reads is what HNS gets byte for byte when the caller sends it back, and what
// it reads after that. Against the first spelling in HNS only those blanks and
// escapes may differ: values, the order of keys and the spelling of numbers
// stay.
func stable(raw json.RawMessage) json.RawMessage {
	var compact bytes.Buffer
	if json.Compact(&compact, raw) != nil {
		return slices.Clone(raw) // no JSON at all, so no policy for anybody to send
	}
	var out bytes.Buffer
	json.HTMLEscape(&out, compact.Bytes())
	return out.Bytes()
}
