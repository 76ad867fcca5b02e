package tiers

import (
	"slices"

	"github.com/winnpm/winnpm/pkg/ipsets"
)

// allowed reports whether a line that allows may have the atom.
func allowed(a Atom) bool { return !slices.ContainsFunc(a.Sets, ipsets.Name.Denies) }

// blocked returns the atoms of the lines that block an atom: it with the deny twins of its
// sets, and, if pods are among these, the same traffic of the addresses that may belong to
// any pod.
func blocked(a Atom) []Atom {
	twin := a
	twin.Sets = slices.Clone(a.Sets)
	for i := range twin.Sets {
		twin.Sets[i] = twin.Sets[i].Deny()
	}
	if !slices.ContainsFunc(a.Sets, ofPods) {
		return []Atom{twin}
	}
	doubt := Atom{Sets: []ipsets.Name{ipsets.Doubt()}, Blocks: a.Blocks, Ports: a.Ports}
	for _, n := range a.Sets {
		if !ofPods(n) && n != ipsets.Doubt() {
			doubt.Sets = append(doubt.Sets, n.Deny())
		}
	}
	return []Atom{twin, doubt}
}

// ofPods reports whether who belongs to a set follows from pods, so that it may be in
// doubt.
func ofPods(n ipsets.Name) bool {
	return n.Kind() != ipsets.KindNodes && n.Kind() != ipsets.KindInBlocks && n.Kind() != ipsets.KindDoubt
}
