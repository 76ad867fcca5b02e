package endpoints

import (
	"slices"

	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/pkg/ipsets"
)

// hold makes the endpoint hold exactly these sets with one kind of
// reference. The new ones are held before the old ones are let go. What rules in
// HNS turn out to see is fed from then on.
func (d *State) hold(ep *Endpoint, kind ipsets.RefKind, names []ipsets.Name) {
	ref := ipsets.Ref{Kind: kind, Owner: ep.ID}
	for _, n := range names {
		d.desired.Hold(n, ref)
	}
	was, is := ep.holds[kind], slices.Clone(names)
	slices.SortFunc(is, ipsets.Compare)
	ep.holds[kind] = slices.Clip(slices.Compact(is))
	held := func(n ipsets.Name) bool {
		_, is := slices.BinarySearchFunc(ep.holds[kind], n, ipsets.Compare)
		return is
	}
	var left []ipsets.Name
	for _, n := range was {
		if held(n) {
			continue
		}
		if now, ok := d.cache.Lookup(d.cache.ID(n)); !ok || !held(now) { // an orphan may have got its name
			left = append(left, n)
		}
	}
	d.desired.Release(ref, left...)
	d.desired.DefineOrphans()
}

// namesOf returns the sets that ACLs name, of those that the cache knows,
// each once.
func (d *State) namesOf(lists ...[]hns.ACL) []ipsets.Name {
	return namesOf(d.cache.Lookup, lists...)
}

// namesOf returns the sets that ACLs name, of those that lookup knows, each once.
func namesOf(lookup func(id string) (ipsets.Name, bool), lists ...[]hns.ACL) []ipsets.Name {
	var out []ipsets.Name
	seen := map[string]bool{}
	for _, acls := range lists {
		for _, a := range acls {
			for _, id := range a.SetIDs() {
				if seen[id] {
					continue
				}
				seen[id] = true
				if n, ok := lookup(id); ok {
					out = append(out, n)
				}
			}
		}
	}
	return out
}
