package hcsadapter

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/winnpm/winnpm/pkg/hns"
)

// slow makes a call that takes d and counts that it was done.
func slow(d time.Duration, done *int) func() (int, error) {
	return func() (int, error) {
		time.Sleep(d)
		*done++
		return *done, nil
	}
}

// began is a call in a goroutine of its own.
func began(ctx context.Context, w *worker, op string, do func() (int, error)) <-chan error {
	out := make(chan error, 1)
	go func() {
		_, err := call(ctx, w, op, do)
		out <- err
	}()
	synctest.Wait()
	return out
}

func TestWorkerOneAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorker(time.Minute)
		defer w.shut()
		start, running, total := time.Now(), 0, 0
		var results []<-chan error
		for range 5 {
			results = append(results, began(t.Context(), w, "x", func() (int, error) {
				running++
				require.Equal(t, 1, running)
				time.Sleep(time.Second)
				running--
				total++
				return 0, nil
			}))
		}
		for _, r := range results {
			require.NoError(t, <-r)
		}
		require.Equal(t, 5, total)
		require.Equal(t, 5*time.Second, time.Since(start))
	})
}

// TestWorkerDeadlineIsTheCallsOwn: waiting behind others does not count.
func TestWorkerDeadlineIsTheCallsOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorker(time.Minute)
		defer w.shut()
		done := 0
		first := began(t.Context(), w, "x", slow(59*time.Second, &done))
		second := began(t.Context(), w, "x", slow(59*time.Second, &done))
		require.NoError(t, <-first)
		require.NoError(t, <-second)
		require.NoError(t, w.health())
	})
}

func TestWorkerNothingIsDoneForWhoGaveUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorker(time.Minute)
		defer w.shut()
		cause := errors.New("enough")
		ctx, cancel := context.WithCancelCause(t.Context())
		busy, done := 0, 0
		first := began(t.Context(), w, "x", slow(time.Second, &busy))
		waiting := began(ctx, w, "x", slow(0, &done))
		cancel(cause)
		err := <-waiting
		require.ErrorIs(t, err, hns.ErrUnavailable)
		require.ErrorIs(t, err, cause)
		require.NoError(t, <-first)
		_, err = call(ctx, w, "x", slow(0, &done))
		require.ErrorIs(t, err, cause, "a context that has ended before")
		synctest.Wait()
		require.Zero(t, done)
	})
}

// TestWorkerGaveUpWithin: a call that has begun goes on, its result is dropped,
// and the next one waits for its end.
func TestWorkerGaveUpWithin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorker(time.Minute)
		defer w.shut()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		start, first, second := time.Now(), 0, 0
		_, err := call(ctx, w, "x", slow(10*time.Second, &first))
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.True(t, hns.OutcomeUnknown(err))
		require.Equal(t, time.Second, time.Since(start))
		require.NoError(t, w.health(), "the caller was in a hurry, HNS is not late")
		n, err := call(t.Context(), w, "x", slow(0, &second))
		require.NoError(t, err)
		require.Equal(t, []int{1, 1, 1}, []int{n, first, second})
		require.Equal(t, 10*time.Second, time.Since(start))
	})
}

func TestWorkerHang(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorker(time.Minute)
		defer w.shut()
		start := time.Now()
		hung, queued, later := 0, 0, 0
		first := began(t.Context(), w, "SetPolicy/Add", slow(time.Hour, &hung))
		second := began(t.Context(), w, "ACL/Add", slow(0, &queued))

		for _, result := range []<-chan error{first, second} {
			err := <-result
			require.EqualError(t, err, "service unavailable: the call SetPolicy/Add has not returned for 1m0s, its deadline is 1m0s")
			require.ErrorIs(t, err, hns.ErrUnavailable)
			require.Equal(t, time.Minute, time.Since(start), "whoever waits behind it fails with it")
		}
		time.Sleep(time.Minute)
		for range 3 {
			_, err := call(t.Context(), w, "ACL/Add", slow(0, &later))
			require.ErrorIs(t, err, hns.ErrUnavailable)
			require.EqualError(t, err, w.health().Error())
			require.Equal(t, 2*time.Minute, time.Since(start), "at once")
		}
		require.EqualError(t, w.health(), "service unavailable: the call SetPolicy/Add has not returned for 2m0s, its deadline is 1m0s")

		time.Sleep(time.Hour)
		synctest.Wait()
		require.NoError(t, w.health())
		n, err := call(t.Context(), w, "ACL/Add", slow(0, &later))
		require.NoError(t, err)
		require.Equal(t, []int{1, 1, 0, 1}, []int{n, hung, queued, later}, "what had not begun was never done")

		again := began(t.Context(), w, "ACL/Update", slow(2*time.Minute, &hung))
		require.ErrorIs(t, <-again, hns.ErrUnavailable, "a second hang is noticed like the first")
		require.ErrorContains(t, w.health(), "ACL/Update")
		time.Sleep(time.Minute)
		synctest.Wait()
		require.NoError(t, w.health())
	})
}

// TestWorkerShut: the bubble fails when a goroutine is left.
func TestWorkerShut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorker(time.Minute)
		running, waiting := 0, 0
		first := began(t.Context(), w, "x", slow(time.Second, &running))
		second := began(t.Context(), w, "x", slow(0, &waiting))
		w.shut()
		w.shut()
		err := <-second
		require.ErrorIs(t, err, hns.ErrUnavailable)
		require.ErrorIs(t, err, errClosed)
		require.NoError(t, <-first, "what runs ends well")
		synctest.Wait()
		_, err = call(t.Context(), w, "x", slow(0, &waiting))
		require.ErrorIs(t, err, errClosed)
		require.Equal(t, []int{1, 0}, []int{running, waiting})
	})
}
