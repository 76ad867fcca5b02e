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

// Tracked is one local HNS endpoint. Its actual state belongs to its GUID, its desired
// rules to the pod that owns its address.
type Tracked struct {
	ID    string
	addrs []netip.Addr // IPv4 addresses
	ipv6  []netip.Addr // IPv6 addresses
	owner types.UID    // UID of the pod that owns the endpoint, or ""
	state endpointState

	// The last known state, from which the next write is planned. After a write with an unknown
	// outcome Version and Actual are empty, and attempts has every list that may be in HNS.
	Version  hns.Version
	Actual   []hns.ACL // our rules; the slice is immutable
	foreign  []hns.EndpointPolicy
	open     hns.Defaults // the defaults that foreign gives
	attempts [][]hns.ACL
	seen     time.Time // when it was last read
	// exposed: the endpoint had its block, and a read shows that the block is gone. It lasts
	// until the endpoint is right, also while writes have unknown outcomes.
	exposed bool
	blind   int // unread additions of blocks since it was last read

	// bornFor is the first pod that owned it. A later pod with the address has only
	// inherited the endpoint, and may still get one of its own.
	bornFor types.UID
	bornIn  string // its sandbox then, "" if the CNI did not tell
	// came is when it was first listed.
	came time.Time
	// netns is the GUID of the HNS namespace that it was last seen in, "" for none.
	netns string
	// writtenFor is the pod for which the endpoint was last right. While that is not the
	// owner, the block rule goes first.
	writtenFor types.UID

	desired  acl.List
	rejected map[policy.Key]quarantine // policies that HNS rejected here, and shared rules
	// relist computes these from desired, rejected and open.
	out  map[policy.Key]bool // policies and shared rules that are quarantined
	list []hns.ACL           // the complete list that the endpoint should have
	bisection

	turn      uint64     // in the queue of pending updates; 0: it is settled
	flow      string     // of that queue, in which it waits
	conflicts int        // conflicts since it was last right
	since     time.Time  // when it joined the queue
	changedIn state.Span // the transactions that changed the desired rules, from the first that it waits for
	// repair: the pending update only undoes changes of another program.
	repair  bool
	tries   int
	retryAt time.Time
	lastErr error

	holds map[ipsets.RefKind][]ipsets.Name // the sets that it holds, sorted
}

// Known reports whether the rules in HNS are known. While the outcome of a write is unknown,
// only a block is written (TakeBlindAdd).
func (ep *Tracked) Known() bool { return ep.state.rules == rulesKnown }

// Pending reports whether the endpoint waits in the queue of pending updates.
func (ep *Tracked) Pending() bool { return ep.state.update != updateSettled }

// Bisecting reports whether the endpoint's policies are being bisected.
func (ep *Tracked) Bisecting() bool { return ep.state.update == updateBisecting }

// Fought reports whether a conflict must not lead to isolation, for one of two reasons. Either
// another program undoes the writes to an endpoint that was right before: then the first retry
// comes without delay and has the block, and later ones are damped as for any object that another
// program keeps changing. Or HNS accepts every write and shows none, so each further Add might
// only add another copy.
func (ep *Tracked) Fought(c *versioned.Conflict) bool {
	return ep.writtenFor == ep.owner || c.Written && c.Cause == nil && ep.conflicts >= quietConflicts
}

// possible returns every list of our rules that the endpoint may have.
func (ep *Tracked) possible() [][]hns.ACL {
	if ep.Known() {
		return [][]hns.ACL{ep.Actual}
	}
	return ep.attempts
}

// ErrSetsNotReady is the error of an update that names a set which could not be written yet.
var ErrSetsNotReady = errors.New("waits for a set that could not be written")

// waitsForSets reports whether the last try failed because sets were not ready.
func (ep *Tracked) waitsForSets() bool { return errors.Is(ep.lastErr, ErrSetsNotReady) }

// quietConflicts is how many conflicts in a row cause no warning.
const quietConflicts = 2

// Outstanding reports whether there is something to write to the endpoint.
func (ep *Tracked) Outstanding() bool { return ep.owner != "" && (ep.Pending() || !ep.Known()) }
