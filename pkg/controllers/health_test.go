package controllers

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/winnpm/winnpm/pkg/dataplane"
	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/pkg/state"
	"github.com/winnpm/winnpm/test/hnsfault"
)

// laborious is a dataplane that computes for long.
type laborious struct {
	sim  *hnsfault.Sim
	cl   *cluster
	dp   *dataplane.Dataplane
	told told
	// at begins what it says while it computes, takes is how long that is for each piece.
	at    atomic.Pointer[string]
	takes atomic.Int64
}

// compute runs a node with one local pod, and a dataplane whose clock is read while its
// state is locked.
func compute(t *testing.T, play func(t *testing.T, l *laborious, c *Controller)) {
	l := &laborious{sim: hnsfault.New(hnsfault.Options{}), cl: newCluster()}
	l.dp = dataplane.New(dataplane.Config{Client: l.sim, Node: "n1", Now: func() time.Time {
		if at := l.at.Load(); at != nil && strings.HasPrefix(l.dp.Progress().Doing, *at) {
			time.Sleep(time.Duration(l.takes.Load()))
		}
		return time.Now()
	}})
	n := &paced{t: t, sim: l.sim}
	l.cl.pods.set(newPod("one", n.endpoint("ep-one", 1, 0)))
	cfg := Config{Source: l.cl.source(), Applier: l.dp, Progress: l.dp.Progress, Node: "n1", OnApplied: l.told.on}
	run(t, cfg, func(t *testing.T, c *Controller) {
		time.Sleep(time.Minute)
		require.NoError(t, c.Ready())
		play(t, l, c)
	})
}

// takesLong has the dataplane compute for so long each time that it is somewhere.
func (l *laborious) takesLong(at string, d time.Duration) {
	l.takes.Store(int64(d))
	l.at.Store(&at)
}

// checks returns what the probes say: "" for nothing.
func checks(c *Controller) (ready, healthy string) {
	say := func(err error) string {
		if err == nil {
			return ""
		}
		return err.Error()
	}
	return say(c.Ready()), say(c.Healthy())
}

// TestStalledTransaction: one piece of work holds the state's lock for minutes. The
// probes answer meanwhile and say where it is; when it is over all is well, and the
// report tells of it.
func TestStalledTransaction(t *testing.T) {
	for _, at := range []string{"staging NetworkPolicy x/bomb", "rendering NetworkPolicy x/bomb", "staging Pod x/p", "writing sets", "recording"} {
		t.Run(at, func(t *testing.T) {
			compute(t, func(t *testing.T, l *laborious, c *Controller) {
				l.takesLong(at, 5*time.Minute)
				l.cl.policies.set(allowing("bomb", "app", "one", 80))
				l.cl.pods.set(newRemotePod("p", "10.0.9.9")) // a local one without endpoint would be looked for
				time.Sleep(unreadyAfter - time.Second)
				ready, healthy := checks(c)
				require.Empty(t, ready)
				require.Empty(t, healthy)

				time.Sleep(2 * time.Second)
				ready, healthy = checks(c)
				require.Equal(t, "a transaction has made no progress for 11s: "+at, ready)
				require.Empty(t, healthy)

				time.Sleep(unhealthyAfter - unreadyAfter)
				ready, healthy = checks(c)
				require.Equal(t, "a transaction has made no progress for 1m1s: "+at, ready)
				require.Equal(t, ready, healthy)

				l.at.Store(nil)
				pass(5 * time.Minute)
				ready, healthy = checks(c)
				require.Empty(t, ready+healthy)
				require.Zero(t, l.dp.Progress())
				longest := func(reports []state.Report) (out []state.Piece) {
					for _, r := range reports {
						if r.Longest != nil {
							out = append(out, *r.Longest)
						}
					}
					return out
				}
				require.Equal(t, []state.Piece{{Doing: at, Took: 5 * time.Minute}}, longest(l.dp.Dump().Reports))
			})
		})
	}
}

// TestManyPieces: a transaction that takes minutes and gets on is no reason for
// anything.
func TestManyPieces(t *testing.T) {
	compute(t, func(t *testing.T, l *laborious, c *Controller) {
		l.takesLong("staging Pod ", 5*time.Second)
		for i := range 40 {
			l.cl.pods.set(newPod(fmt.Sprintf("p%d", i), fmt.Sprintf("10.0.9.%d", i)))
		}
		time.Sleep(time.Second)
		for range 39 {
			require.Contains(t, l.dp.Progress().Doing, "staging Pod ")
			ready, healthy := checks(c)
			require.Empty(t, ready+healthy)
			time.Sleep(5 * time.Second)
		}
	})
}

// TestCallThatTakesLong: a call of HNS makes the agent unready, with where it is; when
// it hangs is for the client to say.
func TestCallThatTakesLong(t *testing.T) {
	compute(t, func(t *testing.T, l *laborious, c *Controller) {
		l.sim.OnCall(func(call hnsfault.Call, when hnsfault.When) {
			if when == hnsfault.Before && call.Op == hns.OpACLAdd {
				time.Sleep(10 * time.Minute)
			}
		})
		l.cl.policies.set(allowing("p", "app", "one", 80))
		time.Sleep(time.Second)
		ready, healthy := checks(c)
		require.Empty(t, ready+healthy)
		time.Sleep(unreadyAfter)
		const where = "writing endpoint ep-one, in HNS: ACL/Add"
		require.EqualError(t, c.Ready(), "a transaction has made no progress for 11s: "+where)
		require.Equal(t, where, l.dp.Dump().Transaction.Doing, "the state is not locked")
		time.Sleep(5 * time.Minute)
		require.NoError(t, c.Healthy())
		time.Sleep(10 * time.Minute)
		ready, healthy = checks(c)
		require.Empty(t, ready+healthy)
		require.Nil(t, l.dp.Dump().Transaction)
	})
}
