package hnsfault

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/tool/hnssim"
)

// TestSharedRules: a rule that was read before is looked up anew when a set that it names was
// removed and made again, and for an endpoint of another network; and rules of endpoints that
// are gone keep no set.
func TestSharedRules(t *testing.T) {
	const rule = "  acl In 222 Allow azure-acl-a local-sets=front\n"
	for name, write := range map[string]func(*Sim, string, hns.ACL) error{
		"as a rule": func(s *Sim, id string, a hns.ACL) error { return s.AddACLs(t.Context(), id, []hns.ACL{a}) },
		"as text": func(s *Sim, id string, a hns.ACL) error {
			return s.SetPolicies(id, []hns.EndpointPolicy{hns.NewACLPolicy(a)})
		},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := ParseDump(site + rule)
			require.NoError(t, err)
			read, ok := s.Endpoint("ep")
			require.True(t, ok)
			ours, _ := hns.Endpoint{Policies: read.Policies}.Split()
			allowed := func(from string) bool {
				v, err := s.Trace("ep", hns.In, packet(t, from+" > 10.0.0.1 6/80"))
				require.NoError(t, err)
				return v.Allowed
			}
			require.NoError(t, s.LoseRules("ep"))
			require.NoError(t, write(s, "ep", ours[0]))
			require.True(t, allowed("10.0.1.3"))
			front := ours[0].LocalAddresses
			require.NoError(t, s.LoseSet(front))
			require.NotEqual(t, nil, write(s, "ep", ours[0]), "the set is not there")
			require.NoError(t, s.PutSet(leaf("front", "10.0.1.9")))
			require.NoError(t, write(s, "ep", ours[0]))
			require.True(t, allowed("10.0.1.9"))
			require.False(t, allowed("10.0.1.3"), "that was the set before")
			require.Error(t, s.DropSet(front), "it is in use")

			require.NoError(t, s.CreateEndpoint(hnssim.NewEndpoint{ID: "other", Network: "nat", Policies: []hns.EndpointPolicy{}}))
			require.ErrorIs(t, write(s, "other", ours[0]), hns.ErrNotFound, "no set of its network")
		})
	}
}
