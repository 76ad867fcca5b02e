package controllers

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/winnpm/winnpm/pkg/dataplane"
)

// observations is an Observer that notes when it is asked.
type observations struct {
	mu  sync.Mutex // guards following
	at  []time.Duration
	err error
}

func (o *observations) NextLook() (dataplane.Look, time.Time) {
	return dataplane.Everything(), time.Now().Add(5 * time.Minute)
}

func (o *observations) Observe(context.Context, dataplane.Look) (*dataplane.Observation, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.at = append(o.at, time.Since(start))
	return &dataplane.Observation{}, o.err
}

func (o *observations) fail(err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.err = err
}

func (o *observations) asked() []time.Duration {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Clone(o.at)
}

// runWoken is run for an empty cluster with a Wake of the same bubble.
func runWoken(t *testing.T, cfg Config, play func(t *testing.T, wake chan<- struct{})) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		wake := make(chan struct{}, 1)
		cfg.Source, cfg.Wake = newCluster().source(), wake
		inBubble(t, cfg, func(t *testing.T, _ *Controller) { play(t, wake) })
	})
}

// Whoever is woken looks at once, and then an interval later again.
func TestWakeObservesAtOnce(t *testing.T) {
	r, o := &recorder{}, &observations{}
	runWoken(t, Config{Applier: r, Observer: o}, func(t *testing.T, wake chan<- struct{}) {
		time.Sleep(time.Minute)
		require.Empty(t, o.asked())
		wake <- struct{}{}
		synctest.Wait()
		require.Equal(t, []time.Duration{time.Minute}, o.asked())
		require.Len(t, r.calls(), 2, "what was seen is handed over")
		require.Equal(t, time.Minute, r.calls()[1].at)
		time.Sleep(defaultReconcileInterval)
		synctest.Wait()
		require.Equal(t, []time.Duration{time.Minute, time.Minute + defaultReconcileInterval}, o.asked())
	})
}

// What failed is tried again after 1, 2, 4 … s, up to the interval; success and
// a new reason begin anew.
func TestFailedObservationsBackOff(t *testing.T) {
	o := &observations{err: errDown}
	runWoken(t, Config{Applier: &recorder{}, Observer: o, ReconcileInterval: 10 * time.Second}, func(t *testing.T, wake chan<- struct{}) {
		time.Sleep(46 * time.Second)
		require.Equal(t, seconds(10, 11, 13, 17, 25, 35, 45), o.asked())
		wake <- struct{}{}
		time.Sleep(2 * time.Second)
		require.Equal(t, seconds(46, 47), o.asked()[7:])
		o.fail(nil)
		time.Sleep(12 * time.Second)
		o.fail(errDown)
		time.Sleep(11 * time.Second)
		require.Equal(t, seconds(49, 59, 69, 70), o.asked()[9:])
	})
}

func seconds(of ...int) []time.Duration {
	var out []time.Duration
	for _, s := range of {
		out = append(out, time.Duration(s)*time.Second)
	}
	return out
}
