package endpoints

import (
	"cmp"
	"strings"
	"time"

	"github.com/winnpm/winnpm/pkg/hns"
)

// differs reports whether a read shows an endpoint otherwise than it is
// known.
func (d *State) differs(ep *Endpoint, e hns.Endpoint) bool {
	return !ep.Known() || ep.version != d.spellings.Basis(e)
}

// news reports whether an enumeration has an endpoint that nobody knows, or
// lacks one that is known.
func (d *State) news(ids []string) bool {
	seen := make(map[string]bool, len(ids))
	for _, id := range ids {
		seen[strings.ToLower(id)] = true
	}
	matched := 0
	known := func(id string) bool {
		is := seen[strings.ToLower(id)]
		if is {
			matched++
		}
		return is
	}
	for id, ep := range d.byID {
		if !known(id) && !ep.state.check {
			return true
		}
	}
	for id := range d.unread {
		known(id)
	}
	for id, stranger := range d.strangers {
		if known(id) && d.strangerDue(stranger) {
			return true
		}
	}
	return matched < len(seen)
}

// Seen is what the reconciler read of endpoints beside transactions, since a write sequence.
type Seen struct {
	sequence uint64
	all      bool // a look at everything
	// ids are the endpoints that were enumerated, when they were.
	ids        []string
	enumerated bool
	// differ are those that were read, and are not as they were known to be.
	differ []hns.Endpoint
	// shown are those that a read showed, check those that none did: they are to be read
	// inside a transaction.
	shown, check []string
}

// Look begins to look at endpoints.
func (d *State) Look(all bool) Seen { return Seen{sequence: d.writes.Sequence(), all: all} }

// Began returns the write sequence at which the look began.
func (s *Seen) Began() uint64 { return s.sequence }

// All reports whether it is a look at everything.
func (s *Seen) All() bool { return s.all }

// Empty reports whether nothing was seen that is new.
func (s *Seen) Empty() bool {
	return !s.all && !s.enumerated && len(s.differ)+len(s.check) == 0
}

// SawIDs takes in an enumeration of the endpoints.
func (d *State) SawIDs(s *Seen, ids []string) {
	s.ids = ids
	s.enumerated = s.all || d.news(ids)
}

// SawEndpoint takes in a read of an endpoint.
func (d *State) SawEndpoint(s *Seen, id string, e hns.Endpoint, err error) {
	ep := d.byID[id]
	if ep == nil {
		return // gone meanwhile
	}
	ep.seen = d.clock
	if err != nil {
		s.check = append(s.check, id)
		return
	}
	e.ID = id // HNS may show it in the other case
	s.shown = append(s.shown, id)
	if d.differs(ep, e) {
		s.differ = append(s.differ, e)
	} else { // no plan is made from what else others have, but explanations are
		ep.foreign = d.spellings.Parts(e).Foreign
	}
}

// Fold takes over what was seen, endpoint by endpoint, but for what has moved since or has
// an update pending. What differs of an endpoint is read once more inside a transaction:
// then it is a difference, and becomes an ordinary plan entry. After a look at everything,
// as when HNS was restarted, all may differ: there the read before its write is the second
// one.
func (d *State) Fold(s *Seen) {
	if s.enumerated {
		asked := map[string]bool{}
		for id, ep := range d.byID {
			asked[id] = ep.state.check
		}
		d.enumerated(s.ids, s.sequence)
		for _, id := range s.shown { // it is there, though it is not listed
			if ep := d.byID[id]; ep != nil {
				ep.state.check = ep.state.check && asked[id]
			}
		}
	}
	for _, e := range s.differ {
		ep := d.byID[e.ID]
		switch {
		case ep == nil || ep.moved > s.sequence || ep.Pending() || !ep.Known() || !d.differs(ep, e):
		case s.all:
			d.mark(d.read(e))
		default:
			ep.state.check = true
		}
	}
	for _, id := range s.check {
		if ep := d.byID[id]; ep != nil {
			ep.state.check = true
		}
	}
}

// Oldest returns the endpoint that was read longest ago, when that was, and how many take
// turns: those that are read before they are written do not. "" for none.
func (d *State) Oldest() (id string, seen time.Time, n int) {
	var oldest *Endpoint
	for _, ep := range d.byID {
		if ep.Pending() || !ep.Known() || ep.state.check {
			continue
		}
		n++
		if oldest == nil || cmp.Or(ep.seen.Compare(oldest.seen), cmp.Compare(ep.ID, oldest.ID)) < 0 {
			oldest = ep
		}
	}
	if oldest == nil {
		return "", time.Time{}, 0
	}
	return oldest.ID, oldest.seen, n
}

// LookAge returns for how long the endpoint that was read longest ago has not been.
func (d *State) LookAge() (age time.Duration) {
	for _, ep := range d.byID {
		if ep.Known() {
			age = max(age, d.clock.Sub(ep.seen))
		}
	}
	return age
}

// Lost returns when an endpoint was last found without its block.
func (d *State) Lost() time.Time { return d.lost }
