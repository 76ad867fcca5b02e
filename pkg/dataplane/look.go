package dataplane

import (
	"crypto/sha256"
	"time"

	"github.com/winnpm/winnpm/pkg/endpoints"
	"github.com/winnpm/winnpm/pkg/ipsets"
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

// looks are when what was last read.
type looks struct {
	last       time.Time // the last look at the sets or an endpoint began
	enumerated time.Time
	sets       time.Time
	digest     [sha256.Size]byte // of the sets that an observation brought in last
}

// Observation is what the reconciler read from HNS, stamped with the state of
// the dataplane when the reading began. It is handed back in a Transaction.
type Observation struct {
	seen endpoints.Seen // of endpoints; it knows when the reading began, and whether it is of everything
	// sets are ours, when the network was read; digest is theirs.
	sets     []ipsets.Observed
	digest   [sha256.Size]byte
	setsRead bool
}

// empty reports whether an observation says nothing that is new.
func (obs *Observation) empty() bool {
	return !obs.setsRead && obs.seen.Empty()
}
