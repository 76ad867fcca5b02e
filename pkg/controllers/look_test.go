package controllers

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/winnpm/winnpm/pkg/dataplane"
)

// observer is an Observer that looks as it is told to. Times are since the start.
type observer struct {
	mu    sync.Mutex     // guards following; not held while a look is made
	next  dataplane.Look // due at
	at    time.Duration
	every time.Duration // at moves on by so much with each look; 0: to the next year
	takes time.Duration
	err   error
	blank bool // nothing is new
	asked int  // calls of NextLook
	made  []made
}

// made is a look.
type made struct {
	at   time.Duration
	look dataplane.Look
}

func newObserver(takes time.Duration) *observer {
	return &observer{next: endpoint("a"), takes: takes, at: year}
}

const year = 365 * 24 * time.Hour

func endpoint(id string) dataplane.Look { return dataplane.Look{Endpoints: []string{id}} }

func (o *observer) NextLook() (dataplane.Look, time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.asked++
	return o.next, start.Add(o.at)
}

func (o *observer) Observe(ctx context.Context, look dataplane.Look) (due bool, _ error) {
	o.mu.Lock()
	due = !o.blank
	o.made = append(o.made, made{time.Since(start), look})
	if o.err == nil && o.every > 0 {
		o.at += o.every
	} else if o.err == nil {
		o.at = year
	}
	takes, err := o.takes, o.err
	o.mu.Unlock()
	select {
	case <-time.After(takes):
	case <-ctx.Done():
		return false, ctx.Err()
	}
	return due && err == nil, err
}

// set has the observer's fields changed. The loop hears of it with the next event.
func (o *observer) set(change func(o *observer)) {
	o.mu.Lock()
	defer o.mu.Unlock()
	change(o)
}

// looks returns what was looked at.
func (o *observer) looks() []made {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Clone(o.made)
}

// asks returns how often it was asked what is next.
func (o *observer) asks() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.asked
}

// times returns when looks were made, from the given one on.
func (o *observer) times(from int) []time.Duration {
	var out []time.Duration
	for _, m := range o.looks()[from:] {
		out = append(out, m.at)
	}
	return out
}

// looking is a controller of an empty cluster whose events are remote pods.
type looking struct {
	c    *Controller
	cl   *cluster
	pods int
}

func runLooking(t *testing.T, r *recorder, o *observer, play func(t *testing.T, l *looking)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		cl := newCluster()
		cfg := Config{Source: cl.source(), Applier: r, Observer: o, Node: "n1"}
		inBubble(t, cfg, func(t *testing.T, c *Controller) { play(t, &looking{c: c, cl: cl}) })
	})
}

// event has a transaction come.
func (l *looking) event() {
	l.pods++
	l.cl.pods.set(newRemotePod(fmt.Sprint("r", l.pods), "10.1.0.1"))
}

// until sleeps until a time since the start.
func (l *looking) until(at time.Duration) {
	pass(time.Until(start.Add(at)))
}

func seconds(of ...float64) []time.Duration {
	var out []time.Duration
	for _, s := range of {
		out = append(out, time.Duration(s*float64(time.Second)))
	}
	return out
}

// What is due is looked at, once, and a transaction follows; nobody is asked while nothing
// happens.
func TestLooksWhenItIsDue(t *testing.T) {
	r, o := &recorder{}, newObserver(time.Second)
	o.at, o.next = 10*time.Second, dataplane.Look{Enumerate: true}
	runLooking(t, r, o, func(t *testing.T, l *looking) {
		l.until(10*time.Second - 1)
		require.Empty(t, o.looks())
		require.Equal(t, 1, o.asks(), "nothing happened")
		l.until(time.Hour)
		require.Len(t, o.looks(), 1)
		require.Equal(t, made{10 * time.Second, dataplane.Look{Enumerate: true}}, o.looks()[0])
		require.Len(t, r.calls(), 2)
		require.Equal(t, 11*time.Second, r.calls()[1].at)
		require.Equal(t, 3, o.asks(), "after the look, and after the transaction that was due")
	})
}

// What a transaction changes may make another look due.
func TestAsksAgainAfterATransaction(t *testing.T) {
	r, o := &recorder{}, newObserver(0)
	runLooking(t, r, o, func(t *testing.T, l *looking) {
		l.until(time.Minute)
		o.set(func(o *observer) { o.next, o.at = endpoint("b"), 0 })
		l.event()
		l.until(2 * time.Minute)
		require.Equal(t, seconds(60), o.times(0))
		require.Equal(t, endpoint("b"), o.looks()[0].look)
	})
}

func TestNothingNewBringsNoTransaction(t *testing.T) {
	r, o := &recorder{}, newObserver(0)
	o.at, o.blank = time.Second, true
	runLooking(t, r, o, func(t *testing.T, l *looking) {
		l.until(time.Minute)
		require.Len(t, o.looks(), 1)
		require.Len(t, r.calls(), 1)
	})
}

// The first transaction reads by itself what there is. Until it could nobody looks.
func TestLooksAfterTheFirstTransaction(t *testing.T) {
	o := newObserver(0)
	o.at = time.Second
	cl := newCluster()
	cl.nodes.set(newNode("n1"))
	run(t, Config{Source: cl.source(), Applier: &recorder{}, Observer: o, Node: "n1", RequireNodeAddr: true}, func(t *testing.T, _ *Controller) {
		time.Sleep(time.Minute)
		require.Zero(t, o.asks())
		cl.nodes.set(newNode("n1", "10.9.0.1"))
		synctest.Wait()
		require.Equal(t, seconds(60), o.times(0))
	})
}

