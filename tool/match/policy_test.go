package match

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/winnpm/winnpm/pkg/acl"
	"github.com/winnpm/winnpm/pkg/policy"
	"github.com/winnpm/winnpm/pkg/state"
)

// TestACLIDRoundTrip: no policy's Id reads as another's or as a shared rule's.
func TestACLIDRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		key := policy.Key{
			Namespace: rapid.StringMatching(`[a-z0-9]([-a-z0-9]{0,10}[a-z0-9])?`).Draw(t, "namespace"),
			Name:      rapid.StringMatching(`[a-z0-9]([-.a-z0-9]{0,10}[a-z0-9])?`).Draw(t, "name"),
		}
		got, ok := PolicyOfACL(state.ACLID(key))
		require.True(t, ok)
		require.Equal(t, key, got)
	})
	for _, id := range []string{acl.IDNode, acl.IDBlockIn, acl.IDBlockOut, acl.IDAllowIn, acl.IDAllowOut, "", "calico.x", "azure-acl-", "azure-acl-shop..a"} {
		_, ok := PolicyOfACL(id)
		require.False(t, ok, id)
	}
}

// TestClusterACLID: the Ids of the two kinds of policies tell them apart.
func TestClusterACLID(t *testing.T) {
	id := state.ACLID(policy.ClusterKey("a.b"))
	require.Equal(t, "azure-acl-cluster..a.b", id)
	key, ok := PolicyOfACL(id)
	require.True(t, ok)
	require.Equal(t, policy.ClusterKey("a.b"), key)
	key, ok = PolicyOfACL(state.ACLID(policy.Key{Namespace: "cluster", Name: "a"}))
	require.True(t, ok)
	require.Equal(t, policy.Key{Namespace: "cluster", Name: "a"}, key)
}
