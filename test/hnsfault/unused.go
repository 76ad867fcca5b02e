package hnsfault

import (
	"maps"
	"slices"
	"strings"

	"github.com/winnpm/winnpm/pkg/hns"
)

// Unused reports whether a rule is of a named port's number that no peer of the rule
// serves: it matches nobody, and may stay on an endpoint until the next Update. Sets are
// those of HNS, or as they should be, by Id.
func Unused(a hns.ACL, sets map[string]hns.SetPolicy) bool {
	ids, named := a.SetIDs(), false
	in := map[string]int{} // how many of the sets an address is in
	for _, id := range ids {
		named = named || strings.HasPrefix(sets[id].Name, "namedport:")
		leaves := []string{id}
		if sets[id].Type == hns.NestedIPSet {
			leaves = sets[id].Values
		}
		var addrs []string
		for _, leaf := range leaves {
			addrs = append(addrs, sets[leaf].Values...)
		}
		slices.Sort(addrs)
		for _, addr := range slices.Compact(addrs) {
			in[addr]++
		}
	}
	return named && !slices.Contains(slices.Collect(maps.Values(in)), len(ids))
}
