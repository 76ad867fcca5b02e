package whatif

import (
	"slices"

	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/pkg/state"
	"github.com/winnpm/winnpm/tool/explain"
)

// moves says who is elsewhere after a change, as far as rules can tell that name sets.
type moves struct {
	pods    map[string]bool // they come or go, have another address, or own it otherwise
	sets    map[string]bool // by id: they have other members, nested ones too
	members map[string]bool // what is in one of these sets before or after, not both: addresses
	// outside: such a member is no pod's address.
	outside bool
}

func newMoves(before, after *explain.Cluster) moves {
	m := moves{pods: movedPods(before, after), sets: map[string]bool{}, members: map[string]bool{}}
	old, now := setsOf(before), setsOf(after)
	names := map[string]bool{}
	for name, is := range now {
		was, ok := old[name]
		if !ok { // rules that name it are new
			continue
		}
		for _, member := range differences(was.Members, is.Members) {
			m.sets[is.ID], names[name] = true, true
			m.join(member, old[member], now[member])
		}
	}
	for _, is := range now { // a nested set has no nested ones
		if slices.ContainsFunc(is.Members, func(member string) bool { return names[member] }) {
			m.sets[is.ID] = true
		}
	}
	m.outside = m.beyond(before, after)
	return m
}

// join notes what is in a set on one side of the change only: an address, or all that is in a
// set that is there called so.
func (m *moves) join(member string, sets ...*state.Set) {
	leaf := true
	for _, s := range sets {
		if s == nil {
			continue
		}
		leaf = false
		for _, inner := range s.Members {
			m.members[inner] = true
		}
	}
	if leaf {
		m.members[member] = true
	}
}

// beyond reports whether some of the members are no pod's address.
func (m *moves) beyond(clusters ...*explain.Cluster) bool {
	inside := map[string]bool{}
	for _, c := range clusters {
		for _, addr := range addressesOf(c) {
			inside[addr] = true
		}
	}
	for member := range m.members {
		if !inside[member] {
			return true
		}
	}
	return false
}

// setsOf returns the sets by name.
func setsOf(c *explain.Cluster) map[string]*state.Set {
	d := c.Dump()
	out := make(map[string]*state.Set, len(d.Sets))
	for i := range d.Sets {
		out[d.Sets[i].Name] = &d.Sets[i]
	}
	return out
}

// differences returns what only one of two lists has.
func differences(a, b []string) (out []string) {
	in := map[string]int{}
	for _, v := range a {
		in[v] |= 1
	}
	for _, v := range b {
		in[v] |= 2
	}
	for v, where := range in {
		if where != 1|2 {
			out = append(out, v)
		}
	}
	return out
}

// reached reports whether rules of endpoints name one of the sets; of one direction, if one is
// given.
func (m moves) reached(dir *hns.Direction, states ...[]*state.Endpoint) bool {
	if len(m.sets) == 0 {
		return false
	}
	names := func(a hns.ACL) bool {
		return (dir == nil || a.Direction == *dir) && slices.ContainsFunc(a.SetIDs(), func(id string) bool { return m.sets[id] })
	}
	for _, eps := range states {
		if slices.ContainsFunc(eps, func(ep *state.Endpoint) bool { return slices.ContainsFunc(ep.Applied, names) }) {
			return true
		}
	}
	return false
}

// movedPods returns the pods that come or go with a change, that have another address, or own
// it otherwise. What else becomes of a pod shows in rules, and in the members of sets.
func movedPods(before, after *explain.Cluster) map[string]bool {
	out := map[string]bool{}
	old := holdings(before)
	for name, is := range holdings(after) {
		was, ok := old[name]
		out[name] = !ok || was != is
		delete(old, name)
	}
	for name := range old {
		out[name] = true
	}
	return out
}

// holding is what a pod has of its address.
type holding struct {
	addr        string
	owns, doubt bool
}

func holdings(c *explain.Cluster) map[string]holding {
	d := c.Dump()
	out := make(map[string]holding, len(d.Pods))
	for i := range d.Pods {
		p := &d.Pods[i]
		_, owns := c.Owns(p)
		out[p.Pod] = holding{p.Addr, owns, p.InDoubt}
	}
	return out
}
