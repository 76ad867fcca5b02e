package endpoints

import (
	"time"

	"github.com/winnpm/winnpm/pkg/backoff"
)

// listing says when endpoints are enumerated inside a transaction.
type listing struct {
	wanted bool          // by this transaction: a new UID on an address
	retry  backoff.Retry // while a pod looks for its endpoint, or after a failure
	err    error         // of the last one
	// unsettled: the last enumeration was empty while local pods run. Until it is
	// over no set is deleted.
	unsettled bool
}

// unreadEndpoint is one that was enumerated and never read. Enumerations bound
// their number, and reads end it: one that is elsewhere is a stranger from then on.
type unreadEndpoint struct {
	backoff.Retry
	came time.Time // when it was enumerated
	err  error     // of the last read, nil before the first
}

// unreadTries is how often the read of an unread endpoint fails until nothing waits for it
// any more: half a minute.
const unreadTries = 5

// hasUnread reports whether an endpoint was enumerated a moment ago and not read
// yet. Its rules may need sets that nothing else needs, and it may be that of a pod
// that waits. One that cannot be read at all keeps nothing up: HNS itself refuses to
// remove what its rules name.
func (d *State) hasUnread() bool {
	for _, n := range d.unread {
		if n.Tries <= unreadTries {
			return true
		}
	}
	return false
}

// unreadErrs returns why endpoints that are enumerated could not be read, of
// those that never were.
func (d *State) unreadErrs() map[string]error {
	if len(d.unread) == 0 {
		return nil
	}
	out := map[string]error{}
	for id, n := range d.unread {
		if n.err != nil {
			out[id] = n.err
		}
	}
	return out
}
