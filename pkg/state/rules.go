package state

import (
	"strings"

	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/pkg/policy"
)

// ACLID returns the Id of the allow rules of a policy. Namespaces have no dot, so the key can be
// recovered from the Id.
func ACLID(key policy.Key) string { return hns.ACLIDPrefix + key.Namespace + "." + key.Name }

// PolicyOfACL returns the NetworkPolicy that a rule's Id names, or false if it names none.
func PolicyOfACL(id string) (policy.Key, bool) {
	ns, name, ok := strings.Cut(strings.TrimPrefix(id, hns.ACLIDPrefix), ".")
	if !ok || !strings.HasPrefix(id, hns.ACLIDPrefix) || strings.HasPrefix(name, ".") {
		return policy.Key{}, false
	}
	return policy.Key{Namespace: ns, Name: name}, true
}

// ClusterACLID returns the Id of the rules of a ClusterNetworkPolicy.
func ClusterACLID(name string) string { return ACLID(policy.ClusterKey(name)) }

// ClusterPolicyOfACL returns the ClusterNetworkPolicy that a rule's Id names, or false if it names
// none.
func ClusterPolicyOfACL(id string) (name string, ok bool) {
	return strings.CutPrefix(id, ClusterACLID(""))
}
