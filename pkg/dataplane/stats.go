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
	d.with(func(c *core) {
		s.Damped = map[string]int{drift.Set: 0, drift.ACL: 0}
		for _, what := range c.drift.Flapping(c.clock) {
			s.Damped[what.Kind()]++
		}
		s.DriftFound, s.DriftRepaired = c.drift.Counts()
		c.desired.Count(&s)
		c.endpoints.Count(&s)
		sets = c.cache.Programmed()
	})
	for _, set := range sets {
		s.Sets = append(s.Sets, state.SetStats(set))
	}
	slices.SortFunc(s.Sets, func(a, b state.SetStats) int { return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.ID, b.ID)) })
	return s
}
