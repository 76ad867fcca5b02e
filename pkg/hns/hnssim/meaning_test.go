package hnssim

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/winnpm/winnpm/pkg/hns"
)

// TestMeanings: each deviation turns the verdict of its packet round, and no other deviation
// that a verdict depends on does.
func TestMeanings(t *testing.T) {
	t.Parallel()
	const (
		in  = "10.0.1.2 > 10.0.0.1 6/80"
		udp = "10.0.1.2 > 10.0.0.1 17/80"
	)
	rows := []struct {
		odd   Meaning
		rules []string
		pkt   string
		plain bool
		also  Meaning // another one that turns it round, if any
	}{
		{Meaning{CommaIsOr: true}, []string{"acl In 222 Allow azure-acl-a local-sets=team,self"}, in, false, Meaning{}},
		{Meaning{SetsBySide: true}, []string{"acl In 222 Allow azure-acl-a local-sets=web"}, in, true, Meaning{}},
		{Meaning{EmptyMatches: true}, []string{"acl In 222 Allow azure-acl-a local-sets=empty"}, in, false, Meaning{}},
		{Meaning{EmptyListNone: true}, []string{"acl In 222 Allow azure-acl-a local-sets=none"}, in, true, Meaning{}},
		{Meaning{FillerMatches: true}, []string{"acl In 222 Allow azure-acl-a local-sets=only-empty"}, in, false, Meaning{}},
		{Meaning{HigherWins: true}, []string{"acl In 222 Allow azure-acl-a", "acl In 3000 Block azure-acl-b"}, in, true, Meaning{}},
		{Meaning{LateOnes: true}, []string{"acl In 65499 Allow azure-acl-a", "acl In 65500 Block azure-acl-b"}, in, true, Meaning{HigherWins: true}},
		{Meaning{DefaultAllows: true}, []string{"acl In 222 Allow azure-acl-a proto=17"}, in, false, Meaning{}},
		{Meaning{AddressesBySet: true}, []string{"acl In 222 Allow azure-acl-a remote=10.0.1.2"}, in, true, Meaning{}},
		{Meaning{AnyIsTCP: true}, []string{"acl In 222 Allow azure-acl-a"}, udp, true, Meaning{}},
	}
	for _, row := range rows {
		for _, m := range rows {
			s, err := ParseDump(site + indent(row.rules))
			require.NoError(t, err)
			s.setMeaning(m.odd)
			switch m.odd {
			case row.odd, row.also:
				require.Equal(t, !row.plain, traced(t, s, row.pkt), "%+v: %v", m.odd, row.rules)
			case Meaning{DefaultAllows: true}: // what does not match passes
			default:
				require.Equal(t, row.plain, traced(t, s, row.pkt), "%+v: %v", m.odd, row.rules)
			}
		}
	}

	s, err := ParseDump(site + indent([]string{"acl In 222 Allow azure-acl-a"}))
	require.NoError(t, err)
	s.setMeaning(Meaning{HostPair: true})
	require.False(t, traced(t, s, in))
	require.NoError(t, s.AddACLs(t.Context(), "ep", []hns.ACL{{ID: "azure-acl-h", Action: hns.Allow, Direction: hns.In, RuleType: hns.Host}}))
	require.True(t, traced(t, s, in))
}

// TestFrozen: a rule that keeps the members of its sets is right again when it is written.
func TestFrozen(t *testing.T) {
	t.Parallel()
	s, err := ParseDump(site)
	require.NoError(t, err)
	s.setMeaning(Meaning{Frozen: true})
	write := func() {
		require.NoError(t, s.ReplacePolicies(t.Context(), "ep", []hns.EndpointPolicy{hns.NewACLPolicy(allow(func(a *hns.ACL) {
			a.LocalAddresses = derivedID("both")
		}))}))
	}
	write()
	require.True(t, traced(t, s, "10.0.1.2 > 10.0.0.1 6/80"))
	web := leaf("web")
	web.Values = []string{"10.0.9.9"}
	require.NoError(t, s.PutSet(web))
	require.False(t, traced(t, s, "10.0.9.9 > 10.0.0.1 6/80"))
	require.True(t, traced(t, s, "10.0.1.2 > 10.0.0.1 6/80"))
	write()
	require.True(t, traced(t, s, "10.0.9.9 > 10.0.0.1 6/80"))
	require.False(t, traced(t, s, "10.0.1.2 > 10.0.0.1 6/80"))
}

// TestLateMeanings: the switch follows each write after its lag, in their order, and an Update
// leaves the endpoint without rules for its gap.
func TestLateMeanings(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, err := ParseDump(site)
		require.NoError(t, err)
		s.now = time.Now
		update := func(action hns.Action) {
			require.NoError(t, s.ReplacePolicies(t.Context(), "ep", []hns.EndpointPolicy{hns.NewACLPolicy(allow(func(a *hns.ACL) { a.Action = action }))}))
		}
		passes := func() bool { return traced(t, s, "10.0.1.2 > 10.0.0.1 6/80") }
		s.setMeaning(Meaning{Lag: time.Minute})
		update(hns.Block)
		time.Sleep(30 * time.Second)
		update(hns.Allow)
		require.True(t, passes(), "nothing is there yet")
		time.Sleep(30 * time.Second)
		require.False(t, passes(), "the first")
		time.Sleep(30 * time.Second)
		require.True(t, passes(), "the second")
		require.LessOrEqual(t, len(s.endpoints["ep"].past), 2)
		update(hns.Block)
		require.Len(t, s.endpoints["ep"].past, 1, "what is over is forgotten")

		s.setMeaning(Meaning{Gap: time.Second})
		update(hns.Block)
		require.True(t, passes())
		time.Sleep(time.Second)
		require.False(t, passes())
	})
}
