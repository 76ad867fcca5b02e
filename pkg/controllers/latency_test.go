package controllers

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/client-go/tools/cache"

	"github.com/winnpm/winnpm/pkg/backoff"
	"github.com/winnpm/winnpm/pkg/state"
)

// An event counts as programmed when its transaction has nothing outstanding;
// an older one that fails for good holds nothing up that comes later.
func TestEvents(t *testing.T) {
	start := time.Unix(1000, 0)
	at := func(seconds int) time.Time { return start.Add(time.Duration(seconds) * time.Second) }
	came := func(seconds ...int) map[ObjectKey]time.Time {
		out := map[ObjectKey]time.Time{{Kind: KindRetry}: {}}
		for i, s := range seconds {
			out[ObjectKey{KindPod, cache.ObjectName{Name: string(rune('a' + i))}}] = at(s)
		}
		return out
	}
	var e events
	require.ElementsMatch(t, []time.Duration{5 * time.Second, 4 * time.Second}, e.applied(1, came(0, 1), nil, at(5)))
	require.Empty(t, e.applied(1, nil, nil, at(6)), "told once")

	upTo := func(generation uint64) []state.Span { return []state.Span{{From: 0, To: generation}} }
	require.Empty(t, e.applied(2, came(10), upTo(2), at(11)), "not in HNS")
	require.Equal(t, []time.Duration{time.Second}, e.applied(3, came(12), upTo(2), at(13)), "the later one is")
	require.Equal(t, []time.Duration{10 * time.Second}, e.applied(4, came(14), []state.Span{{From: 0, To: 1}, {From: 3, To: 4}}, at(20)), "the earlier one is")
	require.Equal(t, []time.Duration{7 * time.Second}, e.applied(4, nil, nil, at(21)))

	require.Empty(t, e.applied(5, came(), nil, at(21)), "a retry is no event")
	require.Empty(t, e)
}

func TestEventsAreBounded(t *testing.T) {
	var e events
	now := time.Unix(1000, 0)
	many := map[ObjectKey]time.Time{}
	for i := range maxUnprogrammed + 10 {
		many[ObjectKey{KindPod, cache.ObjectName{Name: fmt.Sprint(i)}}] = now
	}
	require.Empty(t, e.applied(1, many, []state.Span{{From: 0, To: 1}}, now))
	require.Len(t, e.applied(0, nil, nil, now), maxUnprogrammed)
	require.Len(t, e.applied(1, map[ObjectKey]time.Time{{Kind: KindPod}: now}, nil, now), 1, "there is room again")
}

// told records what OnApplied was told.
type told struct{ all []Applied }

func (a *told) on(v Applied) { a.all = append(a.all, v) }

// The time is from the informer's event, not from the transaction: what comes
// soon after another waits until HNS has rested, and that counts.
func TestProgrammedCountsFromTheEvent(t *testing.T) {
	var told told
	const busy = 50 * time.Millisecond
	r, cl := &recorder{answer: keepsBusy(busy)}, newCluster()
	run(t, Config{Source: cl.source(), Applier: r, Node: "n1", OnApplied: told.on}, func(t *testing.T, _ *Controller) {
		time.Sleep(busy + 100*time.Millisecond)
		cl.pods.set(newRemotePod("a", "10.0.0.1"))
		synctest.Wait()
		time.Sleep(50 * time.Millisecond)
		cl.pods.set(newRemotePod("a", "10.0.0.2"))
		pass(time.Minute)
		require.Len(t, told.all, 2)
		require.Len(t, told.all[0].Programmed, 3, "a namespace, a policy, a node")
		require.Equal(t, []time.Duration{restFactor*busy - 100*time.Millisecond + busy}, told.all[1].Programmed)
	})
}

// After an error the events keep the time at which they came in.
func TestProgrammedAfterAnError(t *testing.T) {
	var told told
	broken := errors.New("broken")
	r, cl := &recorder{answer: func(n int) (state.Report, error) {
		if n == 2 {
			return state.Report{}, broken
		}
		return state.Report{Generation: uint64(n)}, nil
	}}, newCluster()
	run(t, Config{Source: cl.source(), Applier: r, OnApplied: told.on}, func(t *testing.T, _ *Controller) {
		time.Sleep(10 * time.Second)
		cl.pods.set(newPod("a", "10.0.0.1"))
		synctest.Wait()
		pass(backoff.Pause(1))
		require.Len(t, told.all, 3)
		require.ErrorIs(t, told.all[1].Err, broken)
		require.Empty(t, told.all[1].Programmed)
		require.Equal(t, []time.Duration{backoff.Pause(1)}, told.all[2].Programmed)
	})
}

func TestStaleness(t *testing.T) {
	r, cl := &recorder{}, newCluster()
	run(t, Config{Source: cl.source(), Applier: r}, func(t *testing.T, c *Controller) {
		require.Equal(t, map[Kind]time.Duration{KindPod: 0, KindNamespace: 0, KindPolicy: 0, KindNode: 0}, c.Staleness())
		time.Sleep(time.Minute)
		cl.pods.set(newPod("a", "10.0.0.1"))
		synctest.Wait()
		time.Sleep(time.Second)
		stale := c.Staleness()
		require.Equal(t, time.Second, stale[KindPod], "an event is a sign of life")
		require.Equal(t, time.Minute+time.Second, stale[KindNamespace])

		cl.namespaces.setDown(errors.New("away"))
		cl.namespaces.cut()
		time.Sleep(time.Hour)
		require.Greater(t, c.Staleness()[KindNamespace], time.Hour-time.Minute)
	})
}
