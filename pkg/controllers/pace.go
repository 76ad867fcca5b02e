package controllers

import (
	"slices"
	"time"

	"github.com/winnpm/winnpm/pkg/state"
)

// After a transaction that kept HNS busy for a time t, HNS rests for restFactor × t, so a stream of
// changes gets a fifth of HNS's time. leastRest bounds the number of transactions if HNS is fast.
// mostRest bounds the delay after a call that hung.
const (
	restFactor = 4
	leastRest  = 20 * time.Millisecond
	mostRest   = time.Minute
)

// pace decides when the next transaction may begin (ADR 11). Only the worker uses it.
type pace struct {
	interval time.Duration         // Config.ApplyInterval
	next     [urgent + 1]time.Time // the earliest start of the next transaction, by the highest haste of the waiting keys
}

// rest sets the earliest start of the next transaction. busy is the time for which the last
// transaction kept HNS busy, and began is when it started. endpoints says that it wrote endpoints:
// others may be left to write, so the next transaction starts one interval after began at the
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

// maxUnprogrammed limits the number of recorded events. While HNS is away for hours, the first ones
// are enough to show the delay.
const maxUnprogrammed = 10_000

// events are the events that are staged and not in HNS yet.
type events []event

// event is the generation of the transaction that staged an event, and when the event came in.
type event struct {
	generation uint64
	at         time.Time
}

// applied adds the events of a transaction, and removes the events that are in HNS now: the events of
// all generations outside waiting. It returns the time that each removed event took.
func (e *events) applied(generation uint64, pending map[ObjectKey]time.Time, waiting []state.Span, now time.Time) (took []time.Duration) {
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
