package endpoints

import (
	"cmp"
	"maps"
	"net/netip"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/winnpm/winnpm/pkg/backoff"
	"github.com/winnpm/winnpm/pkg/desired"
	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/pkg/ipsets"
	"github.com/winnpm/winnpm/pkg/state"
)

// Settings bound the size of writes, and say how often endpoints are looked at.
type Settings struct {
	MaxBatchedACLs int // in one Add
	MaxRepairs     int // endpoints that one transaction writes only because another program changed them
	LookPeriod     time.Duration
}

// Dependencies are what a State shares with the package that writes the sets of the node.
type Dependencies struct {
	Cache   *ipsets.Cache
	Desired *desired.State
}

// State has the endpoints of a node: their actual and desired rules, and the queue of those that
// wait for an update. The endpoints in HNS bound its size. It is not safe for concurrent use.
type State struct {
	Spellings Spellings // of rules and of sets

	cfg     Settings
	cache   *ipsets.Cache
	desired *desired.State
	drift   driftLog // of sets too

	clock      time.Time // as Tick set it
	now        time.Time // when the last transaction began
	generation uint64    // of transactions

	byID      map[string]*Endpoint
	byAddr    map[netip.Addr][]*Endpoint
	fresh     map[string]*hns.Endpoint // as this transaction read them, until a write may have changed them
	dirty     map[*Endpoint]bool       // to be rendered again
	turn      uint64                   // of the queue of pending updates: the last that was served
	lastTurns map[string]uint64        // by flow: the last turn that is taken, if it was not served
	listing   listing
	unread    map[string]*unreadEndpoint // enumerated and not read yet
	strangers map[string]backoff.Again   // endpoints of other networks or nodes, by GUID in lower case, and when they are read again
	lost      time.Time                  // when an endpoint was last found without its block
	found     []state.EndpointSeen       // endpoints seen for the first time, to be reported
	ruled     []state.PodStart           // pods that have their rules for the first time, to be reported
	conflicts state.Conflicts
}

// New returns a State without endpoints, which enumerates them first.
func New(cfg Settings, with Dependencies) *State {
	d := &State{
		cfg: cfg, cache: with.Cache, desired: with.Desired, drift: newDriftLog(),
		byID:      map[string]*Endpoint{},
		byAddr:    map[netip.Addr][]*Endpoint{},
		fresh:     map[string]*hns.Endpoint{},
		dirty:     map[*Endpoint]bool{},
		lastTurns: map[string]uint64{},
		unread:    map[string]*unreadEndpoint{},
		strangers: map[string]backoff.Again{},
	}
	d.listing.wanted = true // the first transaction reads what is there
	return d
}

// Tick sets the clock.
func (d *State) Tick(now time.Time) { d.clock = now }

// Begin records the start of a transaction.
func (d *State) Begin(generation uint64, now time.Time) {
	d.generation, d.now = generation, now
	clear(d.fresh)
	maps.DeleteFunc(d.lastTurns, func(_ string, turn uint64) bool { return turn <= d.turn })
}

// Fresh returns an endpoint as this transaction read it, or nil if it did not, or if a write may
// have changed the endpoint since. An Add to a fresh endpoint needs no other read before.
func (d *State) Fresh(id string) *hns.Endpoint { return d.fresh[id] }

// Endpoint returns the endpoint with a GUID, nil for none.
func (d *State) Endpoint(id string) *Endpoint { return d.byID[id] }

// IDs returns the GUIDs of the endpoints, in order.
func (d *State) IDs() []string { return slices.Sorted(maps.Keys(d.byID)) }

// Unsettled reports whether there may be unknown endpoints whose rules need sets: the last
// enumeration failed, or was empty although pods run, or listed an endpoint that is not
// read yet.
func (d *State) Unsettled() bool {
	return d.listing.unsettled || d.listing.err != nil || d.hasUnread()
}

// Report returns the endpoints that were seen for the first time since the last call, and the
// pods that have their rules for the first time, by name.
func (d *State) Report() (found []state.EndpointSeen, ruled []state.PodStart) {
	found, ruled = d.found, d.ruled
	d.found, d.ruled = nil, nil
	slices.SortFunc(ruled, func(a, b state.PodStart) int { return cmp.Compare(a.Pod, b.Pod) })
	return found, ruled
}

