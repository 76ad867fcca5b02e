package controllers

import (
	"cmp"
	"fmt"
	"maps"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/winnpm/winnpm/pkg/policy"
)

const (
	// tellAgain is the time after which the Event of an active warning is sent once more. By
	// default a server forgets Events after an hour.
	tellAgain = 65 * time.Minute
	// tellPause is the time between two Events of the same topic on a policy, after the first
	// quick ones. So a warning that comes and goes, or changes all the time, sends one
	// Event of each topic a minute. After the calm, the count starts anew.
	tellPause = time.Minute
	tellQuick = 3
	tellCalm  = 10 * time.Minute
)

// ledger knows the active warnings, and which of them were sent. It has no lock: one
// goroutine uses it.
type ledger struct {
	node string
	// policy returns the object of a policy; false when there is none.
	policy   func(policy.Key) (metav1.Object, bool)
	subjects map[policy.Key]*subject
	// lastServed says when each namespace of a subject was served last, as a count of all that
	// were served. A new namespace gets the count of the one that was served last, so it
	// comes behind all that wait.
	lastServed map[string]uint64
	served     uint64
}

// subject is a policy of which there is, or was, something to tell.
type subject struct {
	uid        types.UID
	generation int64 // of what the policy says
	facts      map[topic]*fact
	told       map[topic]telling // since the last calm, and of what is active
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
	since time.Time // when it became active
	due   time.Time // when to tell it, for the first time or again
}

// update takes over the warnings that are active now. A policy that was deleted, or made
// anew under its name, is forgotten: nobody asks for what became of it.
func (l *ledger) update(now time.Time, s activeWarnings) {
	for key := range s.accounts {
		if l.subjects[key] == nil {
			l.subjects[key] = newSubject("")
		}
	}
	defer l.keepPlaces()
	for key, sub := range l.subjects {
		np, ok := l.policy(key)
		if !ok {
			delete(l.subjects, key)
			continue
		}
		if sub.uid != np.GetUID() {
			*sub = *newSubject(np.GetUID())
		}
		sub.generation = np.GetGeneration()
		sub.update(now, key, s.accounts[key], s.away)
		if len(sub.facts)+len(sub.told) == 0 && !sub.blamed {
			delete(l.subjects, key)
		}
	}
}

func newSubject(uid types.UID) *subject {
	return &subject{uid: uid, facts: map[topic]*fact{}, told: map[topic]telling{}}
}

// keepPlaces gives each namespace of the subjects a place in the round, and forgets all others.
func (l *ledger) keepPlaces() {
	kept := make(map[string]uint64, len(l.lastServed))
	for key := range l.subjects {
		was, ok := l.lastServed[key.Namespace]
		if !ok {
			was = l.served
		}
		kept[key.Namespace] = was
	}
	l.lastServed = kept
}

func (s *subject) update(now time.Time, key policy.Key, accounts map[topic]account, away bool) {
	maps.DeleteFunc(s.told, func(t topic, last telling) bool {
		_, active := accounts[t]
		return !active && !now.Before(last.at.Add(tellCalm))
	})
	passed := topic{reason: reasonProgrammed}
	for t := range s.facts {
		if _, active := accounts[t]; !active && t != passed {
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
	if last := s.told[t]; last.n >= tellQuick && at.Before(last.at.Add(tellPause)) {
		return last.at.Add(tellPause)
	}
	return at
}

// next returns the fact to send first, nil when there is none. Among facts that are due
// the namespaces are served round robin, so no namespace waits for more Events than there
// are other namespaces with something to send. Within a namespace, and among facts that
// are not due, the one that has waited longest goes first. The last comparisons only make
// the order unique.
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
		if byRound := cmp.Compare(l.lastServed[f.of.Namespace], l.lastServed[g.of.Namespace]); byRound != 0 {
			return byRound
		}
	}
	return cmp.Or(f.due.Compare(g.due), cmp.Compare(f.of.Namespace, g.of.Namespace), cmp.Compare(f.of.Name, g.of.Name),
		cmp.Compare(fmt.Sprint(f.topic), fmt.Sprint(g.topic)))
}

// serve notes that a fact's namespace was served.
func (l *ledger) serve(f *fact) {
	l.served++
	l.lastServed[f.of.Namespace] = l.served
}

// told notes that the server has the Event, or will never take it.
func (l *ledger) told(f *fact, now time.Time) {
	s := l.subjects[f.of]
	last := s.told[f.topic]
	if !now.Before(last.at.Add(tellCalm)) {
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
	f.due = now.Add(tellAgain)
}
