package policy

// Tier is when a policy has its say: Admin first, then NetworkPolicy, then Baseline.
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

// Action is what becomes of a packet that a rule matches. Its values are the API's words.
type Action string

// The actions. Pass goes on with the next tier.
const (
	Accept Action = "Accept"
	Deny   Action = "Deny"
	Pass   Action = "Pass"
)

// Cluster is the meaning of one ClusterNetworkPolicy. It is immutable.
type Cluster struct {
	Name     string
	Tier     Tier  // Admin or Baseline
	Priority int32 // 0 to 1000, or PriorityUnknown
	// Namespaces matches the labels of the Namespace objects, and Pods those of the
	// pods in them, that the policy selects. A malformed selector matches everything,
	// and the rules are Deny then.
	Namespaces, Pods LabelMatcher
	// Rules are in the order of the policy's text, ingress first.
	Rules []ClusterRule
	// Sets defines every set that Rules name, as Compiled.Sets does. Rules have the plain
	// names. What a rule that is not Deny names is here under that name, and what one that
	// is not Accept names as its deny twin, with Doubt if it is a set of pods.
	Sets []SetDef
	// Problems and Found are as those of Compiled.
	Problems []Problem
	Found    map[Reason]int
}

// ClusterRule is one entry of spec.ingress or spec.egress.
type ClusterRule struct {
	Direction Direction
	// Index is the rule's place in spec.ingress or spec.egress.
	Index  int
	Name   string // as the user calls it; may be ""
	Action Action // Deny instead of Pass where the rule closes
	// Peers are an OR. A rule without any matches nothing; one that matches everyone
	// has the peer without a field.
	Peers []Peer
	// Ports is as that of Rule: empty means everything, ICMP included. A name stands there
	// once for each protocol. It may stand beside Blocks and nodes.
	Ports []Port
}
