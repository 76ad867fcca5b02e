package desired

import (
	"github.com/winnpm/winnpm/pkg/policy"
	"github.com/winnpm/winnpm/pkg/state"
)

// Count puts the numbers of objects to those of a node.
func (d *State) Count(s *state.Stats) {
	s.Policies, s.Pods = len(d.policies), len(d.members.pods)-len(d.lost)
	s.ClusterPolicies = map[policy.Tier]int{}
	for _, cs := range d.clusters {
		s.ClusterPolicies[cs.Tier]++
	}
}
