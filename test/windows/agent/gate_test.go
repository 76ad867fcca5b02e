//go:build linux

package agent

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/winnpm/winnpm/test/effort"
	"github.com/winnpm/winnpm/test/windows/hnsd"
	"github.com/winnpm/winnpm/tool/hnssim"
)

// bridged is the HNS of a node whose CNI is win-bridge.
func bridged() hnsd.Options {
	return hnsd.Options{Network: cniNetwork, Subnet: cniSubnet} // win-bridge says what an endpoint gets
}

// manyPackets is how many forbidden packets each row asks about while its pods run.
const manyPackets = 10_000

// A runtime, a plugin that makes endpoints, and HNS agree: a pod gets an endpoint with
// its address in its namespace, and it goes with the pod.
func TestGate_EndpointOfAPod(t *testing.T) {
	begin(t)
	h := newHost(t, bridged())
	c := runContainerd(t, h, nil)
	s := c.sandbox("shop", "web", "1")
	a := c.do("setup", s)
	require.Empty(t, a.Error)
	require.Len(t, a.IPs, 1)
	require.True(t, cniSubnet.Contains(a.IPs[0]))
	all := h.Sim().Endpoints()
	require.Len(t, all, 1)
	require.Equal(t, a.IPs, all[0].Addrs)
	require.Equal(t, hnssim.AttachedSharing, all[0].State)
	t.Logf("set up in %v; DLL calls: %v", a.Ended.Sub(a.Began), h.Counts())
	require.Empty(t, c.do("remove", s).Error)
	require.Empty(t, h.Sim().Endpoints())
	require.NoError(t, h.DeleteNamespace(s.Netns))
	require.Empty(t, h.Failed())
}

// No forbidden packet passes at a pod that runs, and every allowed one does, whatever
// HNS takes for a call and however many pods start at once.
func TestGate_NothingPasses(t *testing.T) {
	both := []string{"strict", "wait"}
	g := newGated(t)
	n := g.agent(calm...)
	n.waitReady()
	for _, row := range []struct {
		latency time.Duration
		pods    int
		wait    int // seconds
		modes   []string
	}{
		{0, 1, 10, both}, {10 * time.Millisecond, 1, 10, both}, {100 * time.Millisecond, 1, 10, both},
		{100 * time.Millisecond, effort.Of(3, 3, 50), 300, both[effort.Of(1, 1, 0):]},
		{0, effort.Of(20, 20, 50), 60, both}, {10 * time.Millisecond, effort.Of(10, 10, 50), 60, both[effort.Of(1, 1, 0):]},
	} {
		for _, mode := range row.modes {
			t.Run(fmt.Sprintf("%s, %v a call, %d pods", mode, row.latency, row.pods), func(t *testing.T) {
				g.use(entry(mode, row.wait))
				g.h.SetLatency(row.latency)
				g.h.ResetCounts()
				all := g.start(row.pods)
				g.nothingPassed(t, all)
				t.Logf("DLL calls: %v, failed: %v", g.h.Counts(), g.h.Failed())
				g.end(all)
			})
		}
	}
}

// An endpoint whose list has it closed from the call that makes it is never open.
func TestGate_BornClosed(t *testing.T) {
	g := newGated(t)
	n := g.agent(calm...)
	n.waitReady()
	g.cri.write(g.cri.listWith(bornClosed, entry("strict", 10)))
	require.Empty(t, g.cri.do("load", sandbox{}).Error)
	g.h.SetLatency(10 * time.Millisecond)
	all := g.start(5)
	g.nothingPassed(t, all)
	for _, w := range g.eyes.ran() {
		require.Len(t, w.open, 1, "its verdicts moved")
		require.Zero(t, w.open[0].passed)
	}
	g.end(all)
}

// The first pods of a node show the agent which network is that of the pods, when nobody
// has named it, and are held until it has seen that.
func TestGate_FirstPods(t *testing.T) {
	g := newGated(t)
	n := start(t, ownNode, g.h.addr, options{config: `{}`, flags: calm})
	require.Contains(t, n.check("/readyz"), "waiting for the HNS network of the pods")
	g.use(entry("strict", 30))
	g.nothingPassed(t, g.start(3))
	n.waitReady()
}

// The same packets are found when nobody holds the pods back.
func TestGate_OffLetsPass(t *testing.T) {
	g := newGated(t)
	n := g.agent(calm...)
	n.waitReady()
	for _, latency := range []time.Duration{0, 10 * time.Millisecond, 100 * time.Millisecond} {
		for _, count := range []int{1, 10} {
			if latency == 100*time.Millisecond && count > 1 && effort.Now() == effort.Quick {
				continue
			}
			t.Run(fmt.Sprintf("%v a call, %d pods", latency, count), func(t *testing.T) {
				g.use(entry("off", 10))
				g.h.SetLatency(latency)
				all := g.start(count)
				g.waitClosed(count)
				packets, _ := g.eyes.leaks()
				require.Positive(t, packets)
				t.Logf("%d of %d forbidden packets passed; %s", packets, count*len(forbidden("", ownAddr)), g.figures(all))
				g.end(all)
			})
		}
	}
}

// waitClosed waits until nothing forbidden passes at so many endpoints.
func (g *gated) waitClosed(count int) {
	g.t.Helper()
	eventually(g.t, settle, func() string {
		closed := 0
		for _, w := range g.eyes.ran() {
			if w.open[len(w.open)-1].passed == 0 {
				closed++
			}
		}
		if closed == count {
			return ""
		}
		return fmt.Sprintf("%d of %d pods are closed", closed, count)
	})
}

// figures are how long things took: setups, the endpoints' way from their making to being
// closed, and how long before its pod runs, or after that, each was.
func (g *gated) figures(all []*started) string {
	var took, closed, ahead, open []time.Duration
	for _, p := range all {
		took = append(took, p.took)
	}
	for _, w := range g.eyes.ran() {
		d, ok := w.closed()
		if !ok {
			continue
		}
		closed, ahead = append(closed, d), append(ahead, w.runs.Sub(w.made)-d)
		_, longest := w.leaked()
		open = append(open, longest)
	}
	return fmt.Sprintf("setup %s; endpoint closed after %s, ahead of its pod by %s, open while that ran %s",
		spread(took), spread(closed), spread(ahead), spread(open))
}

// spread is the least, middle and greatest of durations.
func spread(all []time.Duration) string {
	if len(all) == 0 {
		return "-"
	}
	slices.Sort(all)
	round := func(i int) time.Duration { return all[i].Round(time.Millisecond) }
	if len(all) == 1 {
		return round(0).String()
	}
	return fmt.Sprintf("%v/%v/%v", round(0), round(len(all)/2), round(len(all)-1))
}
