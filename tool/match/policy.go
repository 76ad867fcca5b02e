package match

import (
	"strings"

	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/pkg/policy"
)

// PolicyOfACL returns the key of the policy that a rule's Id names, or false if it names none.
func PolicyOfACL(id string) (policy.Key, bool) {
	rest, ours := strings.CutPrefix(id, hns.ACLIDPrefix)
	namespace, name, named := strings.Cut(rest, ".")
	key := policy.Key{Namespace: namespace, Name: name}
	_, cluster := key.Cluster()
	return key, ours && named && (cluster || !strings.HasPrefix(name, "."))
}

// Protocols returns the protocols of the API.
func Protocols() []policy.Protocol { return []policy.Protocol{policy.TCP, policy.UDP, policy.SCTP} }
