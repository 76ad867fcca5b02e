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

// Settings bound what is written at once, and say how often endpoints are looked at.
type Settings struct {
	MaxBatchedACLs int // in one Add
	MaxRepairs     int // endpoints that one transaction writes only because somebody else changed them
	LookPeriod     time.Duration
}

// Dependencies are what a State works on together with whoever writes the sets of the node.
type Dependencies struct {
	Cache   *ipsets.Cache
	Desired *desired.State
}

// State is the endpoints of a node: what is known of them, what they should have, and the
// queue of those that wait for an update. HNS bounds the endpoints, and the local pods
// those that wait. It is not safe for concurrent use.
type State struct {
	Spellings Spellings // of rules and of sets

	cfg     Settings
	cache   *ipsets.Cache
	desired *desired.State
	drift   driftLog // of sets too

	clock      time.Time // it does not go on by itself
	now        time.Time // when the last transaction began
	generation uint64    // of transactions

	byID      map[string]*Endpoint
	byAddr    map[netip.Addr][]*Endpoint
	fresh     map[string]*hns.Endpoint // what this transaction read, until something else may be there
	dirty     map[*Endpoint]bool       // to be rendered again
	turn      uint64                   // of the queue of pending updates: the last that was served
	lastTurns map[string]uint64        // by flow: the last turn that is taken, if it was not served
	listing   listing
	unread    map[string]*unreadEndpoint // enumerated and not read yet
	strangers map[string]backoff.Again   // enumerated, and elsewhere, by GUID in lower case; when they are read again
	lost      time.Time                  // an endpoint was found without its block: others may be, too
	found     []state.EndpointSeen       // endpoints seen for the first time, to be reported
	ruled     []state.PodStart           // pods that came to have their rules, to be reported
	conflicts state.Conflicts
}

// New returns a State that knows no endpoint, and wants them enumerated.
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

// Begin notes that a transaction begins.
func (d *State) Begin(generation uint64, now time.Time) {
	d.generation, d.now = generation, now
	clear(d.fresh)
	maps.DeleteFunc(d.lastTurns, func(_ string, turn uint64) bool { return turn <= d.turn })
}

// Fresh returns an endpoint as this transaction read it, nil if it has not, or if a write may
// have changed it since. Additions to it need no other read before them.
func (d *State) Fresh(id string) *hns.Endpoint { return d.fresh[id] }

// Endpoint returns the endpoint with a GUID, nil for none.
func (d *State) Endpoint(id string) *Endpoint { return d.byID[id] }

// IDs returns the GUIDs of the endpoints, in order.
func (d *State) IDs() []string { return slices.Sorted(maps.Keys(d.byID)) }

// Unsettled reports whether there may be endpoints that nobody knows of, whose rules need
// sets: the last enumeration failed or was empty although pods run, or what it showed is
// not read yet.
func (d *State) Unsettled() bool {
	return d.listing.unsettled || d.listing.err != nil || d.hasUnread()
}

// Report takes what is to be told of endpoints that were seen for the first time, and of pods
// that came to have their rules, by name.
func (d *State) Report() (found []state.EndpointSeen, ruled []state.PodStart) {
	found, ruled = d.found, d.ruled
	d.found, d.ruled = nil, nil
	slices.SortFunc(ruled, func(a, b state.PodStart) int { return cmp.Compare(a.Pod, b.Pod) })
	return found, ruled
}

// Follow marks the endpoints for what came up in the desired state.
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

// Wake has the endpoints that wait for sets tried in this transaction.
func (d *State) Wake() {
	for _, ep := range d.byID {
		if ep.waitsForSets() {
			ep.retryAt = time.Time{}
		}
	}
}

// SetsSeen takes that the sets in HNS may be others: what rules see of them is held, and
// pending updates pin what they may need.
func (d *State) SetsSeen() {
	for _, ep := range d.byID {
		d.hold(ep, ipsets.RefActual, d.namesOf(ep.actual))
		d.pin(ep)
	}
}

// Count puts the numbers of endpoints to those of a node.
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
func (d *State) Outstanding() int { return len(pending(d.byID)) + len(d.Waiting()) }

// Missing reports whether pods wait for an endpoint that HNS may have and did not show.
func (d *State) Missing() bool {
	return (d.listing.err != nil || d.hasUnread()) && len(d.Waiting()) > 0
}

// Spans returns the transactions of which something is not on endpoints yet.
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

// DueAgain adds when endpoints are enumerated, read or written again. With readOnly only
// enumerations and endpoints that nobody has read count.
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

// AskAgain adds when HNS is asked again for what it refused or could not show.
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
