package dataplane_test

import (
	"flag"
	"fmt"
	"os"
	"testing"

	"pgregory.net/rapid"

	"github.com/winnpm/winnpm/pkg/dataplane"
	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/test/effort"
)

// TestMain has random tests draw little for a change, and a fifth under the race
// detector, which sees little in walks of one goroutine; make deep runs them in full.
func TestMain(m *testing.M) {
	flag.Parse()
	effort.Checks(effort.Of(5, 20, 100))
	os.Exit(m.Run())
}

// rounds runs some walks side by side. It logs the first failure, as what depends
// on the order of a map may not come back when rapid shrinks it.
func rounds(t *testing.T, walk func(t *testing.T, rt *rapid.T, first *string)) {
	for i := range 2 {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			t.Parallel()
			var first string
			t.Cleanup(func() {
				if t.Failed() {
					t.Log("the first failure was:", first)
				}
			})
			rapid.Check(t, func(rt *rapid.T) { walk(t, rt, &first) })
		})
	}
}

func (w *walker) event(t *rapid.T, tx *dataplane.Transaction) {
	e := w.cluster.drawEvent(t)
	e.apply(w.cluster, tx)
	w.note("%s", e.text)
}

func isForeign(p hns.EndpointPolicy) bool {
	a, err := p.ACL()
	return err != nil || !a.Ours()
}

// quell uses up the faults that are still armed.
func (w *walker) quell() {
	for range 100 {
		if len(w.sim.UnusedFaults()) == 0 {
			return
		}
		_, _ = w.sim.Network(w.ctx)
		_, _ = w.sim.EndpointIDs(w.ctx)
		_, _ = w.sim.GetEndpoint(w.ctx, "none")
		_ = w.sim.AddACLs(w.ctx, "none", nil)
		_ = w.sim.ReplacePolicies(w.ctx, "none", nil)
		for _, verb := range []hns.Verb{hns.Add, hns.Update, hns.Remove} {
			_ = w.sim.ModifySets(w.ctx, verb, nil)
		}
	}
	w.fail("faults that never happen: %+v", w.sim.UnusedFaults())
}
