package endpoints

import (
	"errors"
	"net/netip"
	"time"

	"github.com/winnpm/winnpm/pkg/acl"

	"k8s.io/apimachinery/pkg/types"

	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/pkg/hns/versioned"
	"github.com/winnpm/winnpm/pkg/ipsets"
	"github.com/winnpm/winnpm/pkg/policy"
	"github.com/winnpm/winnpm/pkg/state"
)

// Endpoint is one local HNS endpoint. Applied state belongs to its GUID; the
// desired rules belong to the pod that owns its address.
type Endpoint struct {
	ID    string
	addrs []netip.Addr // IPv4 addresses
	ipv6  []netip.Addr // IPv6 addresses
	owner types.UID    // UID of the pod that owns the endpoint, or ""
	state endpointState

	// As last known: what a write is planned from. After a write with an unknown outcome
	// there is no version, actual is empty, and attempts has every list that may be there.
	version  hns.Version
	foreign  []hns.EndpointPolicy
	open     hns.Defaults // of foreign
	actual   []hns.ACL
	attempts [][]hns.ACL
	seen     time.Time // when it was last read
	// exposed: it had its block, and a read shows that it has not. It is apart from state,
	// as it outlasts writes that break off, until the endpoint is right.
	exposed bool
	blind   int // blocks that were added since it was last read

	// bornFor is the first pod that owned it. Another one that gets the address
	// has inherited the endpoint, and its own may be yet to come.
	bornFor types.UID
	bornIn  string // its sandbox then, "" if the CNI did not tell
	// came is when it was first listed, zero when that was by a write.
	came time.Time
	// netns is the GUID of the HNS namespace that it was last seen in, "" for none.
	netns string
	// writtenFor is the pod for which the endpoint was last seen to be right. As
	// long as that is not its owner, the block rule goes first.
	writtenFor types.UID

	desired  acl.List
	rejected map[policy.Key]quarantine // policies that are quarantined here, and shared rules
	bisection

	turn      uint64     // in the queue of pending updates; 0: it is settled
	flow      string     // of that queue, in which it waits
	conflicts int        // conflicts since it was last right
	since     time.Time  // when it joined the queue
	changedIn state.Span // the transactions that changed the desired rules, from the first that it waits for
	// repair: what is pending is only due to what somebody else did in HNS. It is apart
	// from state, as it is why the endpoint waits, and known before it does.
	repair  bool
	tries   int
	retryAt time.Time
	lastErr error

	holds map[ipsets.RefKind][]ipsets.Name // what it holds, in order
}

// Actual returns our rules that the endpoint has, as far as is known; nobody changes them.
func (ep *Endpoint) Actual() []hns.ACL { return ep.actual }

// Version returns the version that the next write is planned from, "" while it is not known.
func (ep *Endpoint) Version() hns.Version { return ep.version }

// Known reports whether the rules are known: the outcome of every write is. Until it is,
// nothing is written but a block (TakeBlindAdd).
func (ep *Endpoint) Known() bool { return ep.state.rules == rulesKnown }

// Pending reports whether the endpoint waits in the queue of pending updates.
func (ep *Endpoint) Pending() bool { return ep.state.update != updateSettled }

// Bisecting reports whether it is being found out what of the endpoint's rules HNS rejects.
func (ep *Endpoint) Bisecting() bool { return ep.state.update == updateBisecting }

// Fought reports whether somebody else undoes what is written to an endpoint that
// was right before: its next write comes at once the first time, with the block
// first, and then as often as for any other object that is changed all the time. The
// same goes for an endpoint on which HNS takes every write and shows none: each Add more
// is one copy more.
func (ep *Endpoint) Fought(c *versioned.Conflict) bool {
	return ep.writtenFor == ep.owner || c.Written && c.Cause == nil && ep.conflicts >= quietConflicts
}

// updatable reports whether rules are desired for the endpoint.
func (ep *Endpoint) updatable() bool { return ep.owner != "" }

// possible returns every list of ours that may be on the endpoint.
func (ep *Endpoint) possible() [][]hns.ACL {
	if ep.Known() {
		return [][]hns.ACL{ep.actual}
	}
	return ep.attempts
}

// ErrSetsNotReady is that an ACL waits for a set that could not be written.
var ErrSetsNotReady = errors.New("waits for a set that could not be written")

// waitsForSets reports whether the last try failed as sets were not ready.
func (ep *Endpoint) waitsForSets() bool { return errors.Is(ep.lastErr, ErrSetsNotReady) }

// quietConflicts is how many conflicts in a row are nobody's concern.
const quietConflicts = 2

// Outstanding reports whether there is something to write to the endpoint.
func (ep *Endpoint) Outstanding() bool { return ep.updatable() && (ep.Pending() || !ep.Known()) }
