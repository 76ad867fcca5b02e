package state

import (
	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/pkg/policy"
)

// ACLID returns the Id of the allow rules of a policy. Namespaces have no dot, so the key can be
// recovered from the Id.
func ACLID(key policy.Key) string { return hns.ACLIDPrefix + key.Namespace + "." + key.Name }
