package dataplane

import (
	"cmp"
	"slices"

	"github.com/winnpm/winnpm/pkg/drift"
	"github.com/winnpm/winnpm/pkg/ipsets"
	"github.com/winnpm/winnpm/pkg/state"
)

// Stats returns a snapshot in numbers, sets by name. It never waits for HNS, and costs
// the sets and ACLs of the node, not the pods of the cluster.
func (d *Dataplane) Stats() (s state.Stats) {
	var sets []ipsets.Programmed
	d.with(func(c *core) { s, sets = c.stats(), c.cache.Programmed() })
	for _, set := range sets {
		s.Sets = append(s.Sets, state.SetStats(set))
	}
	slices.SortFunc(s.Sets, func(a, b state.SetStats) int { return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.ID, b.ID)) })
	return s
}

// stats returns the numbers of now, without the sets.
func (d *core) stats() state.Stats {
	now := d.clock
	s := state.Stats{
		Damped: map[string]int{drift.Set: 0, drift.ACL: 0},
	}
	d.desired.Count(&s)
	s.DriftFound, s.DriftRepaired = d.drift.Counts()
	for _, what := range d.drift.Flapping(now) {
		s.Damped[what.Kind()]++
	}
	d.endpoints.Count(&s)
	return s
}
