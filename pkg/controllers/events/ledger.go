package events

import (
	"cmp"
	"maps"
	"time"

	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/winnpm/winnpm/pkg/policy"
)

const (
	// again is the time after which what stands is told once more: by then a server
	// has forgotten an Event, which it keeps for an hour by default.
	again = 65 * time.Minute
	// pause is the time between two Events of the same topic on a policy, once there
	// were so many, so that one that comes and goes, or is written anew all the time,
	// has one of each topic a minute. After the calm they count anew.
	pause = time.Minute
	quick = 3
	calm  = 10 * time.Minute
)

// ledger knows what stands and what of it was told. It has no lock: one
// goroutine uses it.
type ledger struct {
	node     string
	policy   func(policy.Key) (*networkingv1.NetworkPolicy, bool)
	subjects map[policy.Key]*subject
	// turns are when each namespace of a subject was served last, in a count of those
	// that were served. Who joins has the turn of who was served last, and so comes
	// behind all who wait.
	turns  map[string]uint64
	served uint64
}

// subject is a policy of which there is, or was, something to tell.
type subject struct {
	uid        types.UID
	generation int64 // of what the policy says
	facts      map[topic]*fact
	told       map[topic]telling // since the last calm, and of what stands
	// blamed: a warning was told, and not yet that all have passed.
	blamed bool
	// hereOnly: one of those warnings was of this node alone.
	hereOnly bool
}

// telling is what was told of a topic.
type telling struct {
	at time.Time // the last time
	n  int       // without a calm between them
}

// fact is one thing to tell about a policy.
type fact struct {
	topic
	of policy.Key
	account
	since time.Time // when it began to stand
	due   time.Time // when to tell it, for the first time or again
}

// update takes over what stands now. A policy that is no more, or another one by
// now, is forgotten: nobody asks for what became of it.
func (l *ledger) update(now time.Time, s standing) {
	for key := range s.accounts {
		if l.subjects[key] == nil {
			l.subjects[key] = newSubject("")
		}
	}
	defer l.turn()
	for key, sub := range l.subjects {
		np, ok := l.policy(key)
		if !ok {
			delete(l.subjects, key)
			continue
		}
		if sub.uid != np.UID {
			*sub = *newSubject(np.UID)
		}
		sub.generation = np.Generation
		sub.update(now, key, s.accounts[key], s.away)
		if len(sub.facts)+len(sub.told) == 0 && !sub.blamed {
			delete(l.subjects, key)
		}
	}
}

func newSubject(uid types.UID) *subject {
	return &subject{uid: uid, facts: map[topic]*fact{}, told: map[topic]telling{}}
}

// turn gives the namespaces of subjects a turn, and forgets the others.
func (l *ledger) turn() {
	turns := make(map[string]uint64, len(l.turns))
	for key := range l.subjects {
		was, ok := l.turns[key.Namespace]
		if !ok {
			was = l.served
		}
		turns[key.Namespace] = was
	}
	l.turns = turns
}

func (s *subject) update(now time.Time, key policy.Key, accounts map[topic]account, away bool) {
	maps.DeleteFunc(s.told, func(t topic, last telling) bool {
		_, stands := accounts[t]
		return !stands && !now.Before(last.at.Add(calm))
	})
	passed := topic{reason: reasonProgrammed}
	for t := range s.facts {
		if _, stands := accounts[t]; !stands && t != passed {
			delete(s.facts, t)
		}
	}
	for t, a := range accounts {
		f := s.facts[t]
		switch {
		case f == nil:
			f = &fact{topic: t, of: key, since: now, due: s.due(t, now.Add(t.patience()))}
			s.facts[t] = f
		case f.what != a.what && f.due.After(s.due(t, now)):
			f.due = s.due(t, now)
		}
		f.account = a
	}
	switch {
	case len(accounts) > 0 || away:
		delete(s.facts, passed)
	case s.blamed && s.facts[passed] == nil:
		s.facts[passed] = &fact{
			topic: passed, of: key, since: now, due: s.due(passed, now),
			account: account{text: "nothing of it is left out or failing any more"},
		}
	}
}

// due returns the first time from at on at which a topic may be told.
func (s *subject) due(t topic, at time.Time) time.Time {
	if last := s.told[t]; last.n >= quick && at.Before(last.at.Add(pause)) {
		return last.at.Add(pause)
	}
	return at
}

// next returns the fact to tell first, nil when there is none. Of those that are due
// namespaces take turns, so that nobody waits for more Events than there are other
// namespaces with something to tell; within one, and of those that are not due, the
// one that waits longest goes first. Of equals any order would do, as long as it is one.
func (l *ledger) next(now time.Time) *fact {
	var first *fact
	for _, s := range l.subjects {
		for _, f := range s.facts {
			if first == nil || l.compare(f, first, now) < 0 {
				first = f
			}
		}
	}
	return first
}

func (l *ledger) compare(f, g *fact, now time.Time) int {
	if !f.due.After(now) && !g.due.After(now) {
		if byTurn := cmp.Compare(l.turns[f.of.Namespace], l.turns[g.of.Namespace]); byTurn != 0 {
			return byTurn
		}
	}
	return cmp.Or(f.due.Compare(g.due), cmp.Compare(f.of.Namespace, g.of.Namespace), cmp.Compare(f.of.Name, g.of.Name),
		cmp.Compare(f.reason, g.reason), compareBool(f.pods, g.pods))
}

func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}

// serve takes note that it was the turn of a fact's namespace.
func (l *ledger) serve(f *fact) {
	l.served++
	l.turns[f.of.Namespace] = l.served
}

// told takes note that the server has the Event, or will never take it.
func (l *ledger) told(f *fact, now time.Time) {
	s := l.subjects[f.of]
	last := s.told[f.topic]
	if !now.Before(last.at.Add(calm)) {
		last.n = 0
	}
	s.told[f.topic] = telling{now, last.n + 1}
	if f.reason == reasonProgrammed {
		delete(s.facts, f.topic)
		s.blamed, s.hereOnly = false, false
		return
	}
	s.blamed = true
	s.hereOnly = s.hereOnly || !f.everywhere()
	f.due = now.Add(again)
}
