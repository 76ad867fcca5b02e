//go:build linux

package agent

import (
	"fmt"
	"strings"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/winnpm/winnpm/test/hnsfault"
)

// watch has HNS ask about probes after every write from now on. There have to be
// some of either outcome, or the watch would prove little.
func (h *host) watch(probes []hnsfault.Probe) []hnsfault.Outcome {
	h.t.Helper()
	h.ResetCounts()
	now := h.Sim().Watch(probes...)
	require.Contains(h.t, now, hnsfault.Allowed)
	require.Contains(h.t, now, hnsfault.Denied)
	require.NotContains(h.t, now, hnsfault.Unanswered)
	return now
}

// touched says what the agent wrote since watch, and which verdicts moved; it is
// empty when it left HNS alone.
func (h *host) touched() string {
	text := ""
	if n := h.writes(); n > 0 {
		text = fmt.Sprintf("%d writes: %v\n", n, h.Counts())
	}
	return text + moves(h.Sim().Transitions())
}

// moves is text about transitions, "" when there are none.
func moves(seen []hnsfault.Transition) string {
	if len(seen) == 0 {
		return ""
	}
	const shown = 5
	var text strings.Builder
	fmt.Fprintf(&text, "%d verdicts moved", len(seen))
	for _, x := range seen[:min(shown, len(seen))] {
		fmt.Fprintf(&text, "\nwrite %d (%s %s): %+v from %v to %v", x.Write, x.Op, x.Target, x.Probe, x.From, x.To)
	}
	return text.String()
}

// letThrough returns how many of the probes that were denied at first passed at
// some moment, and how long the one that passed longest.
func letThrough(seen []hnsfault.Transition) (probes int, longest time.Duration) {
	began := map[hnsfault.Probe]bool{} // denied at first
	since := map[hnsfault.Probe]time.Time{}
	passed := map[hnsfault.Probe]time.Duration{}
	for _, x := range seen {
		if _, known := began[x.Probe]; !known {
			began[x.Probe] = x.From == hnsfault.Denied
		}
		if !began[x.Probe] {
			continue
		}
		if x.To == hnsfault.Allowed {
			since[x.Probe] = x.At
			passed[x.Probe] += 0
		} else if at, open := since[x.Probe]; open {
			passed[x.Probe] += x.At.Sub(at)
			delete(since, x.Probe)
		}
	}
	for p, at := range since { // still open
		passed[p] += time.Since(at)
	}
	for _, d := range passed {
		longest = max(longest, d)
	}
	return len(passed), longest
}
