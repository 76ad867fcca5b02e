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
