package whatif

import (
	"slices"

	kubesets "k8s.io/apimachinery/pkg/util/sets"

	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/pkg/state"
	"github.com/winnpm/winnpm/tool/explain"
)

// moves says which pods and members of sets differ after a change, as far as rules can tell that
// name the sets.
type moves struct {
	pods    map[string]bool      // they come or go, have another address, or own it otherwise
	sets    map[string]bool      // by id: they have other members, or nested sets that have
	members kubesets.Set[string] // of one of these sets before or after, not both
	outside bool                 // one of the members is no pod's address
}

func newMoves(before, after *explain.Cluster) moves {
	m := moves{pods: map[string]bool{}, sets: map[string]bool{}, members: kubesets.Set[string]{}}
	old, now := setsOf(before), setsOf(after)
	changed := map[string]bool{} // sets by name
	for name, is := range now {
		was, ok := old[name]
		if !ok { // rules that name it are new
			continue
		}
		for member := range kubesets.New(was.Members...).SymmetricDifference(kubesets.New(is.Members...)) {
			m.sets[is.ID], changed[name] = true, true
			m.members.Insert(member)
			for _, nested := range []*state.Set{old[member], now[member]} {
				if nested != nil {
					m.members.Insert(nested.Members...)
				}
			}
		}
	}
	for _, is := range now { // a nested set has no nested ones
		if slices.ContainsFunc(is.Members, func(member string) bool { return changed[member] }) {
			m.sets[is.ID] = true
		}
	}
	m.movePods(before, after)
	return m
}

// movePods finds the pods that move, and whether a member of m is outside.
func (m *moves) movePods(before, after *explain.Cluster) {
	inside := map[string]bool{}
	had, has := holdings(before), holdings(after)
	for _, held := range []map[string]holding{had, has} {
		for pod, h := range held {
			m.pods[pod] = had[pod] != has[pod]
			inside[h.addr] = inside[h.addr] || h.owns
		}
	}
	for member := range m.members {
		m.outside = m.outside || !inside[member]
	}
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

// reached reports whether rules of endpoints name one of the sets; of one direction, if one is
// given.
func (m moves) reached(dir *hns.Direction, states ...[]*state.Endpoint) bool {
	names := func(a hns.ACL) bool {
		return (dir == nil || a.Direction == *dir) && slices.ContainsFunc(a.SetIDs(), func(id string) bool { return m.sets[id] })
	}
	return len(m.sets) > 0 && slices.ContainsFunc(slices.Concat(states...), func(ep *state.Endpoint) bool { return slices.ContainsFunc(ep.Applied, names) })
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
