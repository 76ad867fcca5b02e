package endpoints

import (
	"cmp"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/winnpm/winnpm/pkg/backoff"
	"github.com/winnpm/winnpm/pkg/hns"
)

// listing says when endpoints are enumerated inside a transaction.
type listing struct {
	wanted bool          // the next transaction enumerates, as a pod is new on an address
	retry  backoff.Retry // while a pod looks for its endpoint, or after a failure
	err    error         // of the last enumeration
	gone   time.Time     // when one was last wanted because the endpoint of a running pod was gone
	// unsettled: the last enumeration was empty while local pods run. Meanwhile no set
	// is deleted.
	unsettled bool
}

// unreadEndpoint is an endpoint that was enumerated and never read. Enumerations bound their
// number. After a read, an endpoint of another network or node is a stranger.
type unreadEndpoint struct {
	backoff.Retry
	came time.Time // when it was enumerated
	err  error     // of the last read, nil before the first
}

// unreadTries is the number of failed reads of an unread endpoint after which nothing waits for
// the endpoint any more. They take half a minute.
const unreadTries = 5

// hasUnread reports whether an endpoint was enumerated a moment ago and not read yet. Its rules
// may need sets that nothing else needs, and it may belong to a pod that waits. An endpoint
// that cannot be read for long does not count: HNS itself refuses to remove the sets that
// its rules name.
func (d *Table) hasUnread() bool {
	for _, n := range d.unread {
		if n.Tries <= unreadTries {
			return true
		}
	}
	return false
}

// Each pod without an endpoint of its own is looked for once a second in its first
// minute. After that the looks find it (pkg/dataplane/observe.go); without looks it is looked for
// every 30 s.
const (
	listAgain  = time.Second
	listsFor   = time.Minute
	listFailed = 5 * time.Second // the longest pause after a failure
)

// Singles returns the endpoints that are due to be read by their GUIDs now: first the unread ones,
// as pods may wait for them. Within each group the one that has been due longest is first, so
// one whose reads fail slowly does not keep others from being read.
func (d *Table) Singles(now time.Time) []string {
	type read struct {
		id   string
		due  time.Time
		rank int
	}
	var reads []read
	for id, n := range d.unread {
		reads = append(reads, read{id, n.At, 0})
	}
	for id, ep := range d.byID {
		if !ep.Known() || ep.state.check {
			reads = append(reads, read{id, ep.retryAt, 1})
		}
	}
	slices.SortFunc(reads, func(a, b read) int {
		return cmp.Or(cmp.Compare(a.rank, b.rank), a.due.Compare(b.due), cmp.Compare(a.id, b.id))
	})
	var ids []string
	for _, r := range reads {
		if !r.due.After(now) {
			ids = append(ids, r.id)
		}
	}
	return ids
}

// listSoon has the endpoints enumerated, as a pod runs on whose endpoint is gone: HNS may have
// another one for it. It is at most once in listAgain, because HNS may also go on listing an
// endpoint that it does not find.
func (d *Table) listSoon() {
	if d.Clock.Sub(d.listing.gone) >= listAgain {
		d.listing.gone, d.listing.wanted = d.Clock, true
		return
	}
	if at := d.Clock.Add(listAgain); d.listing.retry.At.IsZero() || at.Before(d.listing.retry.At) {
		d.listing.retry = backoff.Retry{Tries: 1, At: at}
	}
}

// admit makes an endpoint that HNS enumerates unread, unless it is among the known ones. It returns
// false for a stranger.
func (d *Table) admit(id string, known map[string]bool) bool {
	key := strings.ToLower(id)
	if stranger, is := d.strangers[key]; is && !d.strangerDue(stranger) {
		return false
	}
	if !known[key] {
		d.unread[id], known[key] = &unreadEndpoint{came: d.Clock}, true
	}
	return true
}

// knownIDs returns the GUIDs of the known and unread endpoints in lower case, as HNS may write a
// GUID in upper or lower case.
func (d *Table) knownIDs() map[string]bool {
	known := make(map[string]bool, len(d.byID)+len(d.unread))
	for id := range d.byID {
		known[strings.ToLower(id)] = true
	}
	for id := range d.unread {
		known[strings.ToLower(id)] = true
	}
	return known
}

