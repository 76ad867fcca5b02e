package dataplane

import (
	"cmp"
	"crypto/sha256"
	"time"
)

// Look says what an observation reads of HNS. The zero Look reads nothing.
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

// looks are when what was last read..
type looks struct {
	last       time.Time // the last look at the sets or an endpoint began
	enumerated time.Time
	sets       time.Time
	digest     [sha256.Size]byte // of the sets that an observation brought in last
	lost       time.Time         // an endpoint was found without its block: others may be, too
}

// NextLook returns what is to be observed next, and when: in the past for at once.
// It is asked again after each observation and each transaction. Objects take
// turns, the one that was read longest ago first, evenly over the period.
func (d *Dataplane) NextLook() (next Look, at time.Time) {
	d.with(func(c *core) { next, at = c.nextLook() })
	return next, at
}

func (d *core) nextLook() (Look, time.Time) {
	var oldest *endpoint
	n := 1 // the sets
	for id, ep := range d.endpoints {
		if ep.queued > 0 || !ep.known() || d.check[id] {
			continue // it is read before it is written
		}
		n++
		if oldest == nil || cmp.Or(ep.seen.Compare(oldest.seen), cmp.Compare(id, oldest.id)) < 0 {
			oldest = ep
		}
	}
	// What was seen longest ago is next: the sets or an endpoint.
	next, seen := Look{Sets: true}, d.looks.sets
	if oldest != nil && oldest.seen.Before(seen) {
		next, seen = Look{Endpoints: []string{oldest.id}}, oldest.seen
	}
	// Its turn comes, but what was read just now can wait. When all was, this comes on
	// top of the period. After a loss what was read before it is due at once: HNS may
	// have lost more.
	at := d.looks.last.Add(d.cfg.LookPeriod / time.Duration(n))
	if earliest := seen.Add(d.cfg.LookPeriod / 10); seen.Before(d.looks.lost) {
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
	var age time.Duration
	if !d.looks.sets.IsZero() {
		age = now.Sub(d.looks.sets)
	}
	for _, ep := range d.endpoints {
		if ep.known() {
			age = max(age, now.Sub(ep.seen))
		}
	}
	return age
}
