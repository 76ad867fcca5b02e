package dataplane

import (
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/winnpm/winnpm/pkg/ipsets"
)

// foldObservation takes over what was observed.
func (d *core) foldObservation(obs *Observation) {
	d.endpoints.Fold(&obs.seen)
	if obs.setsRead {
		d.foldSets(obs)
	}
}

// foldSets takes over the sets of an observation.
func (d *core) foldSets(obs *Observation) {
	if obs.seen.Began() < d.folded {
		return // a later one came in before it
	}
	d.folded = obs.seen.Began()
	d.looks.digest = obs.digest
	sets := slices.DeleteFunc(slices.Clone(obs.sets), func(s ipsets.Observed) bool { return d.writes.MovedSince(s.ID, obs.seen.Began()) })
	listed := make(map[string]bool, len(obs.sets))
	for _, s := range obs.sets {
		listed[s.ID] = true
	}
	skip := func(n ipsets.Name) bool {
		id := d.cache.ID(n)
		return d.writes.MovedSince(id, obs.seen.Began()) || d.paused(n) && listed[id] == d.cache.Present(n)
	}
	drifted := d.takeSets(sets, skip)
	if !d.fresh { // else nothing was known before
		d.foundSets(drifted)
	}
	d.writes.Forget(obs.seen.Began())
}

// setsNews reports whether a read of the sets may say something new: it shows
// others than the last one that was taken over, or something was written since that
// one began, or somebody else did something to one, or the cache is in doubt.
func (d *core) setsNews(obs *Observation) bool {
	return d.fresh || d.cache.HasUnknown() || d.cache.Doubted() || !d.drift.Empty() ||
		d.writes.Any() || d.looks.digest != obs.digest
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
	obs, ids := &Observation{seen: d.endpoints.Look(look.All)}, look.Endpoints
	if look.All {
		ids = d.endpoints.IDs()
	}
	return obs, ids
}

// sawSets takes a read of the sets into an observation.
func (d *core) sawSets(obs *Observation, err error) {
	d.looks.sets = d.clock // also when it failed: others have their turn
	obs.setsRead = err == nil && (obs.seen.All() || d.setsNews(obs))
}

// sawIDs takes an enumeration of the endpoints into an observation.
func (d *core) sawIDs(obs *Observation, ids []string, err error) {
	d.looks.enumerated = d.clock // also when it failed
	if err == nil {
		d.endpoints.SawIDs(&obs.seen, ids)
	}
}

// nextLook is NextLook.
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
	var age time.Duration
	if !d.looks.sets.IsZero() {
		age = now.Sub(d.looks.sets)
	}
	age = max(age, d.endpoints.LookAge())
	return age
}

// takeSets takes over a listing of our sets. It may show sets that
// were not known when the rules that name them were read: those are held now, and
// orphans are defined.
// It returns those that somebody else changed.
func (d *core) takeSets(sets []ipsets.Observed, skip func(ipsets.Name) bool) (drifted []ipsets.Drift) {
	drifted = d.cache.Observe(sets, skip)
	d.spelled()
	d.endpoints.SetsSeen()
	return drifted
}
