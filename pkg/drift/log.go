package drift

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/winnpm/winnpm/pkg/acl"
	"github.com/winnpm/winnpm/pkg/backoff"
	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/pkg/ipsets"
	"github.com/winnpm/winnpm/pkg/state"
)

// Log is what somebody else changed of ours. It keeps the objects that had trouble of
// late; whoever can change our objects can make it grow to their number, and no further.
type Log struct {
	found, repaired map[string]uint64 // by kind
	troubles        map[Subject]*trouble
	repairs         []state.Repair // since they were taken
}

// trouble is one object with what somebody else did to it.
type trouble struct {
	backoff.Damping
	open  bool      // found, and not as it should be since
	wrote bool      // since it was found
	found string    // in a few words
	had   []hns.ACL // of an open endpoint: what had been there
}

// NewLog returns a log of nothing.
func NewLog() Log {
	zero := func() map[string]uint64 { return map[string]uint64{Set: 0, ACL: 0} }
	return Log{found: zero(), repaired: zero(), troubles: map[Subject]*trouble{}}
}

// FoundSet takes that a set is not as it was written.
func (l *Log) FoundSet(d ipsets.Drift, now time.Time) { l.note(OfSet(d.Name), setInWords(d), nil, now) }

// FoundRules takes that an endpoint has these rules of ours, where there had been others.
func (l *Log) FoundRules(endpoint string, had, has []hns.ACL, now time.Time) {
	if acl.Same(has, had) {
		return
	}
	s := OfEndpoint(endpoint)
	if t := l.troubles[s]; t != nil && t.open {
		had = t.had
	}
	if unknown, missing := acl.Diff(had, has); len(unknown)+len(missing) > 0 {
		l.note(s, inWords("rule", len(missing), len(unknown), "unknown"), had, now)
	}
}

func (l *Log) note(s Subject, found string, had []hns.ACL, now time.Time) {
	t := l.troubles[s]
	if t == nil {
		t = &trouble{}
		l.troubles[s] = t
	}
	t.Flap(now, s.String())
	if !t.open {
		l.found[s.Kind()]++
		t.open, t.wrote, t.had = true, false, had
	}
	t.found = found
}

// Wrote takes a write that was done, or that may have been.
func (l *Log) Wrote(s Subject) {
	if t := l.troubles[s]; t != nil {
		t.wrote = true
	}
}

// Objects returns those that had trouble of late, in no order.
func (l *Log) Objects() []Subject { return slices.Collect(maps.Keys(l.troubles)) }

// Right takes that nothing is left to write to an object. If it was found changed and was
// written since, it counts as repaired; otherwise somebody else put it back, or it is no
// longer desired. pod is that of the endpoint, "" for none.
func (l *Log) Right(s Subject, pod string) {
	t := l.troubles[s]
	if t == nil || !t.open {
		return
	}
	if t.wrote {
		l.repaired[s.Kind()]++
		l.repairs = append(l.repairs, state.Repair{Kind: s.Kind(), Object: s.String(), Pod: pod, Found: t.found})
	}
	t.open, t.had = false, nil
}

// Gone takes that an object is no more.
func (l *Log) Gone(s Subject) { delete(l.troubles, s) }

// Forget drops the objects that are right and were so for long enough.
func (l *Log) Forget(now time.Time) {
	maps.DeleteFunc(l.troubles, func(_ Subject, t *trouble) bool { return !t.open && t.Count(now) == 0 })
}

// Empty reports whether no object had trouble of late.
func (l *Log) Empty() bool { return len(l.troubles) == 0 }

// PausedUntil returns when an object may be repaired: zero for at once. Until then
// somebody else who keeps changing it may do more.
func (l *Log) PausedUntil(s Subject, now time.Time) time.Time {
	if t := l.troubles[s]; t != nil && t.Until.After(now) {
		return t.Until
	}
	return time.Time{}
}

// Flapping returns the objects that somebody else keeps changing, in no order.
func (l *Log) Flapping(now time.Time) []Subject {
	var out []Subject
	for s, t := range l.troubles {
		if t.Damped(now) {
			out = append(out, s)
		}
	}
	return out
}

// TakeRepairs returns what was repaired since the last call, by kind and name.
func (l *Log) TakeRepairs() []state.Repair {
	out := l.repairs
	l.repairs = nil
	slices.SortFunc(out, func(a, b state.Repair) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Object, b.Object))
	})
	return out
}

// Counts returns how many objects were found changed, and repaired, by kind. They are the
// caller's.
func (l *Log) Counts() (found, repaired map[string]uint64) {
	return maps.Clone(l.found), maps.Clone(l.repaired)
}