// After looks that failed the next one waits for 1, 2, 4 … 30 s, whatever it reads. Success ends
// that.
func TestFailedLooksBackOff(t *testing.T) {
	r, o := &recorder{}, newObserver(0)
	o.at, o.err = 10*time.Second, errDown
	runLooking(t, r, o, func(t *testing.T, l *looking) {
		l.until(110 * time.Second)
		require.Equal(t, seconds(10, 11, 13, 17, 25, 41, 71, 101), o.times(0))
		require.Len(t, r.calls(), 1, "there is nothing to hand over")

		o.set(func(o *observer) { o.next = endpoint("b") })
		l.event()
		l.until(132 * time.Second)
		require.Equal(t, seconds(131), o.times(8), "another look waits too")
		o.set(func(o *observer) { o.err = nil })
		l.until(180 * time.Second)
		require.Equal(t, seconds(161), o.times(9))
		o.set(func(o *observer) { o.err, o.at = errDown, 0 })
		l.event()
		l.until(182 * time.Second)
		require.Equal(t, seconds(180, 181), o.times(10))
	})
}

// A look waits while a transaction runs or is due.
func TestLooksAreNotInTheWayOfEvents(t *testing.T) {
	const busy = time.Second
	r, o := &recorder{answer: keepsBusy(busy)}, newObserver(0)
	o.at, o.blank = 61*time.Second, true
	runLooking(t, r, o, func(t *testing.T, l *looking) {
		l.until(60*time.Second + busy/2)
		l.event()
		l.until(60*time.Second + busy)
		l.event() // it is due while HNS rests from the first
		l.until(70 * time.Second)
		require.Equal(t, seconds(0, 60.5, 65.5), []time.Duration{r.calls()[0].at, r.calls()[1].at, r.calls()[2].at})
		require.Equal(t, seconds(66.5), o.times(0))

		o.set(func(o *observer) { o.at = 0 })
		l.event()
		l.until(71*time.Second + busy/2 + time.Millisecond)
		require.Equal(t, seconds(71.5), o.times(1), "it does not wait until HNS has rested")
	})
}

// However many events come, a look waits for ten seconds at most, and then the next
// one again.
func TestLooksDoNotStarve(t *testing.T) {
	r, o := &recorder{answer: keepsBusy(30 * time.Millisecond)}, newObserver(time.Millisecond)
	o.at, o.every, o.blank = 5*time.Second, time.Second, true
	runLooking(t, r, o, func(t *testing.T, l *looking) {
		l.until(4 * time.Second)
		for time.Since(start) < time.Minute {
			l.event()
			time.Sleep(10 * time.Millisecond) // HNS rests for longer
		}
		at := o.times(0)
		require.Len(t, at, 5)
		for i := range at {
			since := 5 * time.Second
			if i > 0 {
				since = at[i-1]
			}
			require.InDelta(t, heldAtMost, at[i]-since, float64(50*time.Millisecond))
		}
		l.until(2 * time.Minute)
		require.Greater(t, len(o.times(5)), 50, "and catches up afterwards")
	})
}

// Looks take a tenth of HNS's time at most, however many are due.
func TestLooksTakeATenth(t *testing.T) {
	r, o := &recorder{}, newObserver(100*time.Millisecond)
	o.at, o.every, o.blank = time.Second, time.Millisecond, true
	runLooking(t, r, o, func(t *testing.T, l *looking) {
		l.until(4*time.Second + time.Millisecond)
		require.Equal(t, seconds(1, 2, 3, 4), o.times(0))
		o.set(func(o *observer) { o.next, o.at, o.takes, o.every = endpoint("a"), 0, 0, time.Millisecond })
		l.event()
		l.until(5090 * time.Millisecond)
		require.Equal(t, seconds(5, 5.02, 5.04, 5.06, 5.08), o.times(4), "who is never content is bounded too")
	})
}

// While HNS does not answer a look at the node the node is not ready. That a single
// endpoint cannot be read is no reason.
func TestReadyWhenHNSAnswers(t *testing.T) {
	for name, look := range map[string]dataplane.Look{
		"GUIDs": {Enumerate: true}, "sets": {Sets: true}, "both": {Enumerate: true, Sets: true}, "endpoint": endpoint("a"),
	} {
		o := newObserver(0)
		o.at, o.next, o.err = time.Second, look, errDown
		runLooking(t, &recorder{}, o, func(t *testing.T, l *looking) {
			require.NoError(t, l.c.Ready())
			l.until(5 * time.Second)
			require.Len(t, o.looks(), 3, name)
			if name == "endpoint" {
				require.NoError(t, l.c.Ready())
				return
			}
			require.EqualError(t, l.c.Ready(), "HNS does not answer: connection refused", name)
			require.NoError(t, l.c.Healthy())
			o.set(func(o *observer) { o.err = nil })
			l.until(time.Minute)
			require.NoError(t, l.c.Ready(), name)
		})
	}
}

// A controller ends while a transaction and a look hang.
func TestShutdownWhileALookHangs(t *testing.T) {
	r, o := &recorder{}, newObserver(year)
	o.at = time.Second
	runLooking(t, r, o, func(t *testing.T, l *looking) {
		l.until(2 * time.Second)
		require.Len(t, o.looks(), 1)
		r.setHang(make(chan struct{}))
		l.cl.pods.set(&corev1.Pod{ObjectMeta: newPod("a", "").ObjectMeta})
		l.until(time.Minute)
		require.Len(t, r.calls(), 1, "the dataplane does one of the two at a time")
	})
}
