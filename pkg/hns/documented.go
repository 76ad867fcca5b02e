package hns

import (
	"bytes"
	"encoding/json"
	"strings"
)

// documented has the fields that an ACL has by the documentation of HNS (hcsshim
// hcn/hcnpolicy.go AclPolicySetting) and the Id, which HNS takes and shows though it is not
// there. Each keeps its value byte for byte.
type documented struct {
	ID              json.RawMessage `json:"Id,omitempty"`
	Protocols       json.RawMessage `json:",omitempty"`
	Action          json.RawMessage `json:",omitempty"`
	Direction       json.RawMessage `json:",omitempty"`
	LocalAddresses  json.RawMessage `json:",omitempty"`
	RemoteAddresses json.RawMessage `json:",omitempty"`
	LocalPorts      json.RawMessage `json:",omitempty"`
	RemotePorts     json.RawMessage `json:",omitempty"`
	RuleType        json.RawMessage `json:",omitempty"`
	Priority        json.RawMessage `json:",omitempty"`
}

// Documented returns an ACL policy cut to the fields that are documented, in their order,
// each value as it was read but for blanks: HNS shows more fields (Scope, Type;
// azure-container-networking#1752) and may refuse them when they go back. Keys count without
// letter case, of several the last, and are written as documented. It returns the policy
// itself and false when nothing is to be cut, and when the policy is no ACL or its settings
// are no JSON object.
func (p EndpointPolicy) Documented() (EndpointPolicy, bool) {
	var all, kept map[string]json.RawMessage
	var fields documented
	if !strings.EqualFold(p.Type, PolicyTypeACL) || json.Unmarshal(p.Settings, &all) != nil || json.Unmarshal(p.Settings, &fields) != nil {
		return p, false
	}
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	if e.Encode(fields) != nil || json.Unmarshal(out.Bytes(), &kept) != nil || len(kept) == len(all) {
		return p, false
	}
	p.Settings = bytes.TrimSuffix(out.Bytes(), []byte("\n"))
	return p, true
}