// strangerDue reports whether a stranger is read once more: a local pod lacks its endpoint, and
// that may be a stranger only because of one wrong read.
func (d *Table) strangerDue(s backoff.Again) bool {
	return !s.At.After(d.Clock) && len(d.Waiting()) > 0
}

// LookAgain plans the next enumeration for the pods without an endpoint of their own, none if
// all have one. Unread endpoints are read by then.
func (d *Table) LookAgain() {
	now := d.Clock
	if d.listing.err != nil {
		return // it is tried again
	}
	var next backoff.Due
	for p := range d.desired.Locals() {
		if p.IsLost() {
			continue
		}
		eps := d.byAddr[p.Addr]
		own := d.hasOwn(p) || p.InDoubt() && slices.ContainsFunc(eps, func(ep *Tracked) bool { return ep.bornFor == ep.owner }) // claimed by several pods when the endpoint came
		switch {
		case own && (p.Sandbox.ID == "" || !p.Listed.IsZero()), d.foundOwn(p):
		case own:
			next.At(now.Add(listAgain))
		case len(eps) == 0 && now.Sub(p.Placed) < listsFor:
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

// TakeListDue reports whether the endpoints are to be enumerated now, and records that they
// will be.
func (d *Table) TakeListDue() bool {
	at := d.listing.retry.At
	due := d.listing.wanted || !at.IsZero() && !at.After(d.now)
	d.listing.wanted = false
	return due
}

// TakeList records the result of an enumeration. New endpoints are unread. Known ones that it lacks
// are read, as they may be gone, and so are all after an enumeration that was not believed, as they
// may have been made anew under their GUIDs. It keeps unread endpoints that the enumeration lacks,
// because HNS does not list an endpoint that no container uses yet: only a read shows whether it is
// gone. It forgets strangers that are not enumerated any more.
func (d *Table) TakeList(ids []string, err error) {
	if d.listing.err = err; err != nil {
		d.listing.retry.Failed(d.now, d.Clock)
		if latest := d.Clock.Add(listFailed); d.listing.retry.At.After(latest) {
			d.listing.retry.At = latest
		}
		return
	}
	known, listed, ours := d.knownIDs(), map[string]bool{}, false
	for _, id := range ids {
		listed[strings.ToLower(id)] = true
		ours = d.admit(id, known) || ours
	}
	maps.DeleteFunc(d.strangers, func(id string, _ backoff.Again) bool { return !listed[id] })
	doubted := d.listing.unsettled
	d.listing.unsettled = !ours && d.desired.HasLocals()
	for id, ep := range d.byID {
		seen := listed[strings.ToLower(id)]
		if ep.state.lacked = !seen && !d.listing.unsettled; ep.state.lacked || doubted && seen {
			ep.state.check = true
		}
	}
}

// TakeRead records the result of a read of an endpoint. It reports whether the endpoint is open
// and could not be read.
func (d *Table) TakeRead(id string, e hns.Endpoint, err error) (open bool) {
	ep, n := d.byID[id], d.unread[id]
	switch {
	case err == nil && ep == nil && n == nil: // it is gone since it was named
	case err == nil:
		delete(d.unread, id)
		delete(d.strangers, strings.ToLower(id))
		e.ID = id // HNS may show it in another letter case
		ep = d.read(e)
		if n != nil {
			ep.came = n.came
		}
		ep.state.check = false
		d.render(ep)
	case errors.Is(err, hns.ErrElsewhere):
		stranger := d.strangers[strings.ToLower(id)]
		if stranger.Failed(err, d.Clock); stranger.Tries == 1 {
			stranger.At = d.Clock.Add(openPause)
		}
		d.strangers[strings.ToLower(id)] = stranger
		delete(d.unread, id)
		d.gone(id)
	case hns.EndpointGone(err), ep != nil && ep.state.lacked && hns.Answered(err):
		delete(d.unread, id)
		d.gone(id) // HNS does not enumerate it either, so it is gone, whatever the code
	case ep != nil:
		ep.fail(err, d.Clock)
		d.soon(ep)
		return ep.Open()
	case n != nil:
		n.err = err
		n.Failed(d.now, d.Clock)
	}
	return false
}
