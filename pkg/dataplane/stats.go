package dataplane

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/winnpm/winnpm/pkg/ipsets"
	"github.com/winnpm/winnpm/pkg/pieces"
	"github.com/winnpm/winnpm/pkg/policy"
)

// Stats is a snapshot in numbers, for metrics.
type Stats struct {
	Policies int // NetworkPolicies of the whole cluster
	// ClusterPolicies counts the ClusterNetworkPolicies of the cluster by tier.
	ClusterPolicies map[policy.Tier]int
	Pods            int // of the whole cluster
	ACLs            int // ours, known to be on endpoints
	Sets            []SetStats
	// Pending is the number of pod updates that are outstanding, those of pods
	// included whose endpoint was not seen; OldestPending is for how long the
	// first of them has been.
	Pending       int
	OldestPending time.Duration
	Pinned        int // sets that a pending update may need
	// DriftFound counts what somebody else changed of ours, by kind (set, acl);
	// DriftRepaired what of that was written again: the Repairs of all reports.
	DriftFound, DriftRepaired map[string]uint64
	// Disputed is the number of objects that somebody else keeps changing, by kind.
	Disputed  map[string]int
	Conflicts Conflicts
	// OverBudget is the number of objects that are closed, wholly or in part, because
	// they are over a budget, by kind: policy, pod, namespace. Of the whole cluster.
	OverBudget map[string]int
	// Refusals counts, by HRESULT, the writes to endpoints that HNS refused, and the
	// times that it refused a set alone. After 256 codes more are counted under
	// OtherCodes.
	Refusals map[uint32]uint64
}

// Conflicts counts the writes to endpoints that somebody else came in between.
type Conflicts struct {
	Before uint64 // not written: the endpoint was not what the write was planned from
	After  uint64 // written, and then something else was there
}

// SetStats is one set in HNS, as far as known.
type SetStats struct {
	ID, Name string
	Nested   bool
	Entries  int // members, a nested set's permanent one included
	Bytes    int // of its value
}

// Stats returns a snapshot in numbers, sets by name. It never waits for HNS, holds
// up a transaction for a piece at most, and costs the sets and ACLs of the node,
// not the pods of the cluster.
func (d *Dataplane) Stats() (s Stats) {
	d.walking.Lock()
	defer d.walking.Unlock()
	var sets *ipsets.Copying
	d.with(func(c *core) { s, sets = c.copyStats(d.pace()) })
	for _, set := range sets.Programmed() {
		s.Sets = append(s.Sets, SetStats(set))
	}
	slices.SortFunc(s.Sets, func(a, b SetStats) int { return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.ID, b.ID)) })
	return s
}

// copyStats returns the numbers of now, and the sets with their heads.
func (d *core) copyStats(pace pieces.Pace) (Stats, *ipsets.Copying) {
	now := d.clock
	s := Stats{
		Policies: len(d.policies), Pods: len(d.members.pods), Pinned: d.cache.Pinned(),
		DriftFound: maps.Clone(d.drift.found), DriftRepaired: maps.Clone(d.drift.repaired),
		Disputed:        map[string]int{driftSet: 0, driftACL: 0},
		ClusterPolicies: map[policy.Tier]int{},
		Conflicts:       d.conflicts, Refusals: maps.Clone(d.refusals), OverBudget: d.overCounts(),
	}
	for _, cs := range d.clusters {
		s.ClusterPolicies[cs.Tier]++
	}
	for _, what := range d.flapping(now) {
		s.Disputed[what.kind()]++
	}
	since := func(t time.Time) {
		s.Pending++
		s.OldestPending = max(s.OldestPending, now.Sub(t))
	}
	for _, ep := range d.endpoints {
		s.ACLs += len(ep.actual)
		if ep.queued > 0 {
			since(ep.since)
		}
	}
	for _, p := range d.waiting() {
		since(p.placed)
	}
	sets := d.cache.Begin()
	defer sets.End()
	sets.Heads(pace)
	return s, sets
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
