// Package policy gives one NetworkPolicy or ClusterNetworkPolicy its meaning: which pods it
// selects, which IP sets its peers need, and which rules it has. The result depends on the policy
// alone, not on the cluster, and has no terms of HNS.
package policy

import (
	"cmp"
	"net/netip"
	"slices"
	"strings"

	"github.com/winnpm/winnpm/pkg/ipsets"
)

// Direction of traffic, seen from the selected pod.
type Direction uint8

// The directions.
const (
	Ingress Direction = iota
	Egress
)

// String returns "ingress" or "egress".
func (d Direction) String() string {
	if d == Ingress {
		return "ingress"
	}
	return "egress"
}

// Directions lists both, in order.
var Directions = [...]Direction{Ingress, Egress}

// Key identifies a policy. It is a struct, because two different pairs of namespace and name may
// give the same joined name.
type Key struct {
	Namespace string
	Name      string
}

// String returns namespace/name.
func (k Key) String() string { return k.Namespace + "/" + k.Name }

// Compare sorts keys by namespace, then by name.
func (k Key) Compare(o Key) int {
	return cmp.Or(cmp.Compare(k.Namespace, o.Namespace), cmp.Compare(k.Name, o.Name))
}

// clusterNamespace is the namespace in the Key of a ClusterNetworkPolicy. The name in such a Key
// begins with a dot, which no name of an object does.
const clusterNamespace = "cluster"

// ClusterKey returns the Key of a ClusterNetworkPolicy.
func ClusterKey(name string) Key { return Key{Namespace: clusterNamespace, Name: "." + name} }

// Cluster is the inverse of ClusterKey; false for the key of a NetworkPolicy.
func (k Key) Cluster() (name string, is bool) {
	name, is = strings.CutPrefix(k.Name, ".")
	return name, is && k.Namespace == clusterNamespace
}

// LabelMatcher tells whether labels match a selector.
type LabelMatcher interface {
	Matches(labels map[string]string) bool
}

// Policy is the meaning of one NetworkPolicy or ClusterNetworkPolicy. It is immutable.
type Policy struct {
	Key      Key
	Tier     Tier
	Priority int32 // of a ClusterNetworkPolicy: 0 to 1000, or PriorityUnknown
	// Namespaces matches the labels of the namespaces that the policy selects, and Subject the labels
	// of the pods in them. Namespaces is nil for a NetworkPolicy, which selects pods of
	// Key.Namespace. A malformed selector matches everything (fail closed).
	Namespaces, Subject LabelMatcher
	// Isolates tells, by direction, whether a NetworkPolicy isolates the selected pods.
	Isolates [2]bool
	// Rules are in the order of the policy's text, ingress first.
	Rules []Rule
	// Sets defines every set that the Rules need, except the named port sets: each once, including
	// the members of nested sets, sorted by name. The Rules use the plain names. Accept and Pass
	// rules need the plain sets. Deny and Pass rules need their deny twins, and Doubt for sets of
	// pods.
	Sets []SetDef
	// Problems lists the parts that could not be expressed and were left out: the first MaxProblems
	// of each reason.
	Problems []Problem
	// Found counts the parts that were left out, by reason. It counts all parts; Problems may omit
	// some.
	Found map[Reason]int
}

// Compare sorts policies in the order of evaluation: by tier, priority and key.
func (p *Policy) Compare(o *Policy) int {
	return cmp.Or(cmp.Compare(p.Tier, o.Tier), cmp.Compare(p.Priority, o.Priority), p.Key.Compare(o.Key))
}

// Rule is one entry of spec.ingress or spec.egress.
type Rule struct {
	Direction Direction
	// Index is the rule's place in spec.ingress or spec.egress.
	Index  int
	Name   string // the name in the policy; may be ""
	Action Action // Deny instead of Pass if the rule closes
	// Peers are an OR. A rule without peers matches nothing. A rule that matches everyone has one
	// Peer without a field.
	Peers []Peer
	// Ports is an OR; empty means every port of every protocol, including ICMP. It is the smallest
	// list (Fewest). It is shared, so it must not be changed. A port name of a ClusterNetworkPolicy
	// has one entry for each protocol.
	Ports []Port
}

