package hnsfault

import (
	"slices"
	"strings"

	"github.com/winnpm/winnpm/pkg/hns"
)

// Unused reports whether a rule is of a named port's number that no peer of the rule
// serves: it matches nobody, and may stay on an endpoint until the next Update. Sets are
// those of HNS, or as they should be, by Id.
func Unused(a hns.ACL, sets map[string]hns.SetPolicy) bool {
	ids := a.SetIDs()
	if !slices.ContainsFunc(ids, func(id string) bool { return strings.HasPrefix(sets[id].Name, "namedport:") }) {
		return false
	}
	in := map[string]int{} // how many of the sets an address is in
	for _, id := range ids {
		leaves := []string{id}
		if sets[id].Type == hns.NestedIPSet {
			leaves = sets[id].Values
		}
		once := map[string]bool{}
		for _, leaf := range leaves {
			for _, addr := range sets[leaf].Values {
				once[addr] = true
			}
		}
		for addr := range once {
			in[addr]++
		}
	}
	for _, n := range in {
		if n == len(ids) {
			return false
		}
	}
	return true
}
