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
	// All reads every endpoint that is known; a new one is read by the transaction.
	All bool `json:"all,omitempty"`
}

// Everything looks at all there is.
func Everything() Look { return Look{Enumerate: true, Sets: true, All: true} }

// Each object is looked at once in a period, in place of all at once: what HNS
// lost is found within it, and no event waits for more than one read. Endpoints
// are enumerated more often: one that was made anew, with another GUID, is open
// until it is found.
const (
	defaultLookPeriod = time.Minute
	lookEnumerate     = 5 * time.Second
	lookTwice         = time.Second // until the second look at a set that looks odd
)

// looks are when what was last read.
type looks struct {
	last       time.Time // the last look at the sets or an endpoint began
	enumerated time.Time
	sets       time.Time
}

// Observe reads what look says, and takes over what it shows. It is a transaction that only
// reads: it holds the apply lock, so nothing is written between a read and its use. due is
// true if a transaction has work now, or if the time of the next work changed.
//
// The error is that of Client.Network or Client.EndpointIDs, or the cause of ctx. An
// endpoint that cannot be read is no error: the next transaction reads it again.
func (d *Dataplane) Observe(ctx context.Context, look Look) (due bool, err error) {
	d.apply.Lock()
	defer d.apply.Unlock()
	d.progress.Begin()
	defer d.handle.release()
	d.lock()
	defer d.unlock()
	r := d.begin(ctx, NewTransaction())
	before := r.d.nextDue()
	r.d.progress.Note("looking", "", "", "")
	err = r.look(look)
	r.d.renderDirty()
	d.progress.End()
	at := r.d.nextDue()
	return !at.Equal(before) || !at.IsZero() && !at.After(r.d.clock), err
}

// look reads what an observation is about, and takes it over.
func (r *run) look(look Look) error {
	d, ids := r.d, look.Endpoints
	if look.All {
		ids = d.endpoints.IDs()
	}
	if look.Sets || look.All || len(ids) > 0 {
		d.looks.last = d.clock // an enumeration takes nobody's turn
	}
	if look.Sets {
		err := r.readSets(true)
		d.looks.sets = d.clock // also when it failed: others have their turn
		if err != nil {
			return err
		}
		d.awaitSets()
	}
	if look.Enumerate {
		res := r.ask(hns.Request{Op: hns.OpEndpointIDs})
		d.looks.enumerated = d.clock // also when it failed
		if res.Err != nil {
			return res.Err
		}
		d.endpoints.TakeList(res.IDs, nil)
	}
	for _, id := range ids {
		res := r.ask(hns.Request{Op: hns.OpEndpointGet, Endpoint: id})
		if r.ending() {
			return context.Cause(r.ctx)
		}
		d.endpoints.TakeLook(id, res.Endpoint, res.Err)
	}
	return nil
}

// NextLook returns what is to be observed next, and when: in the past for at once.
// It is asked again after each observation and each transaction. Objects take
// turns, the one that was read longest ago first, evenly over the period.
func (d *Dataplane) NextLook() (next Look, at time.Time) {
	d.with(func(c *core) { next, at = c.nextLook() })
	return next, at
}

// nextLook implements NextLook. The state lock must be held.
func (d *core) nextLook() (Look, time.Time) {
	oldest, read, n := d.endpoints.Oldest()
	n++ // the sets
	// What was seen longest ago is next: the sets or an endpoint.
	next, seen := Look{Sets: true}, d.looks.sets
	if oldest != "" && read.Before(seen) {
		next, seen = Look{Endpoints: []string{oldest}}, read
	}
	// Its turn comes, but what was read just now can wait. When all was, this comes on
	// top of the period. After a loss what was read before it is due at once: HNS may
	// have lost more.
	at := d.looks.last.Add(d.cfg.LookPeriod / time.Duration(n))
	if earliest := seen.Add(d.cfg.LookPeriod / 10); seen.Before(d.endpoints.Lost()) {
		at = seen
	} else if at.Before(earliest) {
		at = earliest
	}
	if twice := d.looks.sets.Add(lookTwice); d.cache.Doubted() && twice.Before(at) {
		next, at = Look{Sets: true}, twice
	}
	if enumerate := d.looks.enumerated.Add(lookEnumerate); !at.Before(enumerate) {
		return Look{Enumerate: true}, enumerate
	}
	return next, at
}

// lookAge returns for how long the object that was looked at longest ago
// has not been read.
func (d *core) lookAge(now time.Time) time.Duration {
	age := d.endpoints.LookAge()
	if !d.looks.sets.IsZero() {
		age = max(age, now.Sub(d.looks.sets))
	}
	return age
}
