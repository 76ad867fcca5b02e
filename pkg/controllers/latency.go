package controllers

import (
	"slices"
	"time"

	"github.com/winnpm/winnpm/pkg/state"
)

// Applied is what one transaction did, for whoever measures.
type Applied struct {
	Report state.Report
	Err    error // of the whole transaction: what it holds comes again
	// Programmed has one entry for each event that is in HNS now and was not
	// before this transaction: the time since the event came in. Several events
	// of one object between two transactions are one.
	Programmed []time.Duration
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
