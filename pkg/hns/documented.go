package hns

import (
	"bytes"
	"encoding/json"
	"strings"
)

// documented has the documented fields of an ACL (hcsshim hcn/hcnpolicy.go AclPolicySetting) and
// the Id, which is not documented but which HNS accepts and shows. Each field keeps its value byte
// for byte.
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

// Documented returns an ACL policy with only its documented fields, in their order. Each value is
// as it was read, except for blanks. HNS shows more fields (Scope, Type;
// azure-container-networking#1752) and may reject them when they are sent back. Keys match without
// regard to letter case, and are written as documented; of duplicate keys the last one counts. It
// returns the policy itself and false if there is nothing to remove, if the policy is not an ACL,
// or if its settings are not a JSON object.
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
