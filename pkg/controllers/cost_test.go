package controllers

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/winnpm/winnpm/test/effort"
	"github.com/winnpm/winnpm/test/hnsfault"
)

// change is something that happens ten times a second.
type change func(n *paced, i int)

var changes = map[string]change{
	"remote": func(n *paced, i int) { n.remote(i%50, []string{"web", "api"}[i/50%2]) },
	"local":  func(n *paced, i int) { n.local(i%locals, []string{"b", "a"}[i/locals%2]) },
}

// cost is what changes cost and how late they are.
type cost struct {
	p50, p95 time.Duration // from the event until it is in HNS
	share    float64       // of HNS's time
	requests float64       // for sets, in a second
}

// costOf has something happen for a while, and then lets HNS catch up. each is what
// a call of a DLL takes.
func costOf(t *testing.T, each time.Duration, per int, during time.Duration, event change) (c cost) {
	fullNode(t, 0, func(n *paced) {
		var busy, requests atomic.Int64
		n.sim.OnCall(func(call hnsfault.Call, when hnsfault.When) {
			if when == hnsfault.Before {
				if len(call.Sets) > 0 {
					requests.Add(1)
				}
				took := time.Duration(call.DLLCalls) * each
				busy.Add(int64(took))
				time.Sleep(took)
			}
		})
		for i := range 300 {
			n.remote(i, "api")
		}
		pass(time.Hour)
		n.told.all = nil
		busy.Store(0)
		requests.Store(0)
		random := rand.New(rand.NewPCG(1, 2)) // not in step with the transactions
		apart := time.Second / time.Duration(per)
		began := time.Now()
		for i := 0; time.Since(began) < during; i++ {
			event(n, i)
			time.Sleep(apart/2 + time.Duration(random.Int64N(int64(apart))))
		}
		elapsed := time.Since(began).Seconds()
		c.share, c.requests = time.Duration(busy.Load()).Seconds()/elapsed, float64(requests.Load())/elapsed
		pass(3 * time.Hour)
		var took []time.Duration
		for _, a := range n.told.all {
			took = append(took, a.Programmed...)
		}
		slices.Sort(took)
		require.NotEmpty(n.t, took)
		c.p50, c.p95 = took[len(took)/2], took[len(took)*95/100]
	})
	t.Logf("%d a second, %v a call: p50 %v, p95 %v, %.0f %% of HNS, %.1f requests for sets a second",
		per, each, c.p50.Round(time.Millisecond), c.p95.Round(time.Millisecond), 100*c.share, c.requests)
	return c
}

// TestTenChangesASecond holds the figures of ADR 11: how late label changes of pods
// of other nodes are, and that they take a fifth of HNS's time whatever a call takes.
func TestTenChangesASecond(t *testing.T) {
	for each, want := range map[time.Duration]cost{
		time.Millisecond:       {p50: 10 * time.Millisecond, p95: 150 * time.Millisecond, share: 0.2},
		10 * time.Millisecond:  {p50: 150 * time.Millisecond, p95: 200 * time.Millisecond, share: 0.2},
		30 * time.Millisecond:  {p50: 350 * time.Millisecond, p95: 550 * time.Millisecond, share: 0.2},
		200 * time.Millisecond: {p50: 2500 * time.Millisecond, p95: 4 * time.Second, share: 0.2},
		2 * time.Second:        {p50: 35 * time.Second, p95: 40 * time.Second, share: 0.2},
	} {
		t.Run(each.String(), func(t *testing.T) {
			is := costOf(t, each, 10, max(time.Duration(effort.Of(15, 30))*time.Second, time.Duration(effort.Of(100, 200))*each), changes["remote"])
			require.LessOrEqual(t, is.p50, want.p50)
			require.LessOrEqual(t, is.p95, want.p95)
			require.LessOrEqual(t, is.share, want.share+0.01)
		})
	}
}

// TestThousandChangesASecond: the number of events does not matter. Requests for sets
// are bounded by what HNS takes for them, and by the least rest.
func TestThousandChangesASecond(t *testing.T) {
	event := func(n *paced, i int) { n.remote(i%300, []string{"web", "api"}[i/300%2]) }
	calls := []time.Duration{time.Millisecond, 30 * time.Millisecond, 0, 10 * time.Millisecond}
	for _, each := range calls[:effort.Of(2, 4)] {
		t.Run(fmt.Sprint(each), func(t *testing.T) {
			is := costOf(t, each, 1000, time.Duration(effort.Of(3, 20))*time.Second, event)
			require.LessOrEqual(t, is.share, 0.21)
			require.LessOrEqual(t, is.requests, 1.02/leastRest.Seconds())
			require.LessOrEqual(t, is.p95, 600*time.Millisecond)
		})
	}
}
