package endpoints

import (
	"errors"
	"net/netip"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/winnpm/winnpm/pkg/acl"
	"github.com/winnpm/winnpm/pkg/backoff"
	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/pkg/hns/versioned"
	"github.com/winnpm/winnpm/pkg/ipsets"
	"github.com/winnpm/winnpm/pkg/policy"
	"github.com/winnpm/winnpm/pkg/render"
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
	moved    uint64    // the write sequence when the actual view last changed
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

	desired render.Rules
	refused map[policy.Key]refusal // what HNS refuses of a policy, or of the shared rules
	// distrusted: what was accepted before is refused now. It is apart from state, as it
	// outlasts what is desired, until HNS takes a write or refuses even the least.
	distrusted bool
	unlisted   int // answers in a row with a code that we do not know
	// compromises are what HNS refuses of a list of tiers, by rule; trial is how many
	// rules that are not there go into the next careful request.
	compromises map[hns.ACL]compromise
	trial       int

	turn     uint64 // in its subqueue of the queue of pending updates; 0: it is settled
	subqueue string // where it waits, while it does
	// changedBy is the policy whose change it waits for, the last of several.
	changedBy policy.Key
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

// Careful reports whether HNS refused the last write, so that steps are planned anew after
// each.
func (ep *Endpoint) Careful() bool { return ep.state.careful() }

// TookStep takes that HNS did a step of the update.
func (ep *Endpoint) TookStep() {
	if ep.Careful() {
		ep.trial = max(1, 2*ep.trial)
	}
}

// Fought reports whether somebody else undoes what is written to an endpoint that
// was right before: its next write comes at once the first time, with the block
// first, and then as often as for any other object that is changed all the time. The
// same goes for an endpoint on which HNS takes every write and shows none: each Add more
// is one copy more.
func (ep *Endpoint) Fought(c *versioned.Conflict) bool {
	return ep.writtenFor == ep.owner || c.Written && c.Cause == nil && ep.conflicts >= quietConflicts
}

// leave takes the endpoint out of the queue.
func (ep *Endpoint) leave() {
	ep.turn = 0
	ep.state.settle()
}

// updatable reports whether rules are desired for the endpoint.
func (ep *Endpoint) updatable() bool { return ep.owner != "" }

// list returns the complete list of our ACLs that should be on the endpoint,
// without what HNS refuses.
func (ep *Endpoint) list(rejected func(ipsets.Name) bool) []hns.ACL {
	if ep.desired.Tiers != nil {
		return ep.listTiers(ep.tierRules(rejected))
	}
	out := ep.shared()
	for _, g := range ep.desired.Groups {
		if ep.Refuses(g.Key, g.Digest) {
			continue
		}
		out = append(out, g.ACLs(rejected)...)
	}
	return out
}

// shared returns the rules that are no policy's own: node, block, and where the
// CNI gives none, the allow-all pair that any first ACL makes necessary. An endpoint that its
// CNI made closed has the pair also where no policy selects its pod. The slice is the caller's.
func (ep *Endpoint) shared() []hns.ACL {
	if len(ep.desired.Shared) == 0 && ep.desired.Tiers == nil && (ep.owner == "" || !ep.open.Closed) {
		return nil
	}
	shared := ep.desired.Shared
	if len(ep.refused) > 0 {
		shared = slices.DeleteFunc(slices.Clone(shared), func(a hns.ACL) bool { return ep.Refuses(render.RuleKey(a), render.RuleDigest(a)) })
	}
	return slices.Concat(acl.MissingDefaults(ep.open, shared), shared)
}

// possible returns every list of ours that may be on the endpoint.
func (ep *Endpoint) possible() [][]hns.ACL {
	if ep.Known() {
		return [][]hns.ACL{ep.actual}
	}
	return ep.attempts
}

// refusal is what HNS refuses, alone: a policy's rules on an endpoint, or one of
// the rules that policies share. There is one for each of them at most.
type refusal struct {
	digest string // of what was refused: what is another one is not refused
	backoff.Again
}

// Refuses reports whether HNS refuses these rules of an owner.
func (ep *Endpoint) Refuses(key policy.Key, digest string) bool {
	r, ok := ep.refused[key]
	return ok && r.digest == digest
}

// ErrSetsNotReady is that an ACL waits for a set that could not be written.
var ErrSetsNotReady = errors.New("waits for a set that could not be written")

// waitsForSets reports whether the last try failed as sets were not ready.
func (ep *Endpoint) waitsForSets() bool { return errors.Is(ep.lastErr, ErrSetsNotReady) }

// quietConflicts is how many conflicts in a row are nobody's concern.
const quietConflicts = 2

// Outstanding reports whether there is something to write to the endpoint.
func (ep *Endpoint) Outstanding() bool { return ep.updatable() && (ep.Pending() || !ep.Known()) }
