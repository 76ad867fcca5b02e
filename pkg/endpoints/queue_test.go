package endpoints

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/winnpm/winnpm/pkg/desired"
	"github.com/winnpm/winnpm/pkg/ipsets"
	"github.com/winnpm/winnpm/pkg/policy"
)

// newTestEndpoints returns a State that knows nothing.
func newTestEndpoints() *Table {
	cache := ipsets.NewCache()
	return New(Settings{}, Dependencies{
		Cache: cache, Desired: desired.New(desired.Settings{Budgets: policy.DefaultBudgets()}, cache, func(string, string, string, string) {}),
	})
}

// TestNamespacesAlternate: whatever joins, fails or is withdrawn, a namespace that waits sees each
// other one served twice at most before its turn, the rest of a round and the next one, and nothing starves.
func TestNamespacesAlternate(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := newTestEndpoints()
		const namespaces, pods = 4, 5
		tx := desired.NewObjects()
		for ns := range namespaces {
			for i := range pods {
				id := fmt.Sprintf("ep-%d-%d", ns, i)
				uid := types.UID(id)
				tx.SharePod(&desired.Pod{Namespace: fmt.Sprint("ns", ns), Name: id, UID: uid, Local: true, Addr: netip.AddrFrom4([4]byte{10, 0, byte(ns), byte(i)})})
				d.byID[id] = &Tracked{ID: id, owner: uid, writtenFor: uid}
			}
		}
		d.desired.Stage(&tx, time.Time{})
		pick := func() *Tracked {
			id := fmt.Sprintf("ep-%d-%d", rapid.IntRange(0, namespaces-1).Draw(t, "namespace"), rapid.IntRange(0, pods-1).Draw(t, "pod"))
			return d.byID[id]
		}
		waits := map[string]map[string]int{} // flow → how often another one was served meanwhile
		left := func(flow string) {          // an endpoint that waited in it
			delete(waits, flow)
			if slices.ContainsFunc(pending(d.byID), func(ep *Tracked) bool { return ep.flow == flow }) {
				waits[flow] = map[string]int{}
			}
		}
		for range rapid.IntRange(1, 120).Draw(t, "steps") {
			switch rapid.IntRange(0, 2).Draw(t, "what") {
			case 0: // a change
				ep := pick()
				was := ep.flow
				ep.tries = 0
				if !ep.Pending() || d.flowOf(ep) != was {
					d.Join(ep)
					left(was)
				}
				if waits[ep.flow] == nil {
					waits[ep.flow] = map[string]int{}
				}
			case 1: // a turn
				due := d.Due(time.Now())
				if len(due) == 0 {
					continue
				}
				ep := due[0]
				d.Serve(ep.ID)
				flow := ep.flow
				for other, seen := range waits {
					if seen[flow]++; other != flow && other != flowOfRetries {
						require.LessOrEqual(t, seen[flow], 2, "%q was served while %q waits", flow, other)
					}
				}
				d.leave(ep)
				if rapid.Bool().Draw(t, "fails") {
					ep.tries++
					d.Join(ep)
					if waits[flowOfRetries] == nil {
						waits[flowOfRetries] = map[string]int{}
					}
				}
				left(flow)
			case 2: // a change is withdrawn
				if ep := pick(); ep.Pending() {
					flow := ep.flow
					d.leave(ep)
					left(flow)
				}
			}
			turns := map[string]bool{}
			for _, ep := range pending(d.byID) {
				turn := fmt.Sprint(ep.flow, ep.turn)
				require.False(t, turns[turn], "two endpoints of %q have one turn", ep.flow)
				turns[turn] = true
			}
		}
		// Nothing comes any more, and nothing fails: all are served.
		for left := len(pending(d.byID)); left > 0; left-- {
			ep := d.Due(time.Now())[0]
			d.Serve(ep.ID)
			d.leave(ep)
		}
		require.Empty(t, pending(d.byID))
	})
}

// TestPausedFlow: endpoints of a flow whose pause is over take one turn each, however many turns
// they missed.
func TestPausedFlow(t *testing.T) {
	t.Parallel()
	q := newQueue()
	q.cfg.MaxRepairs = 32
	q.do(t, "repair x/1 x/2 x/3")
	for _, id := range []string{"x/1", "x/2", "x/3"} {
		q.endpoint(id).retryAt = testStart.Add(1)
	}
	for i := range 9 {
		q.do(t, fmt.Sprint("change y/", i), "serve")
	}
	for _, id := range []string{"x/1", "x/2", "x/3"} {
		q.endpoint(id).retryAt = testStart
	}
	q.served = nil
	q.do(t, "change y/10 y/11", "rest")
	require.Equal(t, []string{"x/1", "y/10", "x/2", "y/11", "x/3"}, q.served)
}
