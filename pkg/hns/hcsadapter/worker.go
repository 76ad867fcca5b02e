package hcsadapter

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/winnpm/winnpm/pkg/hns"
)

// errClosed is the error of calls after Close.
var errClosed = errors.New("the client is closed")

// worker makes the calls to HNS, one at a time. A call whose caller gives up before it began is not
// made. A call past its deadline cannot be cancelled; until it returns, every other call fails at
// once, so that neither goroutines nor requests pile up while the service hangs.
type worker struct {
	deadline time.Duration
	turn     chan struct{} // has one element while there is no call; to make a call, a goroutine takes it
	closing  chan struct{}
	once     sync.Once

	mu   sync.Mutex    // guards the fields below
	late *lateCall     // the call past its deadline, or nil
	hung chan struct{} // closed when late is set, and replaced when that call has returned
}

// lateCall is a call past its deadline.
type lateCall struct {
	op    string
	since time.Time // when the deadline passed
}

// newWorker returns an idle worker. shut ends it.
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

// shut makes all calls fail that have not begun.
func (w *worker) shut() { w.once.Do(func() { close(w.closing) }) }

// perform makes one call, waits for it without a time limit, and then gives the turn back.
func (w *worker) perform(op string, run func()) {
	defer func() { w.turn <- struct{}{} }()
	done := make(chan struct{})
	go func() {
		defer close(done)
		run()
	}()
	timer := time.NewTimer(w.deadline)
	defer timer.Stop()
	select {
	case <-done:
		return
	case now := <-timer.C:
		w.mu.Lock()
		w.late = &lateCall{op: op, since: now}
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

// call has the worker make one call. It returns an ErrUnavailable if the caller did not get the
// result of do: ctx ended (the context's cause is wrapped), the deadline passed, or an earlier call
// hangs.
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
			turn, closing = nil, nil // from now on there is a result to wait for, even after shut
			go w.perform(op, func() {
				defer close(done)
				value, err = do()
			})
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
