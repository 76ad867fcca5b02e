package state

import (
	"time"

	"github.com/winnpm/winnpm/pkg/policy"
)

// Stats has the numbers of a snapshot, for metrics.
type Stats struct {
	Policies int // NetworkPolicies of the whole cluster
	// ClusterPolicies counts the ClusterNetworkPolicies of the cluster by tier.
	ClusterPolicies map[policy.Tier]int
	Pods            int // of the whole cluster
	ACLs            int // ours, known to be on endpoints
	Sets            []SetStats
	// Pending is the number of outstanding pod updates, including those of pods whose endpoint was
	// not seen yet. OldestPending is the age of the oldest one.
	Pending       int
	OldestPending time.Duration
	// DriftFound counts changes that other programs made to our objects, by kind (set, acl).
	// DriftRepaired counts the repairs, which are the Repairs of all reports.
	DriftFound, DriftRepaired map[string]uint64
	// Damped is the number of objects that another program keeps changing, by kind.
	Damped    map[string]int
	Conflicts Conflicts
}

// Conflicts counts writes to endpoints that conflicted with a write of another program.
type Conflicts struct {
	Before uint64 // not written, because the endpoint had changed since the plan
	After  uint64 // written, and the read after the write showed something else
}

// SetStats describes one set in HNS, as last known.
type SetStats struct {
	ID, Name string
	Nested   bool
	Entries  int // members, including the permanent one of a nested set
}
