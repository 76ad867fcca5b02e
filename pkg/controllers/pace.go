package controllers

import (
	"slices"
	"time"

	"github.com/winnpm/winnpm/pkg/state"
)

// HNS rests between two transactions restFactor times as long as the last one kept it
// busy, so a stream of changes gets a fifth of HNS's time. leastRest bounds the number of
// transactions where HNS is fast. mostRest bounds the delay after a call that hung.
const (
	restFactor = 4
	leastRest  = 20 * time.Millisecond
	mostRest   = time.Minute
)

// pace says when the next transaction may begin (ADR 11). It belongs to the worker's
// goroutine.
type pace struct {
	interval time.Duration         // Config.ApplyInterval
	next     [urgent + 1]time.Time // when the next one may begin, by the haste of what waits
}

// rest takes how long a transaction kept HNS busy, and when it began. If it had endpoints to
// serve, others may be left, so the next one begins an interval after it began at the
// latest.
func (p *pace) rest(busy time.Duration, began time.Time, endpoints bool) {
	now := time.Now()
	rest, limit := max(leastRest, min(restFactor*busy, mostRest)), max(leastRest, p.interval)
	if endpoints {
		limit = max(leastRest, p.interval-now.Sub(began))
		rest = min(rest, limit)
	}
	p.next = [...]time.Time{restful: now.Add(rest), prompt: now.Add(min(rest, limit)), urgent: now.Add(leastRest)}
}

// maxUnprogrammed bounds the events that are waited for: while HNS is away for
// hours the first ones are enough to tell.
const maxUnprogrammed = 10_000

// events are those that are staged and not in HNS yet.
type events []event

// event is the generation of the transaction that staged an event, and when the event came in.
type event struct {
	generation uint64
	at         time.Time
}

// applied adds the events of a transaction, and removes those that are in HNS now: those of every
// transaction but the waiting ones. It returns how long each of these took.
func (e *events) applied(generation uint64, pending map[Key]time.Time, waiting []state.Span, now time.Time) (took []time.Duration) {
	for _, at := range pending {
		if !at.IsZero() && len(*e) < maxUnprogrammed {
			*e = append(*e, event{generation, at})
		}
	}
	*e = slices.DeleteFunc(*e, func(is event) bool {
		if slices.ContainsFunc(waiting, func(s state.Span) bool { return s.Has(is.generation) }) {
			return false
		}
		took = append(took, now.Sub(is.at))
		return true
	})
	return took
}
