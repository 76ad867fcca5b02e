package policy

// Tier is the order of evaluation of a policy: Admin first, then NetworkPolicy, then Baseline.
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
