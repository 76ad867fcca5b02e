package endpoints

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/winnpm/winnpm/pkg/acl"
	"github.com/winnpm/winnpm/pkg/backoff"
	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/pkg/ipsets"
	"github.com/winnpm/winnpm/pkg/state"
)

// The kinds of objects that another program can change.
const (
	driftSet = "set"
	driftACL = "acl"
)

// drifting is a set, or the rules of an endpoint, that another program can change.
type drifting struct {
	set      ipsets.Name
	endpoint string // GUID; "" for a set
}

// kind returns driftSet or driftACL.
func (o drifting) kind() string {
	if o.endpoint == "" {
		return driftSet
	}
	return driftACL
}

// String returns the name of the set or the GUID of the endpoint.
func (o drifting) String() string {
	if o.endpoint == "" {
		return o.set.String()
	}
	return o.endpoint
}

// driftLog records which of our objects another program changed. It forgets an object some time
// after the last change, so the number of our objects bounds its size.
type driftLog struct {
	found, repaired map[string]uint64 // by kind
	objects         map[drifting]*drift
}

// drift records the changes that another program made to one object.
type drift struct {
	backoff.Damping
	open  bool      // found changed, and not as desired since then
	wrote bool      // the agent wrote the object since it was found
	found string    // the change, in a few words
	had   []hns.ACL // of an open endpoint: its rules before
}

func newDriftLog() driftLog {
	zero := func() map[string]uint64 { return map[string]uint64{driftSet: 0, driftACL: 0} }
	return driftLog{found: zero(), repaired: zero(), objects: map[drifting]*drift{}}
}

// foundSet records that a set is not as it was written.
func (l *driftLog) foundSet(d ipsets.Drift, now time.Time) {
	l.add(drifting{set: d.Name}, setDriftText(d), nil, now)
}

// foundRules records that our rules on an endpoint changed, if they did.
func (l *driftLog) foundRules(endpoint string, had, has []hns.ACL, now time.Time) {
	if acl.Same(has, had) {
		return
	}
	object := drifting{endpoint: endpoint}
	if d := l.objects[object]; d != nil && d.open {
		had = d.had
	}
	if unknown, missing := acl.Diff(had, has); len(unknown)+len(missing) > 0 {
		l.add(object, driftText("rule", len(missing), len(unknown), "unknown"), had, now)
	}
}

func (l *driftLog) add(object drifting, found string, had []hns.ACL, now time.Time) {
	d := l.objects[object]
	if d == nil {
		d = &drift{}
		l.objects[object] = d
	}
	d.Flap(now, object.String())
	if !d.open {
		l.found[object.kind()]++
		d.open, d.wrote, d.had = true, false, had
	}
	d.found = found
}

// wrote records that the agent wrote an object, or may have.
func (l *driftLog) wrote(object drifting) {
	if d := l.objects[object]; d != nil {
		d.wrote = true
	}
}

// asDesired records that an object needs no write, and reports whether the agent repaired it:
// it was found changed and was written since. Otherwise the other program put it back, or it
// is no longer desired.
func (l *driftLog) asDesired(object drifting) (repaired bool) {
	d := l.objects[object]
	if d == nil || !d.open {
		return false
	}
	d.open, d.had = false, nil
	if d.wrote {
		l.repaired[object.kind()]++
	}
	return d.wrote
}

// forget drops the objects that have been as desired for long enough.
func (l *driftLog) forget(now time.Time) {
	maps.DeleteFunc(l.objects, func(_ drifting, d *drift) bool { return !d.open && d.Count(now) == 0 })
}

// pausedUntil returns when an object may be repaired, zero for immediately. The pause grows while
// another program keeps changing the object.
func (l *driftLog) pausedUntil(object drifting, now time.Time) time.Time {
	if d := l.objects[object]; d != nil && d.Until.After(now) {
		return d.Until
	}
	return time.Time{}
}

// flapping returns the objects that another program keeps changing, in no order.
func (l *driftLog) flapping(now time.Time) (out []drifting) {
	for object, d := range l.objects {
		if d.Damped(now) {
			out = append(out, object)
		}
	}
	return out
}

// FoundSets records which sets a look found changed. A change of a set that nothing needs does
// no harm, unless it made the set: then it has to be removed.
func (d *Table) FoundSets(drifted []ipsets.Drift) {
	for _, s := range drifted {
		if (s.Needed || s.Appeared) && d.cache.Outstanding(s.Name) {
			d.drift.foundSet(s, d.now)
		}
	}
}

