// Package endpoints knows the endpoints of a node: the actual rules of each, as reads and writes
// showed them, its desired rules, and the queue of endpoints that wait for an update.
//
//	desired state (package desired) ─── Render ───────────────►┐
//	answers of HNS ──── TakeList, TakeRead, Wrote ────────────►├ Table ──► Due, NextSteps
//	looks (Observe) ─── TakeLook ─────────────────────────────►┘
//
// It makes no call and reads no clock. Package dataplane asks it for the next steps, sends them to
// HNS, and reports the outcome. The states of an endpoint are in state.go (ADR 25), the
// queue is in queue.go (ADR 20).
package endpoints

import (
	"maps"
	"net/netip"
	"time"

	"github.com/winnpm/winnpm/pkg/backoff"
	"github.com/winnpm/winnpm/pkg/desired"
	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/pkg/hns/versioned"
	"github.com/winnpm/winnpm/pkg/ipsets"
	"github.com/winnpm/winnpm/pkg/state"
)

// Settings bound the size of writes, and say how often endpoints are looked at.
type Settings struct {
	MaxBatchedACLs int // in one Add
	MaxRepairs     int // endpoints that one transaction writes only because another program changed them
	LookPeriod     time.Duration
	Node           string // for warnings
	DryRun         bool   // endpoints are only read
}

// Dependencies are what a Table shares with the package that writes the sets of the node.
type Dependencies struct {
	Cache   *ipsets.Cache
	Desired *desired.State
}

// Table has the endpoints of a node: their actual and desired rules, and the queue of endpoints
// that wait for an update. The endpoints in HNS bound its size. It is not safe for concurrent use.
type Table struct {
	Spellings Spellings // of rules and of sets
	Clock     time.Time // the time of the following calls, set by the caller

	cfg     Settings
	cache   *ipsets.Cache
	desired *desired.State
	drift   driftLog // of sets too

	now        time.Time // when the last transaction began
	generation uint64    // of transactions

	byID      map[string]*Tracked
	byAddr    map[netip.Addr][]*Tracked
	fresh     map[string]*hns.Endpoint // as this transaction read them, until a write may have changed them
	dirty     map[*Tracked]bool        // to be rendered again
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

// New returns a Table without endpoints, which enumerates them first.
func New(cfg Settings, with Dependencies) *Table {
	d := &Table{
		cfg: cfg, cache: with.Cache, desired: with.Desired, drift: newDriftLog(),
		byID:      map[string]*Tracked{},
		byAddr:    map[netip.Addr][]*Tracked{},
		fresh:     map[string]*hns.Endpoint{},
		dirty:     map[*Tracked]bool{},
		lastTurns: map[string]uint64{},
		unread:    map[string]*unreadEndpoint{},
		strangers: map[string]backoff.Again{},
	}
	d.listing.wanted = true // the first transaction reads what is there
	return d
}

// Begin records the start of a transaction.
func (d *Table) Begin(generation uint64, now time.Time) {
	d.generation, d.now = generation, now
	clear(d.fresh)
	maps.DeleteFunc(d.lastTurns, func(_ string, turn uint64) bool { return turn <= d.turn })
}

// Writer returns a Writer for an endpoint; the caller sets Ask. Its Add makes no read before the write
// if this transaction read the endpoint, and no write may have changed it since.
func (d *Table) Writer(id string) versioned.Writer {
	return versioned.Writer{Seen: d.fresh[id], Cut: d.Spellings.cut, Ours: d.Spellings.ours, Learn: d.Spellings.Learn}
}

// Endpoint returns the endpoint with a GUID, nil for none.
func (d *Table) Endpoint(id string) *Tracked { return d.byID[id] }

// Wake makes the endpoints that wait for sets due in this transaction.
func (d *Table) Wake() {
	for _, ep := range d.byID {
		if ep.waitsForSets() {
			ep.retryAt = time.Time{}
		}
	}
}

// SetsSeen updates the references and pins of all endpoints after the sets were read, because
// rules may name sets that were unknown before.
func (d *Table) SetsSeen() {
	for _, ep := range d.byID {
		d.hold(ep, ipsets.RefActual, namesOf(d.cache.Lookup, ep.Actual))
		d.pin(ep)
	}
}

// podOf returns the name of the local pod that an endpoint belongs to, "" for none.
func (d *Table) podOf(ep *Tracked) string {
	if ep == nil {
		return ""
	}
	if p := d.desired.Local(ep.owner); p != nil {
		return p.Key().String()
	}
	return ""
}
