package acl

import (
	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/pkg/policy"
)

// Diff compares two lists by meaning, as multisets.
func Diff(have, want []hns.ACL) (added, removed []hns.ACL) {
	count := Count(have)
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

// Count returns how many rules there are of each meaning; the keys are canonical.
func Count(acls []hns.ACL) map[hns.ACL]int {
	count := make(map[hns.ACL]int, len(acls))
	for _, a := range acls {
		count[a.Canonical()]++
	}
	return count
}

// Same reports whether two lists mean the same, in whatever order.
func Same(a, b []hns.ACL) bool {
	added, removed := Diff(a, b)
	return len(added)+len(removed) == 0
}

// Canonical returns the rules in the form in which HNS shows them.
func Canonical(acls []hns.ACL) []hns.ACL {
	out := make([]hns.ACL, len(acls))
	for i, a := range acls {
		out[i] = a.Canonical()
	}
	return out
}

// BlocksAll reports whether a rule closes its direction, but for rules that come
// before it.
func BlocksAll(a hns.ACL) bool { return a.Action == hns.Block && a.MatchesAll() }

// DirectionOf is a direction of a policy in the words of HNS.
func DirectionOf(d policy.Direction) hns.Direction {
	if d == policy.Ingress {
		return hns.In
	}
	return hns.Out
}