// foundACLs records that a known endpoint was read, and showed these as our rules.
// An update that it needs from now on is a repair. An endpoint without a pod is
// never written, so nothing is found there.
func (d *Table) foundACLs(ep *Tracked, ours []hns.ACL) {
	if !ep.Pending() {
		ep.repair = true
	}
	if ep.owner != "" {
		d.drift.foundRules(ep.ID, ep.Actual, ours, d.now)
	}
}

// WroteSet records that the agent wrote a set, or may have.
func (d *Table) WroteSet(n ipsets.Name) {
	if len(d.drift.objects) > 0 {
		d.drift.wrote(drifting{set: n})
	}
}

// PausedSet reports whether the repair of a set waits, because another program keeps changing it.
func (d *Table) PausedSet(n ipsets.Name) bool {
	return !d.drift.pausedUntil(drifting{set: n}, d.now).IsZero()
}

// resume returns when the repair of an endpoint is due, zero for immediately. Another program may
// change the endpoint until then, so it is read again before it is written.
func (d *Table) resume(ep *Tracked) time.Time {
	until := d.drift.pausedUntil(drifting{endpoint: ep.ID}, d.now)
	if !until.IsZero() {
		ep.state.check = true
	}
	return until
}

// repairs returns the objects that a transaction repaired, by kind and name. Its cost is linear
// in the objects that another program changed of late.
func (d *Table) repairs() (repairs []state.Repair) {
	for object, is := range d.drift.objects {
		ep := d.byID[object.endpoint]
		outstanding := ep != nil && ep.Outstanding()
		if object.endpoint == "" {
			outstanding = d.cache.Outstanding(object.set)
		}
		if !outstanding && d.drift.asDesired(object) {
			repairs = append(repairs, state.Repair{Kind: object.kind(), Object: object.String(), Pod: d.podOf(ep), Found: is.found})
		}
		if object.endpoint != "" && ep == nil {
			delete(d.drift.objects, object)
		}
	}
	d.drift.forget(d.now)
	slices.SortFunc(repairs, func(a, b state.Repair) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Object, b.Object))
	})
	return repairs
}

// countDrift sets the numbers of objects that another program changed.
func (d *Table) countDrift(s *state.Stats) {
	s.DriftFound, s.DriftRepaired = maps.Clone(d.drift.found), maps.Clone(d.drift.repaired)
	s.Damped = map[string]int{driftSet: 0, driftACL: 0}
	for _, object := range d.drift.flapping(d.Clock) {
		s.Damped[object.kind()]++
	}
}

// warnOfDrift appends a warning for each object that another program keeps changing.
func (d *Table) warnOfDrift(out []state.Warning) []state.Warning {
	for _, object := range d.drift.flapping(d.Clock) {
		w := state.Warning{Object: object.String(), Kind: "Set", Reason: state.ReasonForeignWrites}
		what := "the set"
		if object.endpoint != "" {
			w.Kind, what = "Endpoint", "rules on endpoint "+object.endpoint
			if pod := d.podOf(d.byID[object.endpoint]); pod != "" {
				w.Kind, w.Object = "Pod", pod
			}
		}
		w.Message = fmt.Sprintf("somebody else keeps changing %s: another program writes sets or rules with our prefixes (azure-npm, if it still runs on this node: remove it), "+
			"or HNS itself loses or changes them. Until that ends repair waits longer each time, up to %v", what, backoff.LongestDamped)
		out = append(out, w)
	}
	return out
}

// setDriftText says how a set differs from its recorded actual state.
func setDriftText(d ipsets.Drift) string {
	switch {
	case d.Gone:
		return "gone"
	case d.Appeared:
		return "made by somebody else"
	case d.Retyped:
		return "of another type"
	}
	return driftText("member", d.Missing, d.Added, "added")
}

// driftText returns a text like "2 members missing, 1 added".
func driftText(noun string, missing, surplus int, word string) string {
	plural := func(n int) string {
		if n == 1 {
			return "1 " + noun
		}
		return fmt.Sprintf("%d %ss", n, noun)
	}
	switch {
	case missing == 0:
		return plural(surplus) + " " + word
	case surplus == 0:
		return plural(missing) + " missing"
	}
	return fmt.Sprintf("%s missing, %d %s", plural(missing), surplus, word)
}
