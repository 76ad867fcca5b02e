// Package hns holds the value types of the Windows Host Networking Service
// that WinNPM reads and writes, the Client contract, and its typed errors.
//
// Nothing here does I/O. The simulator (hnssim) and the Windows adapter
// (hcsadapter) implement Client; one contract suite (hnstest) runs on both.
package hns

import (
	"encoding/json"
	"net/netip"
	"strings"
)

// Prefixes of the Ids of all sets and ACLs that WinNPM and its predecessor own in HNS.
const (
	SetIDPrefix = "azure-npm-"
	ACLIDPrefix = "azure-acl-"
)

// MaxAddressesPerACL is the largest number of literal addresses in one rule (Calico splits rules at
// this number on Microsoft's advice, policysets.go:583-592).
const MaxAddressesPerACL = 4000

// SetType is the kind of an ip set. Its values are HNS's own words.
type SetType string

// The two set types of HNS.
const (
	IPSet       SetType = "IPSET"
	NestedIPSet SetType = "NESTEDIPSET"
)

// SetPolicy is one IP set of an HNS network. Values are IPs or CIDRs for an IPSET, and the Ids of
// member sets for a NESTEDIPSET; on the wire they are one comma-separated string. HNS has no
// incremental update: every write carries all Values.
type SetPolicy struct {
	ID     string
	Name   string
	Type   SetType
	Values []string
}

// Verb is the request type of a Modify call. Its values are HNS's own words.
type Verb string

// The verbs that WinNPM uses. Remove is for sets only: removing ACLs is known
// to be unreliable (acn policymanager_windows.go:356-358).
const (
	Add    Verb = "Add"
	Update Verb = "Update"
	Remove Verb = "Remove"
)

// ActionType of an ACL.
type ActionType string

// The actions of HNS.
const (
	Allow ActionType = "Allow"
	Block ActionType = "Block"
)

// DirectionType of an ACL, seen from the endpoint.
type DirectionType string

// The directions of HNS.
const (
	In  DirectionType = "In"
	Out DirectionType = "Out"
)

// RuleType says which layer enforces an ACL: Switch is VFP, Host is WFP.
type RuleType string

// The rule types of HNS.
const (
	Switch RuleType = "Switch"
	Host   RuleType = "Host"
)

// Priorities of the ACLs. Lower wins; the order of equal priorities with
// different actions is undefined, so every number has one action.
const (
	PriorityInfrastructure uint16 = 200
	PriorityNode           uint16 = 201
	PriorityShield         uint16 = 202 // blocks that come before all other rules but the two above
	PriorityAllow          uint16 = 222
	PriorityTiers          uint16 = 1000 // the first rule of an ordered list
	PriorityBlock          uint16 = 3000
	PriorityTail           uint16 = 60000 // the first rule of the tail of an ordered list
	PriorityDefault        uint16 = 65499 // our default rules; the CNI's have 65500
)

// ACL is one rule of an endpoint.
//
// With set Ids, LocalAddresses is the source and RemoteAddresses the
// destination in both directions, and a comma means AND. With literals,
// RemoteAddresses is the peer in both directions and a comma means OR. The two
// are never mixed in one field. The destination port is LocalPorts for In and
// RemotePorts for Out. Protocols is a decimal number; empty means any.
type ACL struct {
	ID              string        `json:"Id,omitempty"`
	Protocols       string        `json:"Protocols,omitempty"`
	Action          ActionType    `json:"Action"`
	Direction       DirectionType `json:"Direction"`
	LocalAddresses  string        `json:"LocalAddresses,omitempty"`
	RemoteAddresses string        `json:"RemoteAddresses,omitempty"`
	LocalPorts      string        `json:"LocalPorts,omitempty"`
	RemotePorts     string        `json:"RemotePorts,omitempty"`
	RuleType        RuleType      `json:"RuleType,omitempty"`
	Priority        uint16        `json:"Priority,omitempty"`
}

