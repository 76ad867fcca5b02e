package hcsadapter

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/winnpm/winnpm/pkg/hns"
)

// errClosed is the cause of calls after Close.
var errClosed = errors.New("the client is closed")

// worker makes the calls to HNS, one at a time. A caller that gives up before
// its call began leaves nothing behind. A call that is past its deadline cannot
// be cancelled; until it returns every other call fails at once, so that
// neither goroutines nor requests pile up on a service that hangs.
type worker struct {
	deadline time.Duration
	jobs     chan job // unbuffered: who has handed over a job has begun
	closing  chan struct{}
	once     sync.Once

	wake chan struct{} // of one place: something is left

	mu   sync.Mutex    // guards following
	left []job         // to be done before the next job
	late *lateCall     // the call past its deadline; nil: none
	hung chan struct{} // closed when late is set, another one when it is over
}

// job is one call to HNS.
type job struct {
	op  string
	run func()
}

// lateCall is a call past its deadline.
type lateCall struct {
	op    string
	since time.Time // of the deadline
}

// newWorker starts a worker; shut ends it.
func newWorker(deadline time.Duration) *worker {
	w := &worker{
		deadline: deadline,
		jobs:     make(chan job),
		closing:  make(chan struct{}),
		wake:     make(chan struct{}, 1),
		hung:     make(chan struct{}),
	}
	go w.loop()
	return w
}

// shut ends the worker as soon as it has no call.
func (w *worker) shut() { w.once.Do(func() { close(w.closing) }) }

func (w *worker) loop() {
	for {
		w.tidy()
		select {
		case j := <-w.jobs:
			w.perform(j)
		case <-w.wake:
		case <-w.closing:
			return
		}
	}
}

// tidy does what was left.
func (w *worker) tidy() {
	for {
		w.mu.Lock()
		if len(w.left) == 0 {
			w.mu.Unlock()
			return
		}
		j := w.left[0]
		w.left = w.left[1:]
		w.mu.Unlock()
		w.perform(j)
	}
}

// leave has the worker do a job as soon as it is free, and waits for that, but no
// longer than for a call: the job stays when ctx ends or a call hangs. After shut
// it may never be done.
func (w *worker) leave(ctx context.Context, j job) {
	done := make(chan struct{})
	w.mu.Lock()
	w.left = append(w.left, job{j.op, func() {
		defer close(done)
		j.run()
	}})
	hung := w.hung
	w.mu.Unlock()
	select {
	case w.wake <- struct{}{}:
	default: // it is told already
	}
	select {
	case <-done:
	case <-ctx.Done():
	case <-hung:
	case <-w.closing:
	}
}

// perform makes one call and stays with it until it returns, however long.
func (w *worker) perform(j job) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		j.run()
	}()
	timer := time.NewTimer(w.deadline)
	defer timer.Stop()
	select {
	case <-done:
		return
	case now := <-timer.C:
		w.mu.Lock()
		w.late = &lateCall{op: j.op, since: now}
		close(w.hung)
		w.mu.Unlock()
	}
	<-done
	w.mu.Lock()
	w.late = nil
	w.hung = make(chan struct{})
	w.mu.Unlock()
}

// health returns an error while a call is past its deadline.
func (w *worker) health() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.late == nil {
		return nil
	}
	return fmt.Errorf("%w: the call %s has not returned for %v, its deadline is %v",
		hns.ErrUnavailable, w.late.op, (w.deadline + time.Since(w.late.since)).Round(time.Second), w.deadline)
}

// call has the worker do one call. Its error is in the class ErrUnavailable
// when the caller did not get the result of do: it gave up (the context's cause
// is wrapped), the deadline passed, or a call before hangs.
func call[T any](ctx context.Context, w *worker, op string, do func() (T, error)) (T, error) {
	type result struct {
		value T
		err   error
	}
	var none T
	if ctx.Err() != nil {
		return none, as(hns.ErrUnavailable, context.Cause(ctx))
	}
	w.mu.Lock()
	hung := w.hung
	w.mu.Unlock()
	results := make(chan result, 1) // nobody may be there to take it
	begin := job{op: op, run: func() {
		value, err := do()
		results <- result{value, err}
	}}
	jobs, closing := w.jobs, w.closing
	for {
		select {
		case jobs <- begin:
			jobs, closing = nil, nil // from now on there is a result to wait for
		case r := <-results:
			if r.err != nil {
				return none, r.err
			}
			return r.value, nil
		case <-ctx.Done():
			return none, as(hns.ErrUnavailable, context.Cause(ctx))
		case <-hung:
			if err := w.health(); err != nil {
				return none, err
			}
			return none, fmt.Errorf("%w: the call %s did not return within %v", hns.ErrUnavailable, op, w.deadline)
		case <-closing:
			return none, as(hns.ErrUnavailable, errClosed)
		}
	}
}
