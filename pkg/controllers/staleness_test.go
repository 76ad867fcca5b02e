package controllers

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// told records what OnApplied was told, and when.
type told struct {
	all []Applied
	at  []time.Time
}

func (a *told) on(v Applied) { a.all, a.at = append(a.all, v), append(a.at, time.Now()) }

// since returns how long it took until everything was in HNS that came in at some times.
func (a *told) since(events []time.Time) (took []time.Duration) {
	for _, event := range events {
		for i, v := range a.all {
			if !v.Report.Started.Before(event) && v.Report.Unprogrammed == 0 {
				took = append(took, a.at[i].Sub(event))
				break
			}
		}
	}
	return took
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
