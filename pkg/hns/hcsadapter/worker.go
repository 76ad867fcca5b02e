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
	turn     chan struct{} // has one element while no call is made: who takes it makes one
	closing  chan struct{}
	once     sync.Once

	mu   sync.Mutex    // guards following, and that turn gets its element back
	left []job         // to be done before the turn is given back
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

// newWorker returns a worker that has no call; shut ends it.
func newWorker(deadline time.Duration) *worker {
	w := &worker{
		deadline: deadline,
		turn:     make(chan struct{}, 1),
		closing:  make(chan struct{}),
		hung:     make(chan struct{}),
	}
	w.turn <- struct{}{}
	return w
}

// shut has calls fail that have not begun.
func (w *worker) shut() { w.once.Do(func() { close(w.closing) }) }

// work does a job, what was left meanwhile, and gives the turn back.
func (w *worker) work(j job) {
	for {
		w.perform(j)
		w.mu.Lock()
		if len(w.left) == 0 {
			w.turn <- struct{}{}
			w.mu.Unlock()
			return
		}
		j, w.left = w.left[0], w.left[1:]
		w.mu.Unlock()
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

// leave does a job at once or after the call that is made, and waits for that, but no
// longer than for a call: the job stays when ctx ends or a call hangs.
func (w *worker) leave(ctx context.Context, j job) {
	done := make(chan struct{})
	last := job{j.op, func() {
		defer close(done)
		j.run()
	}}
	w.mu.Lock()
	hung := w.hung
	select {
	case <-w.turn:
		go w.work(last)
	default:
		w.left = append(w.left, last)
	}
	w.mu.Unlock()
	select {
	case <-done:
	case <-ctx.Done():
	case <-hung:
	case <-w.closing:
	}
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
	var none, value T
	var err error
	select {
	case <-ctx.Done():
		return none, as(hns.ErrUnavailable, context.Cause(ctx))
	case <-w.closing:
		return none, as(hns.ErrUnavailable, errClosed)
	default:
	}
	w.mu.Lock()
	hung := w.hung
	w.mu.Unlock()
	turn, closing := w.turn, w.closing
	done := make(chan struct{})
	for {
		select {
		case <-turn:
			turn, closing = nil, nil // from now on there is a result to wait for
			go w.work(job{op, func() {
				defer close(done)
				value, err = do()
			}})
		case <-done:
			if err != nil {
				return none, err
			}
			return value, nil
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