// Follow applies the effects of a change of the desired state: it marks endpoints to be rendered
// or read again, and starts the search for the endpoints of new pods.
func (d *State) Follow(came desired.Effects) {
	if came.All {
		for _, ep := range d.byID {
			d.mark(ep)
		}
	}
	for addr := range came.Changed {
		for _, ep := range d.byAddr[addr] {
			d.mark(ep)
		}
	}
	for addr := range came.Check {
		for _, ep := range d.byAddr[addr] {
			ep.state.check = true
		}
	}
	for _, p := range came.Came {
		d.seek(p)
	}
}

// Wake makes the endpoints that wait for sets due in this transaction.
func (d *State) Wake() {
	for _, ep := range d.byID {
		if ep.waitsForSets() {
			ep.retryAt = time.Time{}
		}
	}
}

// SetsSeen updates the references and pins of all endpoints after the sets were read, because
// rules may name sets that were unknown before.
func (d *State) SetsSeen() {
	for _, ep := range d.byID {
		d.hold(ep, ipsets.RefActual, d.namesOf(ep.actual))
		d.pin(ep)
	}
}

// Count sets the numbers about endpoints.
func (d *State) Count(s *state.Stats) {
	s.Conflicts = d.conflicts
	d.countDrift(s)
	since := func(t time.Time) {
		s.Pending++
		s.OldestPending = max(s.OldestPending, d.clock.Sub(t))
	}
	for _, ep := range d.byID {
		s.ACLs += len(ep.actual)
		if ep.Pending() {
			since(ep.since)
		}
	}
	for _, p := range d.Waiting() {
		since(p.Placed)
	}
}

// Pod returns the name of the pod that an endpoint belongs to, "" for
// none.
func (d *State) Pod(ep *Endpoint) string {
	if ep == nil {
		return ""
	}
	return d.podOf(ep.owner)
}

// podOf returns the name of the local pod with a UID, "" for none.
func (d *State) podOf(uid types.UID) string {
	if p := d.desired.Local(uid); p != nil {
		return p.Key().String()
	}
	return ""
}

// Outstanding counts the endpoints that wait for an update, and the pods whose endpoint was
// not seen.
func (d *State) Outstanding() int {
	n := len(d.Waiting())
	for _, ep := range d.byID {
		if ep.Pending() {
			n++
		}
	}
	return n
}

// Missing reports whether pods wait for an endpoint that HNS may have but did not show.
func (d *State) Missing() bool {
	return (d.listing.err != nil || d.hasUnread()) && len(d.Waiting()) > 0
}

// Spans returns the transactions whose changes are not all on endpoints yet.
func (d *State) Spans() (out []state.Span) {
	var all []state.Span
	for _, ep := range d.byID {
		if ep.Pending() {
			all = append(all, ep.changedIn)
		}
	}
	slices.SortFunc(all, func(a, b state.Span) int { return cmp.Compare(a.From, b.From) })
	for _, s := range all {
		if n := len(out); n > 0 && s.From <= out[n-1].To+1 {
			out[n-1].To = max(out[n-1].To, s.To)
		} else {
			out = append(out, s)
		}
	}
	return out
}

// DueAgain adds the times at which endpoints are enumerated, read or written again. With readOnly
// only enumerations and unread endpoints count.
func (d *State) DueAgain(next *backoff.Due, readOnly bool) {
	next.At(d.listing.retry.At)
	if d.listing.wanted {
		next.At(d.clock)
	}
	for _, n := range d.unread {
		if n.Tries == 0 {
			next.At(d.clock)
		}
	}
	for _, ep := range d.byID {
		if !readOnly && (ep.Pending() || !ep.Known() || ep.state.check) {
			next.At(cmp.Or(ep.retryAt, d.clock))
		}
	}
}

// AskAgain adds the times at which HNS is asked again about quarantined policies and unread
// endpoints.
func (d *State) AskAgain(next *backoff.Due) {
	now := d.clock
	for _, n := range d.unread {
		next.At(n.At)
	}
	for _, ep := range d.byID {
		if ep.owner == "" {
			continue
		}
		for _, q := range ep.rejected {
			if q.At.After(now) {
				next.At(q.At)
			}
		}
	}
	if len(d.DueQuarantines(now)) > 0 { // what is due and cannot be tried waits for something else
		next.At(now)
	}
}
