package dataplane

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/pkg/ipsets"
	"github.com/winnpm/winnpm/pkg/policy"
)

// foldObservation takes over what was observed, object by object, but for
// what has moved since or has an update pending. What differs of an endpoint is
// read once more inside a transaction: then it is a difference, and becomes an ordinary
// plan entry. After a look at everything, as when HNS was restarted, all may differ:
// there the read before its write is the second one.
func (d *core) foldObservation(obs *Observation) {
	if obs.enumerated {
		asked := map[string]bool{}
		for id, ep := range d.endpoints {
			asked[id] = ep.state.check
		}
		d.enumerated(obs.ids, obs.sequence)
		for _, id := range obs.shown { // it is there, though it is not listed
			if ep := d.endpoints[id]; ep != nil {
				ep.state.check = ep.state.check && asked[id]
			}
		}
	}
	for _, e := range obs.endpoints {
		ep := d.endpoints[e.ID]
		switch {
		case ep == nil || ep.moved > obs.sequence || ep.pending() || !ep.known() || !d.differs(ep, e):
		case obs.all:
			d.mark(d.read(e), policy.Key{})
		default:
			ep.state.check = true
		}
	}
	for _, id := range obs.check {
		if ep := d.endpoints[id]; ep != nil {
			ep.state.check = true
		}
	}
	if obs.setsRead {
		d.foldSets(obs)
	}
}

// foldSets takes over the sets of an observation.
func (d *core) foldSets(obs *Observation) {
	if obs.sequence < d.folded {
		return // a later one came in before it
	}
	d.folded = obs.sequence
	d.looks.digest = obs.digest
	sets := slices.DeleteFunc(slices.Clone(obs.sets), func(s ipsets.Observed) bool { return d.moved[s.ID] > obs.sequence })
	listed := make(map[string]bool, len(obs.sets))
	for _, s := range obs.sets {
		listed[s.ID] = true
	}
	skip := func(n ipsets.Name) bool {
		id := d.id(n)
		return d.moved[id] > obs.sequence || d.paused(n) && listed[id] == d.cache.Present(n)
	}
	drifted := d.takeSets(sets, skip)
	if !d.fresh { // else nothing was known before
		d.foundSets(drifted)
	}
	maps.DeleteFunc(d.moved, func(_ string, seq uint64) bool { return seq <= obs.sequence })
}

// differs reports whether a read shows an endpoint otherwise than it is
// known.
func (d *core) differs(ep *endpoint, e hns.Endpoint) bool {
	return !ep.known() || ep.version != d.spellings.Basis(e)
}

// news reports whether an enumeration has an endpoint that nobody knows, or
// lacks one that is known.
func (d *core) news(ids []string) bool {
	seen := make(map[string]bool, len(ids))
	for _, id := range ids {
		seen[strings.ToLower(id)] = true
	}
	known := func(id string) bool { return seen[strings.ToLower(id)] }
	matched := 0
	for id, ep := range d.endpoints {
		if !known(id) && !ep.state.check {
			return true
		}
		matched += count(known(id))
	}
	for id := range d.unread {
		matched += count(known(id))
	}
	for id, stranger := range d.strangers {
		if seen[id] && d.strangerDue(stranger) {
			return true
		}
		matched += count(seen[id])
	}
	return matched < len(seen)
}

// setsNews reports whether a read of the sets may say something new: it shows
// others than the last one that was taken over, or something was written since that
// one began, or somebody else did something to one, or the cache is in doubt.
func (d *core) setsNews(obs *Observation) bool {
	return d.fresh || d.cache.HasUnknown() || d.cache.Doubted() || !d.drift.Empty() ||
		len(d.moved) > 0 || d.looks.digest != obs.digest
}

// digestSets returns a digest of sets in any order.
func digestSets(sets []ipsets.Observed) [sha256.Size]byte {
	lines := make([]string, len(sets))
	for i, s := range sets {
		lines[i] = fmt.Sprintf("%q %q %t %q", s.ID, s.Name, s.Nested, s.Values)
	}
	slices.Sort(lines)
	return sha256.Sum256([]byte(strings.Join(lines, "\n")))
}

// beginLook begins an observation, and returns the endpoints that it reads.
func (d *core) beginLook(look Look) (*Observation, []string) {
	if look.Sets || look.All || len(look.Endpoints) > 0 {
		d.looks.last = d.clock // an enumeration takes nobody's turn
	}
	obs, ids := &Observation{sequence: d.sequence, all: look.All}, look.Endpoints
	if look.All {
		ids = slices.Sorted(maps.Keys(d.endpoints))
	}
	return obs, ids
}

// sawSets takes a read of the sets into an observation.
func (d *core) sawSets(obs *Observation, err error) {
	d.looks.sets = d.clock // also when it failed: others have their turn
	obs.setsRead = err == nil && (obs.all || d.setsNews(obs))
}

// sawIDs takes an enumeration of the endpoints into an observation.
func (d *core) sawIDs(obs *Observation, ids []string, err error) {
	d.looks.enumerated = d.clock // also when it failed
	if err == nil {
		obs.ids = ids
		obs.enumerated = obs.all || d.news(ids)
	}
}

// sawEndpoint takes a read of an endpoint into an observation.
func (d *core) sawEndpoint(obs *Observation, id string, e hns.Endpoint, err error) {
	ep := d.endpoints[id]
	if ep == nil {
		return // gone meanwhile
	}
	ep.seen = d.clock
	if err != nil {
		obs.check = append(obs.check, id)
		return
	}
	e.ID = id // HNS may show it in the other case
	obs.shown = append(obs.shown, id)
	if d.differs(ep, e) {
		obs.endpoints = append(obs.endpoints, e)
	} else { // no plan is made from what else others have, but explanations are
		_, ep.foreign = d.spellings.Split(e)
	}
}

// nextLook is NextLook.
func (d *core) nextLook() (Look, time.Time) {
	var oldest *endpoint
	n := 1 // the sets
	for id, ep := range d.endpoints {
		if ep.pending() || !ep.known() || ep.state.check {
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

// takeSets takes over a listing of our sets. It may show sets that
// were not known when the rules that name them were read: those are held now, and
// orphans are defined.
// It returns those that somebody else changed.
func (d *core) takeSets(sets []ipsets.Observed, skip func(ipsets.Name) bool) (drifted []ipsets.Drift) {
	drifted = d.cache.Observe(sets, skip)
	d.spelled()
	adopted := d.cache.TakeAdopted()
	for _, n := range adopted {
		d.renderHolders(n)
	}
	if len(adopted) > 0 {
		for _, ps := range d.policies {
			ps.group = nil // it may name the id that was
		}
	}
	for _, ep := range d.endpoints {
		d.hold(ep, ipsets.RefApplied, d.namesOf(ep.actual))
		d.pin(ep)
	}
	return drifted
}
