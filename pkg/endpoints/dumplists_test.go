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
}
