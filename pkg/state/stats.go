package state

import (
	"time"

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
	// DriftFound counts what somebody else changed of ours, by kind (set, acl);
	// DriftRepaired what of that was written again: the Repairs of all reports.
	DriftFound, DriftRepaired map[string]uint64
	// Damped is the number of objects that somebody else keeps changing, by kind.
	Damped    map[string]int
	Conflicts Conflicts
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
}
