package endpoints

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/winnpm/winnpm/pkg/hns"
)

// TestListsOfADump: endpoints share lists that are equal, canonical, and no others.
func TestListsOfADump(t *testing.T) {
	rule := func(id string, p uint16) hns.ACL {
		return hns.ACL{ID: "azure-acl-" + id, Action: hns.Allow, Direction: hns.In, Priority: p, RuleType: hns.Switch}
	}
	l := newLists()
	one, same, other := l.canonical([]hns.ACL{rule("a", 1), rule("b", 2)}), l.canonical([]hns.ACL{rule("A", 1), rule("b", 2)}), l.canonical([]hns.ACL{rule("a", 1), rule("c", 2)})
	require.Equal(t, one, same)
	require.Same(t, &one[0], &same[0])
	require.Equal(t, []hns.ACL{rule("a", 1), rule("c", 2)}, other)
	require.Equal(t, []hns.ACL{}, l.canonical(nil), "no list is null")

	f := foreignRules{texts: map[string]*hns.ACL{}}
	policies := func(list ...hns.EndpointPolicy) []hns.EndpointPolicy { return list }
	theirs := func(p uint16) hns.EndpointPolicy {
		return hns.NewACLPolicy(hns.ACL{Action: hns.Block, Direction: hns.Out, Priority: p})
	}
	first := f.of(policies(theirs(200), hns.EndpointPolicy{Type: "OutBoundNAT", Settings: []byte("{}")}))
	again := f.of(policies(theirs(200), hns.EndpointPolicy{Type: "OutBoundNAT", Settings: []byte("{}")}))
	require.Len(t, first, 1)
	require.Same(t, &first[0], &again[0])
	require.Equal(t, uint16(300), f.of(policies(theirs(300), hns.EndpointPolicy{Type: "OutBoundNAT", Settings: []byte("{}")}))[0].Priority)
	require.Empty(t, f.of(nil))
}
