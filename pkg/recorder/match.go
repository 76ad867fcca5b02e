package recorder

import "github.com/winnpm/winnpm/pkg/hns"

// DigestValues returns the digest of the values of a set, in any order, as a
// SetValue has it.
func DigestValues(values []string) string { return digestValues(values) }

// DigestACLs returns the digest of rules in their order, as a Call has it.
func DigestACLs(acls []hns.ACL) string {
	policies := make([]hns.EndpointPolicy, len(acls))
	for i, a := range acls {
		policies[i] = hns.NewACLPolicy(a)
	}
	return digestPolicies(policies)
}

// DigestPolicies returns the digest of policies in their order, as a Call has
// it.
func DigestPolicies(policies []hns.EndpointPolicy) string { return digestPolicies(policies) }
