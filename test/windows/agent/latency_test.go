//go:build linux

package agent

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/winnpm/winnpm/test/hnsfault"
)

// What a call of HNS takes in the benchmark, and how many endpoints there are.
const (
	callTakes     = 10 * time.Millisecond
	manyEndpoints = 100
)

// A new isolated pod is closed soon when every call takes its time and the node is
// full. The figures are for docs/performance.md; the bounds are generous, as the
// machine may be busy.
func TestLatencyOfANewPod(t *testing.T) {
	begin(t)
	h := newHost(t, azure())
	w := newWorld(t)
	w.node(ownNode, ownAddr.String())
	w.namespace("shop", nil)
	var there []pod
	for i := range manyEndpoints {
		name := fmt.Sprintf("old-%d", i)
		p := pod{namespace: "shop", name: name, node: ownNode, addr: addr(100 + i), labels: map[string]string{"app": "old"}}
		h.plug(p.addr)
		there = append(there, p)
	}
	w.pods(there)
	w.policy("shop", "isolated", `{podSelector: {matchLabels: {isolated: "yes"}}}`)
	n := start(t, ownNode, h.addr, options{config: `{}`, flags: calm})
	n.waitReady()
	h.SetLatency(callTakes)

	next := 0
	// closes makes pods and returns how long after their status each is closed.
	closes := func(count int) []time.Duration {
		t.Helper()
		var fresh []pod
		var probes []hnsfault.Probe
		for range count {
			p := pod{
				namespace: "shop", name: fmt.Sprintf("new-%d", next), node: ownNode, addr: addr(300 + next),
				labels: map[string]string{"isolated": "yes"},
			}
			next++
			h.plug(p.addr)
			fresh = append(fresh, p)
			probes = append(probes, h.incoming(stranger, p, 80))
		}
		h.Sim().Watch(probes...)
		h.ResetCounts()
		began := time.Now()
		w.pods(fresh)
		eventually(t, settle, func() string { return h.denies(probes...) })
		var took []time.Duration
		for _, x := range h.Sim().Transitions() {
			require.Equal(t, hnsfault.Denied, x.To, moves(h.Sim().Transitions()))
			took = append(took, x.At.Sub(began))
		}
		require.Len(t, took, count)
		n.waitReady()
		return took
	}
	calls := func() (sum int) {
		for _, count := range h.Counts() {
			sum += count
		}
		return sum
	}
	var single []time.Duration
	var each []int
	for range 9 {
		single = append(single, closes(1)...)
		each = append(each, calls())
	}
	slices.Sort(single)
	slices.Sort(each)
	ten := closes(10)
	slices.Sort(ten)
	t.Logf("%v a call, %d endpoints: a new isolated pod is closed after %v (p50), %v (worst of %d), %d DLL calls (p50) until all is done; ten at once after %v (p50), %v (last), %d calls",
		callTakes, manyEndpoints, single[4].Round(time.Millisecond), single[8].Round(time.Millisecond), len(single), each[4],
		ten[4].Round(time.Millisecond), ten[9].Round(time.Millisecond), calls())
	h.SetLatency(0)
	require.Less(t, single[4], 300*time.Millisecond, "%v", single)
	require.Less(t, ten[4], 1500*time.Millisecond, "%v", ten)
	require.Less(t, ten[9], 3*time.Second, "%v", ten)
}
