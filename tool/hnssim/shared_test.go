package hnssim

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/winnpm/winnpm/pkg/hns"
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
			front, ok := s.sets[ours[0].LocalAddresses]
			require.True(t, ok)

			require.NoError(t, s.LoseSet(front.ID))
			require.NotEqual(t, nil, write(s, "ep", ours[0]), "the set is not there")
			require.NoError(t, s.PutSet(leaf("front", "10.0.1.9")))
			require.NoError(t, write(s, "ep", ours[0]))
			require.True(t, allowed("10.0.1.9"))
			require.False(t, allowed("10.0.1.3"), "that was the set before")
			require.Error(t, s.DropSet(front.ID), "it is in use")

			require.NoError(t, s.CreateEndpoint(NewEndpoint{ID: "other", Network: "nat", Policies: []hns.EndpointPolicy{}}))
			require.ErrorIs(t, write(s, "other", ours[0]), hns.ErrNotFound, "no set of its network")
		})
	}
}

// TestSharedIsBounded: what is shared does not grow with what was ever written.
func TestSharedIsBounded(t *testing.T) {
	s := newShared()
	for i := range 3 * maxShared {
		remember(s.rules, hns.ACL{Priority: uint16(i), LocalPorts: string(rune(i))}, policy{})
		require.LessOrEqual(t, len(s.rules), maxShared)
	}
}
