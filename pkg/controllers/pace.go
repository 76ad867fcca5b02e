package controllers

import "time"

// HNS rests between two transactions restFactor times as long as the last one
// kept it busy, so that who changes things all the time has a fifth of it; at
// least leastRest, which is what bounds the number of transactions where HNS is
// fast.
const (
	restFactor = 4
	leastRest  = 20 * time.Millisecond
)

// pace says when transactions begin and end (ADR 11). It belongs to the worker's
// goroutine.
type pace struct {
	interval time.Duration // Config.ApplyInterval
	began    time.Time     // the last transaction
	rested   time.Time     // when HNS has rested from it
	least    time.Time     // when it has rested for leastRest
	turns    int           // endpoints of the last transaction
}

// begin notes that a transaction begins.
func (p *pace) begin(now time.Time) { p.began, p.turns = now, 0 }

// yields is asked after each endpoint, while others are left, and reports whether
// they are left to the next transaction; some says whether anything waits for that,
// urgent whether a pod does that may be open.
func (p *pace) yields(some, urgent bool, now time.Time) bool {
	p.turns++
	return some && (urgent || now.Sub(p.began) >= p.interval)
}

// end takes how long a transaction kept HNS busy. The rest is an interval at most.
// It ends an interval after the transaction began if that had several endpoints to
// serve: requests for sets become fewer by waiting, as one takes all changes; those
// for endpoints only become late.
func (p *pace) end(busy time.Duration, now time.Time) {
	limit := now.Add(p.interval)
	if p.turns > 0 {
		limit = p.began.Add(p.interval)
	}
	p.least = now.Add(leastRest)
	if p.rested = now.Add(restFactor * busy); p.rested.After(limit) {
		p.rested = limit
	}
	if p.rested.Before(p.least) {
		p.rested = p.least
	}
}

// next returns when the next transaction may begin. A pod that may be open does not
// wait for HNS to rest.
func (p *pace) next(urgent bool) time.Time {
	if urgent {
		return p.least
	}
	return p.rested
}
