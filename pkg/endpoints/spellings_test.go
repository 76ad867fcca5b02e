package endpoints

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/pkg/ipsets"
)

// shows is an endpoint that HNS shows with these rules.
func shows(rules ...hns.ACL) hns.Endpoint {
	var out hns.Endpoint
	for _, r := range rules {
		out.Policies = append(out.Policies, hns.NewACLPolicy(r))
	}
	return out
}

// TestLearn: a rule that is shown in words that nobody can read, in the place of the one
// that was sent, is that rule from then on. One whose words can be read means something else.
func TestLearn(t *testing.T) {
	sent := web
	sent.Protocols, sent.LocalPorts = "6", "80"
	shown, other := sent, sent
	shown.LocalPorts, other.LocalPorts = "port:80", "81"

	var l Spellings
	require.False(t, l.Learn(shows(), shows(other), []hns.ACL{sent}))
	require.True(t, l.Learn(shows(), shows(shown), []hns.ACL{sent}))
	parts := shows(shown, hns.ACL{ID: "theirs", Action: hns.Block, Direction: hns.In, Priority: 100}).Parts(l.ours)
	require.Equal(t, []hns.ACL{sent.Canonical()}, parts.Ours)
	require.Len(t, parts.Foreign, 1)
	require.Len(t, l.All(), 1)

	require.Equal(t, []hns.ACL{sent.Canonical()}, shows(shown).Parts(l.ours).Ours)
	require.Equal(t, shows(shown).Parts(l.ours), shows(sent).Parts(l.ours))
}

// TestTwoShownAlike: which of two rules is shown in one place would be a guess.
func TestTwoShownAlike(t *testing.T) {
	a := web
	a.Protocols, a.LocalPorts = "6", "80"
	b, shown := a, a
	b.LocalPorts, shown.LocalPorts = "81", "port:?"
	var l Spellings
	require.False(t, l.Learn(shows(), shows(shown, shown), []hns.ACL{a, b}))
	require.Empty(t, l.All())
}

// TestSpellingsAreBounded: what a tenant's rules and sets teach has an end.
func TestSpellingsAreBounded(t *testing.T) {
	var l Spellings
	for i := range maxSpellings + 10 {
		l.OfSet(ipsets.Spelling{Name: ipsets.Namespace(string(rune('a'+i%26)) + string(rune('a'+i/26%26)) + string(rune('a'+i/676))), Sent: []string{"10.0.0.1"}, Shown: []string{"010.0.0.1"}})
	}
	require.Len(t, l.All(), maxSpellings)
	l.OfSet(ipsets.Spelling{Name: ipsets.Namespace("aaa"), Sent: []string{"10.0.0.2"}, Shown: []string{"010.0.0.2"}})
	require.Equal(t, "10.0.0.2", l.All()[0].Sent, "one that is known is kept anew")
}
