package events

import (
	"cmp"
	"time"

	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/winnpm/winnpm/pkg/policy"
)

// again is the time after which what stands is told once more: by then a server
// has forgotten an Event, which it keeps for an hour by default.
const again = 65 * time.Minute

// ledger knows what stands and what of it was told. It has no lock: one
// goroutine uses it.
type ledger struct {
	node     string
	policy   func(policy.Key) (*networkingv1.NetworkPolicy, bool)
	subjects map[policy.Key]*subject
}

// subject is a policy of which there is, or was, something to tell.
type subject struct {
	uid        types.UID
	generation int64 // of what the policy says
	facts      map[topic]*fact
	// blamed: a warning was told, and not yet that all have passed.
	blamed bool
	// hereOnly: one of those warnings was of this node alone.
	hereOnly bool
}

// fact is one thing to tell about a policy.
type fact struct {
	topic
	of    policy.Key
	text  string
	since time.Time // when it began to stand
	due   time.Time // when to tell it, for the first time or again
}

// update takes over what stands now. A policy that is no more, or another one by
// now, is forgotten: nobody asks for what became of it.
func (l *ledger) update(now time.Time, s standing) {
	for key := range s.texts {
		if l.subjects[key] == nil {
			l.subjects[key] = &subject{facts: map[topic]*fact{}}
		}
	}
	for key, sub := range l.subjects {
		np, ok := l.policy(key)
		if !ok {
			delete(l.subjects, key)
			continue
		}
		if sub.uid != np.UID {
			*sub = subject{uid: np.UID, facts: map[topic]*fact{}}
		}
		sub.generation = np.Generation
		sub.update(now, key, s.texts[key], s.away)
		if len(sub.facts) == 0 && !sub.blamed {
			delete(l.subjects, key)
		}
	}
}

func (s *subject) update(now time.Time, key policy.Key, texts map[topic]string, away bool) {
	passed := topic{reason: reasonProgrammed}
	for t := range s.facts {
		if _, stands := texts[t]; !stands && t != passed {
			delete(s.facts, t)
		}
	}
	for t, text := range texts {
		if s.facts[t] == nil {
			s.facts[t] = &fact{topic: t, of: key, since: now, due: now.Add(t.patience())}
		}
		s.facts[t].text = text
	}
	switch {
	case len(texts) > 0 || away:
		delete(s.facts, passed)
	case s.blamed && s.facts[passed] == nil:
		s.facts[passed] = &fact{topic: passed, of: key, text: "nothing of it is left out or failing any more", since: now, due: now}
	}
}

// next returns the fact to tell first, nil when there is none. The one that
// has waited longest goes first; of equals any order would do, as long as it is
// one.
func (l *ledger) next() *fact {
	var first *fact
	for _, s := range l.subjects {
		for _, f := range s.facts {
			if first == nil || f.compare(first) < 0 {
				first = f
			}
		}
	}
	return first
}

func (f *fact) compare(g *fact) int {
	return cmp.Or(f.due.Compare(g.due), cmp.Compare(f.of.Namespace, g.of.Namespace), cmp.Compare(f.of.Name, g.of.Name),
		cmp.Compare(f.reason, g.reason), cmp.Compare(f.message, g.message))
}

// told takes note that the server has the Event, or will never take it.
func (l *ledger) told(f *fact, now time.Time) {
	s := l.subjects[f.of]
	if f.reason == reasonProgrammed {
		delete(l.subjects, f.of)
		return
	}
	s.blamed = true
	s.hereOnly = s.hereOnly || !f.everywhere()
	f.due = now.Add(again)
}
