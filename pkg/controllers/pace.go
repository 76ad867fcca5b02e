package controllers

import "time"

// HNS rests between two transactions restFactor times as long as the last one kept it
// busy, so a stream of changes gets a fifth of HNS's time. leastRest bounds the number of
// transactions where HNS is fast. mostRest bounds the delay after a call that hung.
const (
	restFactor = 4
	leastRest  = 20 * time.Millisecond
	mostRest   = time.Minute
)

// haste says how long a change waits for HNS to rest.
type haste uint8

const (
	// restful: until it has rested. A request for sets takes all changes that wait,
	// so waiting makes requests fewer.
	restful haste = iota
	// prompt: for an apply interval at most, as what has to be written to endpoints
	// only becomes late by waiting.
	prompt
	// urgent: for leastRest, as a pod may be open.
	urgent
)

// pace says when transactions begin and end (ADR 11). It belongs to the worker's
// goroutine.
type pace struct {
	interval time.Duration         // Config.ApplyInterval
	began    time.Time             // the last transaction
	turns    int                   // endpoints of the last transaction
	next     [urgent + 1]time.Time // when the next one may begin, by the haste of what waits
}

// begin notes that a transaction begins.
func (p *pace) begin(now time.Time) { p.began, p.turns = now, 0 }

// yields is asked after each endpoint, while others are left, and reports whether they are
// left to the next transaction. some says whether anything waits for that transaction, and
// most how much haste it has.
func (p *pace) yields(some bool, most haste, now time.Time) bool {
	p.turns++
	return some && (most == urgent || now.Sub(p.began) >= p.interval)
}

// end takes how long a transaction kept HNS busy. If the transaction had endpoints to
// serve, others may be left, so the next one begins an interval after it began at the
// latest.
func (p *pace) end(busy time.Duration, now time.Time) {
	rest, limit := max(leastRest, min(restFactor*busy, mostRest)), max(leastRest, p.interval)
	if p.turns > 0 {
		limit = max(leastRest, p.interval-now.Sub(p.began))
		rest = min(rest, limit)
	}
	p.next = [...]time.Time{restful: now.Add(rest), prompt: now.Add(min(rest, limit)), urgent: now.Add(leastRest)}
}
