package match

import (
	"strings"

	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/pkg/policy"
	"github.com/winnpm/winnpm/pkg/state"
)

// PolicyOfACL returns the NetworkPolicy that a rule's Id names, or false if it names none.
func PolicyOfACL(id string) (policy.Key, bool) {
	ns, name, ok := strings.Cut(strings.TrimPrefix(id, hns.ACLIDPrefix), ".")
	if !ok || !strings.HasPrefix(id, hns.ACLIDPrefix) || strings.HasPrefix(name, ".") {
		return policy.Key{}, false
	}
	return policy.Key{Namespace: ns, Name: name}, true
}

// ClusterPolicyOfACL returns the ClusterNetworkPolicy that a rule's Id names, or false if it names
// none.
func ClusterPolicyOfACL(id string) (name string, ok bool) {
	return strings.CutPrefix(id, state.ACLID(policy.ClusterKey("")))
}

// Protocols returns the protocols of the API.
func Protocols() []policy.Protocol { return []policy.Protocol{policy.TCP, policy.UDP, policy.SCTP} }
