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

// batch is the events of one transaction.
type batch struct {
	generation uint64
	arrived    []time.Time
}

// maxUnprogrammed bounds the events that are waited for: while HNS is away for
// hours the first ones are enough to tell.
const maxUnprogrammed = 10_000

// batches are the transactions that are staged and not in HNS yet.
type batches struct {
	waiting []batch
	events  int
}

// add takes over the events of a transaction that was staged.
func (b *batches) add(generation uint64, pending map[Key]time.Time) {
	var arrived []time.Time
	for _, at := range pending {
		if !at.IsZero() && b.events+len(arrived) < maxUnprogrammed {
			arrived = append(arrived, at)
		}
	}
	if len(arrived) > 0 {
		b.waiting = append(b.waiting, batch{generation, arrived})
		b.events += len(arrived)
	}
}

// done returns how long the events took that are in HNS now: those of every
// transaction but the waiting ones.
func (b *batches) done(waiting []state.Span, now time.Time) []time.Duration {
	var took []time.Duration
	left := b.waiting[:0]
	for _, w := range b.waiting {
		if slices.ContainsFunc(waiting, func(s state.Span) bool { return s.Has(w.generation) }) {
			left = append(left, w)
			continue
		}
		for _, at := range w.arrived {
			took = append(took, now.Sub(at))
		}
	}
	b.waiting = left
	b.events -= len(took)
	return took
}
