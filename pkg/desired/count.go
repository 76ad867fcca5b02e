package desired

import (
	"maps"
	"slices"

	"github.com/winnpm/winnpm/pkg/policy"
	"github.com/winnpm/winnpm/pkg/state"
)

// Count puts the numbers of objects to those of a node.
func (d *State) Count(s *state.Stats) {
	s.Policies, s.Pods, s.OverBudget = len(d.policies), len(d.members.pods)-len(d.lost), d.overCounts()
	s.ClusterPolicies = map[policy.Tier]int{}
	for _, cs := range d.clusters {
		s.ClusterPolicies[cs.Tier]++
	}
}

// overCounts counts the objects that are over a budget, by kind.
func (d *State) overCounts() map[string]int {
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