// EveryIPv6 is the address block that matches every IPv6 address and no IPv4 address. It is the only
// IPv6 block that has a meaning here (docs/windows.md, A29).
const EveryIPv6 = "::/0"

// AnyProtocol is the protocol that HNS shows for a rule without one.
const AnyProtocol = "256"

// Ours reports whether the rule carries our Id prefix, in any letter case.
func (a ACL) Ours() bool { return strings.HasPrefix(strings.ToLower(a.ID), ACLIDPrefix) }

// SetIDs returns the Ids of the sets that the rule names, in canonical spelling.
func (a ACL) SetIDs() []string {
	var ids []string
	for _, field := range []string{a.LocalAddresses, a.RemoteAddresses} {
		if strings.HasPrefix(strings.ToLower(strings.TrimSpace(field)), SetIDPrefix) {
			ids = append(ids, strings.Split(canonicalAddresses(field), ",")...)
		}
	}
	return ids
}

// PolicyTypeACL is the Type of an endpoint policy that is an ACL. HNS may show it in any letter
// case.
const PolicyTypeACL = "ACL"

// PolicyTypeTierACL is the type of tiered rules (hcsshim TierAclPolicySetting). How they combine
// with ordinary rules is unknown.
const PolicyTypeTierACL = "TierAcl"

// EndpointPolicy is one policy of an endpoint as HNS shows it. Settings are kept as read, so that
// the policies of other programs are sent back byte for byte.
type EndpointPolicy struct {
	Type     string          `json:"Type"`
	Settings json.RawMessage `json:"Settings"`
}

// NewACLPolicy encodes an ACL as an endpoint policy.
func NewACLPolicy(a ACL) EndpointPolicy {
	settings, err := json.Marshal(a)
	if err != nil {
		panic("BUG: an ACL always encodes: " + err.Error())
	}
	return EndpointPolicy{Type: PolicyTypeACL, Settings: settings}
}

// Endpoint is one local endpoint of our network.
type Endpoint struct {
	ID    string // GUID
	Addrs []netip.Addr
	// Netns is the GUID of the endpoint's HNS namespace, or "" if it has none. Each sandbox has one
	// (HostComputeNamespace of hcsshim; the DeleteEndpoint of
	// microsoft/windows-container-networking reads it back to detach an endpoint).
	Netns    string
	Policies []EndpointPolicy // all types and owners, in the order of HNS
}

// Parts are the policies of an endpoint: ours and the foreign ones.
type Parts struct {
	Ours     []ACL            // canonical, in the order of HNS
	Foreign  []EndpointPolicy // untouched
	Defaults Defaults         // given by the foreign policies
}

// Parts splits the endpoint's policies, and decodes each once. ours reports whether an ACL is ours;
// it gets the ACL in canonical form and returns it as it was sent. If ours is nil, the Id prefix
// decides, and the ACL is returned as shown. An ACL that cannot be decoded is foreign.
func (e Endpoint) Parts(ours func(ACL) (sent ACL, is bool)) Parts {
	if ours == nil {
		ours = func(a ACL) (ACL, bool) { return a, a.Ours() }
	}
	var out Parts
	for _, p := range e.Policies {
		a, err := p.ACL()
		if err == nil {
			if sent, is := ours(a.Canonical()); is {
				out.Ours = append(out.Ours, sent)
				continue
			}
			out.Defaults.Note(a)
		}
		out.Foreign = append(out.Foreign, p)
	}
	return out
}

// Split is Parts(nil), for endpoints that show all our rules as they were sent.
func (e Endpoint) Split() (ours []ACL, foreign []EndpointPolicy) {
	parts := e.Parts(nil)
	return parts.Ours, parts.Foreign
}

// Network is our HNS network with the sets of all owners.
type Network struct {
	ID   string
	Name string
	Sets []SetPolicy
}
