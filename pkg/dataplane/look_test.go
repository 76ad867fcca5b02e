package dataplane_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/winnpm/winnpm/pkg/dataplane"
	"github.com/winnpm/winnpm/test/effort"
)

// TestWhatATransactionReadCanWait: the sets and the GUIDs were read by the first
// transaction, so neither is looked at at once.
func TestWhatATransactionReadCanWait(t *testing.T) {
	w := newWorld(t)
	began := w.now
	w.settle()
	look, at := w.dp.NextLook()
	require.Equal(t, dataplane.Look{Enumerate: true}, look)
	require.Equal(t, 5*time.Second, at.Sub(began).Round(time.Second))
}

// Whoever has been read longest ago is next, so that everything is read within a
// minute, however many endpoints there are, and HNS rests in between.
func TestLooksAlternate(t *testing.T) {
	for _, endpoints := range []int{0, 1, 2, 3, 10, effort.Of(40, 110)} {
		t.Run(fmt.Sprint(endpoints), func(t *testing.T) {
			w := newWorld(t)
			w.do("namespace x", `policy x/all {podSelector: {}, ingress: [{from: [{podSelector: {matchLabels: {app: api}}}]}]}`)
			for i := range endpoints {
				w.do(fmt.Sprintf("endpoint ep-%03d 10.0.1.%d", i, i+1), fmt.Sprintf("pod x/w%03d 10.0.1.%d", i, i+1))
			}
			w.do("apply")
			began := w.now
			read := map[string]time.Time{"sets": began, "enumerated": began} // when it was read last
			for i := range endpoints {
				read[fmt.Sprintf("ep-%03d", i)] = began
			}
			longest := map[string]time.Duration{}
			looks := 0
			see := func(what string) {
				longest[what] = max(longest[what], w.now.Sub(read[what]))
				read[what] = w.now
			}
			for w.now.Sub(began) < 10*time.Minute {
				look, at := w.dp.NextLook()
				if at.After(w.now) {
					w.now = at
				}
				looks++
				require.Less(t, looks, 2*(10*(endpoints+1)+120), "far more than a minute needs")
				switch {
				case look.Enumerate:
					see("enumerated")
				case look.Sets:
					see("sets")
				}
				for _, id := range look.Endpoints {
					see(id)
				}
				due, err := w.dp.Observe(t.Context(), look)
				require.NoError(t, err)
				require.False(t, due)
			}
			require.Len(t, longest, endpoints+2)
			for what, gap := range longest {
				limit := 67 * time.Second // all was read at the start
				if what == "enumerated" {
					limit = 6 * time.Second
				}
				require.LessOrEqual(t, gap, limit, what)
			}
		})
	}
}
