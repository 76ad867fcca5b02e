package dataplane

import (
	"maps"
	"slices"
	"strings"
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
	sequence  uint64 // of writes when the last one began
	// gone is when a write last found its endpoint gone, and endpoints were listed at
	// once.
	gone time.Time
}

// Each pod without an endpoint of its own is looked for once a second in its first
// minute. After that it is the look every lookEnumerate that finds it; where nobody
// looks, every 30 s.
const (
	listAgain  = time.Second
	listsFor   = time.Minute
	listFailed = 5 * time.Second // the longest pause after a failure
)

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
func (d *core) hasUnread() bool {
	for _, n := range d.unread {
		if n.Tries <= unreadTries {
			return true
		}
	}
	return false
}

// singles returns the endpoints that are due to be read by their GUIDs:
// first those that nobody has read, as pods may wait for them. Among the others
// reading goes on where it was left: one that fails slowly is due again before the
// others were read.
func (d *core) singles(now time.Time) []string {
	var fresh, known []string
	for id, n := range d.unread {
		if !n.At.After(now) {
			fresh = append(fresh, id)
		}
	}
	for id, ep := range d.endpoints {
		if (!ep.known() || ep.state.check) && !ep.retryAt.After(now) {
			known = append(known, id)
		}
	}
	rotate := func(ids []string) []string {
		slices.Sort(ids)
		at, _ := slices.BinarySearch(ids, d.readFrom)
		return slices.Concat(ids[at:], ids[:at])
	}
	// One that fails may be first for good, so those that never did go before it.
	fresh = rotate(fresh)
	slices.SortStableFunc(fresh, func(a, b string) int { return min(d.unread[a].Tries, 1) - min(d.unread[b].Tries, 1) })
	return slices.Concat(fresh, rotate(known))
}

// listDue reports whether the endpoints are to be enumerated now.
func (d *core) listDue(now time.Time) bool {
	at := d.listing.retry.At
	return d.listing.wanted || !at.IsZero() && !at.After(now)
}

// enumerated takes over an enumeration that began at a write sequence: new
// endpoints are unread, those that it lacks are checked. HNS may spell a GUID
// in either case.
func (d *core) enumerated(ids []string, sequence uint64) {
	seen, ours := d.meet(ids, sequence)
	maps.DeleteFunc(d.unread, func(id string, _ *unreadEndpoint) bool { return !seen[id] })
	if sequence >= d.listing.sequence { // no later one was first
		d.listing.sequence = sequence
		d.listing.unsettled = ours == 0 && len(d.local) > 0
	}
	for id, ep := range d.endpoints {
		if ep.moved > sequence {
			ep.state.outran()
		} else {
			ep.state.enumerated(seen[id], !d.listing.unsettled)
		}
	}
}

// meet takes over which endpoints are there: it returns those that we know, by the GUIDs
// under which we do, new ones included, and how many may be ours. Strangers that are not
// enumerated any more are forgotten.
func (d *core) meet(ids []string, sequence uint64) (seen map[string]bool, ours int) {
	seen = make(map[string]bool, len(ids))
	known := d.knownIDs()
	strangers := map[string]backoff.Again{}
	for _, id := range ids {
		key := strings.ToLower(id)
		if stranger, is := d.strangers[key]; is {
			if strangers[key] = stranger; !d.strangerDue(stranger) {
				continue
			}
		}
		ours++
		if is, ok := known[key]; ok {
			seen[is] = true
			continue
		}
		if d.moved[id] > sequence { // gone since
			continue
		}
		d.unread[id], seen[id], known[key] = &unreadEndpoint{came: d.clock}, true, id
	}
	d.strangers = strangers
	return seen, ours
}

// knownIDs returns the GUIDs of the endpoints that we know, by the same in small letters.
func (d *core) knownIDs() map[string]string {
	known := make(map[string]string, len(d.endpoints))
	for id := range d.endpoints {
		known[strings.ToLower(id)] = id
	}
	for id := range d.unread {
		known[strings.ToLower(id)] = id
	}
	return known
}

// strangerDue reports whether an endpoint that was elsewhere is read once more:
// a local pod has none, and one odd read is not to keep its own from it.
func (d *core) strangerDue(s backoff.Again) bool {
	return !s.At.After(d.clock) && len(d.waiting()) > 0
}

// unreadErrs returns why endpoints that are enumerated could not be read, of
// those that never were.
func (d *core) unreadErrs() map[string]error {
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

// lookAgain says when endpoints are enumerated next for the pods that have
// none of their own, zero for not. What unread ones turn out to be is seen then.
func (d *core) lookAgain() {
	now := d.clock
	if d.listing.err != nil {
		return // it is tried again
	}
	var next backoff.Due
	for _, p := range d.local {
		eps := d.byAddr[p.Addr]
		own := d.hasOwn(p) || p.inDoubt() && slices.ContainsFunc(eps, func(ep *endpoint) bool { return ep.bornFor == ep.owner }) // they came at once
		switch {
		case own && (p.Sandbox.ID == "" || !p.listed.IsZero()), d.foundOwn(p):
		case own:
			next.At(now.Add(listAgain))
		case len(eps) == 0 && now.Sub(p.placed) < listsFor:
			next.At(now.Add(listAgain))
		case len(eps) == 0:
			next.At(now.Add(backoff.Longest))
		default:
			next.At(d.inherits(p, eps))
		}
	}
	if d.listing.unsettled {
		d.listing.retry.Failed(d.now, now)
		return
	}
	d.listing.retry = backoff.Retry{At: next.First}
}
