//go:build linux

package agent

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// manyPackets is how many forbidden packets each row asks about while its pods run.
const manyPackets = 10_000

// tryAgainLater is CNI's code of a pod that the kubelet tries again.
const tryAgainLater = 11

// No forbidden packet passes at a pod that runs, and every allowed one does, whatever
// HNS takes for a call and however many pods start at once.
func TestGate_NothingPasses(t *testing.T) {
	g := newGated(t)
	n := g.agent(calm...)
	n.waitReady()
	for _, row := range []struct {
		mode    string
		latency time.Duration
		pods    int
		wait    int // seconds
	}{{"strict", 0, 20, 60}, {"wait", 0, 20, 60}, {"strict", 10 * time.Millisecond, 1, 10}, {"wait", 10 * time.Millisecond, 10, 60}} {
		t.Run(fmt.Sprintf("%s, %v a call, %d pods", row.mode, row.latency, row.pods), func(t *testing.T) {
			g.use(entry(row.mode, row.wait))
			g.h.takes(row.latency)
			all := g.start(row.pods)
			g.nothingPassed(t, all)
			g.end(all)
		})
	}
}

// The same packets pass when nobody holds the pod back.
func TestGate_OffLetsPass(t *testing.T) {
	g := newGated(t)
	n := g.agent(calm...)
	n.waitReady()
	g.use(entry("off", 10))
	g.h.takes(10 * time.Millisecond)
	all := g.start(1)
	g.waitClosed(1)
	require.Positive(t, g.eyes.leaks())
	g.end(all)
}

// However often the agent is killed and started while pods start, at whichever call of
// HNS, no pod runs before its policies are there, and each runs in the end.
func TestGate_AgentKilled(t *testing.T) {
	g := newGated(t)
	for _, mode := range []string{"strict", "wait"} {
		t.Run(mode, func(t *testing.T) {
			g.use(entry(mode, 60))
			n := g.agent(calm...)
			n.waitReady()
			all := g.schedule(10)
			g.h.takes(5 * time.Millisecond)
			wait := g.startAll(all, kubeletTries)
			for i := range 2 {
				victim, died := n, make(chan struct{})
				nth := 1 + rand.IntN(3)
				g.h.atWrite(nth, func() {
					victim.kill()
					close(died)
				})
				waitFor(t, died, "the write at which npm.exe is killed")
				t.Logf("kill %d at write %d of rules: %d of %d pods run", i+1, nth, len(g.eyes.ran()), len(all))
				n = g.agent(calm...)
			}
			wait()
			g.nothingPassed(t, all)
			n.kill()
			g.end(all)
		})
	}
}

// Without an agent strict starts no pod and the kubelet tries again, and wait lets go when the wait
// is over, and says so. The agent closes what it finds open when it is back.
func TestGate_NoAgent(t *testing.T) {
	const seconds = 2
	g := newGated(t)
	g.use(entry("strict", seconds))
	strict := g.schedule(1)
	g.startAll(strict, 1)()
	first := strict[0].tries[0]
	require.EqualValues(t, tryAgainLater, first.Code, first.Error)
	require.Contains(t, first.Error, "not started, the kubelet tries again: pod shop/"+strict[0].name+": no agent answers: ")
	require.GreaterOrEqual(t, first.Ended.Sub(first.Began), time.Duration(seconds)*time.Second*9/10)
	require.Empty(t, g.eyes.ran())
	require.Empty(t, g.h.Sim().Endpoints(), "what a failed setup made is taken down")

	g.use(entry("wait", seconds))
	open := g.start(1)
	require.Contains(t, g.cri.said(t), "started without its policies: pod shop/"+open[0].name+": no agent answers: ")
	require.Equal(t, len(forbidden("", ownAddr)), g.eyes.leaks(), "wait means it")
	n := g.agent()
	g.waitClosed(1)
	n.waitReady()
	g.meetsFriends(open)
	g.end(open)

	g.use(entry("strict", 30))
	g.startAll(strict, kubeletTries)()
	g.nothingPassed(t, strict)
	g.end(strict)
}
