package dataplane

import (
	"slices"

	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/pkg/policy"
)

// diffACLs compares two lists by meaning, as multisets.
func diffACLs(have, want []hns.ACL) (added, removed []hns.ACL) {
	count := countACLs(have)
	for _, a := range want {
		if c := a.Canonical(); count[c] > 0 {
			count[c]--
		} else {
			added = append(added, a)
		}
	}
	for _, a := range have {
		if c := a.Canonical(); count[c] > 0 {
			count[c]--
			removed = append(removed, a)
		}
	}
	return added, removed
}

func countACLs(acls []hns.ACL) map[hns.ACL]int {
	count := make(map[hns.ACL]int, len(acls))
	for _, a := range acls {
		count[a.Canonical()]++
	}
	return count
}

func sameACLs(a, b []hns.ACL) bool {
	added, removed := diffACLs(a, b)
	return len(added)+len(removed) == 0
}

func canonical(acls []hns.ACL) []hns.ACL {
	out := make([]hns.ACL, len(acls))
	for i, a := range acls {
		out[i] = a.Canonical()
	}
	return out
}

// lacksBlock reports whether a list leaves a direction open that shared rules close.
func lacksBlock(list, shared []hns.ACL) bool {
	closed := map[hns.Direction]bool{}
	for _, a := range list {
		closed[a.Direction] = closed[a.Direction] || blocksAll(a)
	}
	return slices.ContainsFunc(shared, func(a hns.ACL) bool { return blocksAll(a) && !closed[a.Direction] })
}

// blocksAll reports whether a rule closes its direction, but for rules that come
// before it.
func blocksAll(a hns.ACL) bool { return a.Action == hns.Block && a.MatchesAll() }

func direction(d policy.Direction) hns.Direction {
	if d == policy.Ingress {
		return hns.In
	}
	return hns.Out
}
