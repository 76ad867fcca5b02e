package desired

import (
	"time"

	"github.com/winnpm/winnpm/pkg/backoff"
	"github.com/winnpm/winnpm/pkg/ipsets"
	"github.com/winnpm/winnpm/pkg/state"
)

// PodState is a pod and what follows from it.
type PodState struct {
	*Pod
	*Placement // of a local pod; another one has none
	// member: its address is its own beyond doubt, so the address is in the pod's sets.
	member bool
	// owner: its claim to the address is the strongest, so it is the pod that is meant by it.
	owner bool
	// Home: endpoints of this node with the address are its, or may be.
	Home bool
	// early: its start was in the future when it came, and counts for nothing.
	early bool
}

// Claim says how strong the pod's claim to its address is.
func (p *PodState) Claim() ipsets.Claim {
	c := ipsets.Claim{UID: string(p.UID), Namespace: p.Namespace, Local: p.Local, Deleting: p.Deleting, Trust: p.Trust, Started: p.Started, Created: p.Created}
	if p.IsLost() {
		c.UID += " (deleted)" // the pod with this UID may come back, and then has a claim of its own
		c.Deleting = true     // every claim of a live pod is stronger
	}
	if p.early {
		c.Started = time.Time{}
	}
	return c
}

// inSets reports whether the pod is in sets. One that is over its budget is in none,
// whatever these say of pods without labels.
func (p *PodState) inSets() bool { return p.member && p.OverBudget == "" }

// Placement is what only a local pod has. All states of a pod share it.
type Placement struct {
	// selected are the policies that select the pod, or may, in the order in which they have
	// their say.
	selected []subjection
	// closed: they come to too many ACLs on the pod, so they only isolate it.
	closed bool
	// silent: they come to too many ACLs even so, and only Deny rules of ClusterNetworkPolicies
	// are in force.
	silent bool
	// cut is the index in numbersEach of the limit of numbers that holds on this pod.
	cut int
	// Listed is when all endpoints had been listed since its CNI told of its sandbox, which
	// comes after its endpoint: zero until then.
	Listed time.Time
	// Search counts the pauses after which it had endpoints of others only, and says when the
	// next one ends, however often endpoints are listed for other pods.
	Search backoff.Retry
	// Placed is when it became local with this address.
	Placed time.Time
	// Start is replaced and never changed; nil: the pod was there before we were, or no
	// policy isolated it when its endpoint was first right.
	Start *state.Start
}

// Claims reports whether the pod lays claim to its address. Host-network pods
// share the node's address, finished ones have given theirs up, and some addresses
// are nobody's.
func (p *PodState) Claims() bool {
	return ipsets.Assignable(p.Addr) && !p.HostNetwork && !p.Finished
}
