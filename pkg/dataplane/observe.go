package dataplane

import (
	"context"
	"time"

	"github.com/winnpm/winnpm/pkg/hns"
)

// Look says what Observe reads of HNS. The zero Look reads nothing.
type Look struct {
	// Enumerate asks for the GUIDs of all endpoints: which came, and which are gone.
	Enumerate bool `json:"enumerate,omitempty"`
	// Sets reads the network with all our sets.
	Sets bool `json:"sets,omitempty"`
	// Endpoints are read one by one, by their GUIDs.
	Endpoints []string `json:"endpoints,omitempty"`
}

// Each look reads one object, so an event waits for one read at most. Endpoints are enumerated
// more often, because an endpoint that was made anew, with another GUID, is open until it is found.
const (
	lookEnumerate = 5 * time.Second
	lookTwice     = time.Second // until the second look at a set with unreadable members
)

// looks has the times of the last reads.
type looks struct {
	last       time.Time // the last look at the sets or an endpoint began
	enumerated time.Time
	sets       time.Time
}

// Observe reads what look says and records it as the actual state. It is a transaction that only
// reads: it holds the apply lock, so nothing is written between a read and its use. due is
// true if a transaction has work now, or if the time of the next work changed.
//
// The error comes from Client.Network or Client.EndpointIDs, or is the cause of ctx. An
// endpoint that cannot be read is no error: the next transaction reads it again.
func (d *Dataplane) Observe(ctx context.Context, look Look) (due bool, err error) {
	d.apply <- struct{}{}
	defer func() { <-d.apply }()
	r := d.begin(ctx, NewTransaction())
	defer d.unlock()
	r.endpoints.Begin(r.generation, r.started)
	before := r.nextDue()
	r.progress.Note("reading", "", "", "")
	err = r.observe(look)
	r.renderDirty()
	r.progress.move(place{})
	at := r.nextDue()
	return !at.Equal(before) || !at.IsZero() && !at.After(r.clock), err
}

// observe reads what look says and records it.
func (r *run) observe(look Look) error {
	if look.Sets || len(look.Endpoints) > 0 {
		r.looks.last = r.clock // an enumeration counts apart
	}
	if look.Sets {
		err := r.readSets(true)
		r.looks.sets = r.clock // also when it failed: the others are next
		if err != nil {
			return err
		}
	}
	if look.Enumerate {
		res := r.ask(hns.Request{Op: hns.OpEndpointIDs})
		r.looks.enumerated = r.clock // also when it failed
		if res.Err != nil {
			return res.Err
		}
		r.endpoints.TakeList(res.IDs, nil)
	}
	for _, id := range look.Endpoints {
		res := r.ask(hns.Request{Op: hns.OpEndpointGet, Endpoint: id})
		if r.ctx.Err() != nil {
			return context.Cause(r.ctx)
		}
		r.endpoints.TakeLook(id, res.Endpoint, res.Err)
	}
	return nil
}

// nextDue returns when the next empty transaction is due, zero for never.
func (n *nodeState) nextDue() time.Time {
	out := n.outstanding()
	out.Retry.At(out.Probe.First)
	return out.Retry.First
}

// NextLook returns what to observe next, and when; a time in the past means immediately. Callers must
// call it again after each observation and each transaction. It names the object that was read
// longest ago, and spreads the objects evenly over Config.LookPeriod.
func (d *Dataplane) NextLook() (next Look, at time.Time) {
	d.with(func(n *nodeState) { next, at = n.nextLook() })
	return next, at
}

// nextLook implements NextLook.
func (n *nodeState) nextLook() (Look, time.Time) {
	oldest, read, count := n.endpoints.Oldest()
	next, seen := Look{Sets: true}, n.looks.sets
	if oldest != "" && read.Before(seen) {
		next, seen = Look{Endpoints: []string{oldest}}, read
	}
	// No object is read twice within a tenth of the period. After an endpoint lost its block, all
	// objects that were read before are due immediately, because HNS may have lost more.
	at := n.looks.last.Add(n.cfg.LookPeriod / time.Duration(count+1)) // the endpoints and the sets
	if earliest := seen.Add(n.cfg.LookPeriod / 10); seen.Before(n.endpoints.Lost()) {
		at = seen
	} else if at.Before(earliest) {
		at = earliest
	}
	if twice := n.looks.sets.Add(lookTwice); n.cache.Doubted() && twice.Before(at) {
		next, at = Look{Sets: true}, twice
	}
	if enumerate := n.looks.enumerated.Add(lookEnumerate); !at.Before(enumerate) {
		return Look{Enumerate: true}, enumerate
	}
	return next, at
}

// lookAge returns the time since the oldest last read of an object.
func (n *nodeState) lookAge() time.Duration {
	age := n.endpoints.LookAge()
	if !n.looks.sets.IsZero() {
		age = max(age, n.clock.Sub(n.looks.sets))
	}
	return age
}
