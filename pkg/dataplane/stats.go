package dataplane

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/winnpm/winnpm/pkg/drift"
	"github.com/winnpm/winnpm/pkg/ipsets"
	"github.com/winnpm/winnpm/pkg/policy"
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
		Policies: len(d.policies), Pods: len(d.members.pods), Pinned: d.cache.Pinned(),
		Damped:          map[string]int{drift.Set: 0, drift.ACL: 0},
		ClusterPolicies: map[policy.Tier]int{},
		Conflicts:       d.conflicts, Refusals: maps.Clone(d.refusals), OverBudget: d.overCounts(),
	}
	s.DriftFound, s.DriftRepaired = d.drift.Counts()
	for _, cs := range d.clusters {
		s.ClusterPolicies[cs.Tier]++
	}
	for _, what := range d.drift.Flapping(now) {
		s.Damped[what.Kind()]++
	}
	since := func(t time.Time) {
		s.Pending++
		s.OldestPending = max(s.OldestPending, now.Sub(t))
	}
	for _, ep := range d.endpoints {
		s.ACLs += len(ep.actual)
		if ep.pending() {
			since(ep.since)
		}
	}
	for _, p := range d.waiting() {
		since(p.placed)
	}
	return s
}

// overCounts counts the objects that are over a budget, by kind.
func (d *core) overCounts() map[string]int {
	pods, namespaces := d.members.over.count()
	policies := map[policy.Key]bool{}
	maps.Copy(policies, d.closed())
	for ps := range d.crowds.closed {
		policies[ps.Key] = true
	}
	for ps := range d.namedPorts.over {
		policies[ps.Key] = true
	}
	for key := range d.problems {
		if slices.ContainsFunc(d.policies[key].Problems, func(p policy.Problem) bool { return p.Reason == policy.ReasonOverBudget }) {
			policies[key] = true
		}
	}
	return map[string]int{"policy": len(policies), "pod": pods, "namespace": namespaces}
}
