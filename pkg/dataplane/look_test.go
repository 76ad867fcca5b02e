package dataplane_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/winnpm/winnpm/pkg/dataplane"
	"github.com/winnpm/winnpm/pkg/hns"
)

// TestWhatATransactionReadCanWait: the sets and the GUIDs were read by the first
// transaction, so neither is looked at at once.
func TestWhatATransactionReadCanWait(t *testing.T) {
	w := newWorld(t, "")
	began := w.now
	w.settle()
	look, at := w.dp.NextLook()
	require.Equal(t, dataplane.Look{Enumerate: true}, look)
	require.Equal(t, 5*time.Second, at.Sub(began).Round(time.Second))
}

// Whoever has been read longest ago is next, so that everything is read within a
// minute, however many endpoints there are, and HNS rests in between.
func TestLooksAlternate(t *testing.T) {
	for _, endpoints := range []int{0, 1, 2, 3, 10, 110} {
		t.Run(fmt.Sprint(endpoints), func(t *testing.T) {
			w := newWorld(t, policyText("all", `{podSelector: {}, ingress: [{from: [{podSelector: {matchLabels: {app: api}}}]}]}`))
			w.do("namespace x", "policy all")
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
				obs, err := w.dp.Observe(t.Context(), look)
				require.NoError(t, err)
				if obs != nil {
					w.tx.SetObservation(obs)
					w.do("apply", "calls")
				}
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

// An HNS that shows an address of a set with its mask has what was asked for.
func TestSetValuesWithMasks(t *testing.T) {
	w := newWorld(t, policyText("all", `{podSelector: {}, ingress: [{from: [{podSelector: {matchLabels: {app: api}}}]}]}`))
	w.do("namespace x", "policy all", "endpoint ep 10.0.0.4", "pod x/web 10.0.0.4", "pod x/api 10.0.0.9 app=api remote", "apply")
	for _, set := range w.sim.Sets() {
		for i, value := range set.Values {
			set.Values[i] = value + "/32"
		}
		if set.Type == hns.IPSet {
			require.NoError(t, w.sim.PutSet(set))
		}
	}
	w.do("look", "fold", "apply", "calls", "look", "fold", "apply", "calls")
	w.do("pod x/api 10.0.0.8 app=api remote", "apply")
	require.Equal(t, 1, w.writes(), "what is really another address is")
}

// TestWriteDuringALook: a set is written while a look reads the sets, which show what
// was there before, and HNS loses the write. The look comes in after it and says nothing
// of that set; the next one, which shows the same again, does.
func TestWriteDuringALook(t *testing.T) {
	w := newWorld(t, policyText("all", `{podSelector: {}, ingress: [{from: [{podSelector: {matchLabels: {app: api}}}]}]}`))
	w.do("namespace x", "policy all", "endpoint ep 10.0.0.4", "pod x/web 10.0.0.4", "pod x/api 10.0.0.9 app=api remote", "apply")
	before := w.sim.Sets()
	sets := dataplane.Look{Sets: true}
	meanwhile, err := w.dp.Observe(t.Context(), sets)
	require.NoError(t, err)
	w.do("pod x/more 10.0.0.8 app=api remote", "apply")
	for _, set := range before {
		require.NoError(t, w.sim.PutSet(set))
	}
	w.tx.SetObservation(meanwhile)
	w.do("apply")
	obs, err := w.dp.Observe(t.Context(), sets)
	require.NoError(t, err)
	require.NotNil(t, obs, "the write is not there")
	w.tx.SetObservation(obs)
	w.do("apply", "trace 10.0.0.8 -> 10.0.0.4 TCP/80 ep in allow")
}

// TestLooksHurryAfterALoss: HNS has lost everything, in silence. The first endpoint
// that is found without its block has all others looked at at once.
func TestLooksHurryAfterALoss(t *testing.T) {
	w := newWorld(t, policyText("all", `{podSelector: {}, ingress: [{from: [{podSelector: {matchLabels: {app: api}}}]}]}`))
	w.do("namespace x", "policy all", "pod x/api 10.0.0.9 app=api remote")
	for i := range 20 {
		w.do(fmt.Sprintf("endpoint ep-%02d 10.0.1.%d", i, i+1), fmt.Sprintf("pod x/w%02d 10.0.1.%d", i, i+1))
	}
	w.do("apply", "advance 1m")
	right := w.sim.Dump()
	w.sim.LoseAll()
	began := w.now
	for w.sim.Dump() != right {
		look, at := w.dp.NextLook()
		if at.After(w.now) {
			w.now = at
		}
		require.Less(t, w.now.Sub(began), 10*time.Second, "a round takes a minute")
		obs, err := w.dp.Observe(t.Context(), look)
		require.NoError(t, err)
		if obs != nil {
			w.tx.SetObservation(obs)
			_ = w.apply()
			w.now = w.now.Add(w.report.Next())
		}
	}
	w.settle()
	require.Equal(t, right, w.sim.Dump())
}