// Peer is the other side of a rule. With neither field set it is everyone.
type Peer struct {
	// Sets must all contain the peer (AND).
	Sets []ipsets.Name
	// Blocks is an OR of exact IPv4 prefixes, without the parts in `except`. A Peer with Blocks has
	// no Sets.
	Blocks []netip.Prefix
}

// Protocol of a port. Its values are the API's own words.
type Protocol string

// The protocols of the API.
const (
	TCP  Protocol = "TCP"
	UDP  Protocol = "UDP"
	SCTP Protocol = "SCTP"
)

// Known reports whether the API has the protocol.
func (p Protocol) Known() bool { return p == TCP || p == UDP || p == SCTP }

// Port is one protocol with all its ports, a range of them, or a name that each pod resolves to its
// own port.
type Port struct {
	Protocol Protocol
	First    uint16 // 0: every port
	Last     uint16 // equal to First for a single port
	Name     string // named port; First and Last are 0 then
}

// SetDef defines the members of a set. The kind of the name determines which field applies. A
// namespace or pod label set is defined by its name alone.
type SetDef struct {
	Name ipsets.Name
	// Pods matches the pods of a KindPodSelector set. They must be in Namespace; "" means any.
	Pods      LabelMatcher
	Namespace string
	// Namespaces matches the Namespace objects of a KindNamespaceSelector set.
	Namespaces LabelMatcher
	// Members are the fixed members of a KindNestedLabel set.
	Members []ipsets.Name
	// Nodes matches the Node objects of a KindNodes set.
	Nodes LabelMatcher
	// Blocks contain the addresses of a KindInBlocks set: the fewest prefixes, sorted.
	Blocks []netip.Prefix
}

// Deny returns the definition of the deny twin. The members of a twin are twins.
func (d SetDef) Deny() SetDef {
	d.Name = d.Name.Deny()
	d.Members = slices.Clone(d.Members)
	for i := range d.Members {
		d.Members[i] = d.Members[i].Deny()
	}
	return d
}

// Reason says why something was left out. Its values are part of the output format of `kubectl npm
// simulate`.
type Reason string

// The reasons.
const (
	ReasonIPv6Peer   Reason = "IPv6Peer"
	ReasonInvalid    Reason = "Invalid"
	ReasonOverBudget Reason = "OverBudget"
	// ReasonUnsupportedPeer is for a ClusterNetworkPolicy: a part of a rule is unknown or cannot be
	// programmed, so the rule closes.
	ReasonUnsupportedPeer Reason = "UnsupportedPeer"
	// ReasonNodesUnknown is for a ClusterNetworkPolicy from WithoutNodes: a rule closes because the
	// nodes that it names are unknown.
	ReasonNodesUnknown Reason = "NodesUnknown"
)

// MaxProblems limits the number of Problems for one reason: a policy of 1.5 MB may have 50,000.
const MaxProblems = 20

// Problem describes one part of a policy that was left out.
type Problem struct {
	Reason  Reason
	Field   string // path in the object, as the API server writes it: spec.ingress[0].from[1].ipBlock.cidr
	Message string // one line, without the field
}

// Tier is the evaluation order of a policy: first Admin, then NetworkPolicy, then Baseline.
type Tier uint8

// The tiers, in order.
const (
	Admin Tier = iota + 1
	Namespaced
	Baseline
)

// String returns the API's word for the tier.
func (t Tier) String() string {
	switch t {
	case Admin:
		return "Admin"
	case Namespaced:
		return "NetworkPolicy"
	case Baseline:
		return "Baseline"
	}
	return ""
}

// Action says what happens to a packet that a rule matches. Its values are the API's words.
type Action string

// The actions. Pass continues with the next tier.
const (
	Accept Action = "Accept"
	Deny   Action = "Deny"
	Pass   Action = "Pass"
)
