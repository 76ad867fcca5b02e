package ui

import (
	"context"
	"time"
)

// rests is how many times as long as work took there is none of its kind after
// it: so dumps and matrices have a fifth of a core each, however often somebody
// asks. mostRest bounds it.
const (
	rests    = 4
	mostRest = 10 * time.Second
)

// rest is how long to rest after work that took so long.
func rest(took time.Duration) time.Duration { return min(rests*took, mostRest) }

// pace lets work be done one piece at a time, with rests between.
type pace struct {
	now  func() time.Time
	turn chan time.Time // holds when the next may begin, while none is done
}

func newPace(now func() time.Time) *pace {
	p := &pace{now: now, turn: make(chan time.Time, 1)}
	p.turn <- time.Time{}
	return p
}

// begin waits for the turn, which is the caller's until end is called. It fails
// only when ctx is done.
func (p *pace) begin(ctx context.Context) (end func(), err error) {
	var free time.Time
	select {
	case free = <-p.turn:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	timer := time.NewTimer(free.Sub(p.now()))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
		p.turn <- free
		return nil, ctx.Err()
	}
	began := p.now()
	return func() {
		now := p.now()
		p.turn <- now.Add(rest(now.Sub(began)))
	}, nil
}
