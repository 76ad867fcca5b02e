package dataplane

import (
	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/pkg/ipsets"
)

// id returns a set's id.
func (d *core) id(n ipsets.Name) string { return d.cache.ID(n) }

// release lets go of sets, and of their definitions when nobody is left.
func (d *core) release(ref ipsets.Ref, names ...ipsets.Name) {
	gone := nameSet{}
	for _, n := range names {
		d.cache.Release(n, ref)
		if d.cache.Has(n) {
			continue
		}
		gone[n] = true
		if n.Kind() == ipsets.KindNamedPort {
			d.namedPorts.forget(n)
		}
	}
	d.members.undefine(gone)
}

// fill fills a set that was just defined.
func (d *core) fill(n ipsets.Name) {
	if n.Kind() == ipsets.KindNamedPort {
		d.namedPorts.fill(n)
	} else if def, is := inside(n); is { // only rules name it
		d.members.fillNew(def)
	} else {
		d.members.fill(nameSet{n: true})
	}
}

// hold makes the endpoint hold exactly these sets with one kind of
// reference. The new ones are held before the old ones are let go. What rules in
// HNS turn out to see is fed from then on.
func (d *core) hold(ep *endpoint, kind ipsets.RefKind, names []ipsets.Name) {
	ref := ipsets.Ref{Kind: kind, Owner: ep.id}
	was := ep.holds[kind]
	is := make(map[ipsets.Name]bool, len(names))
	for _, n := range names {
		if !is[n] && d.cache.Hold(n, ref) {
			d.fill(n)
			d.progress.piece()
		}
		is[n] = true
	}
	ep.holds[kind] = is
	var left []ipsets.Name
	for n := range was {
		if is[n] {
			continue
		}
		if now, ok := d.cache.Lookup(d.id(n)); !ok || !is[now] { // an orphan may have got its name
			left = append(left, n)
		}
	}
	d.release(ref, left...)
	d.defineOrphans()
}

// namesOf returns the sets that ACLs name, of those that the cache knows,
// each once.
func (d *core) namesOf(lists ...[]hns.ACL) []ipsets.Name {
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
