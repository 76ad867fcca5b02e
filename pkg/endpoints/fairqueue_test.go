package endpoints

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/winnpm/winnpm/pkg/desired"
	"github.com/winnpm/winnpm/pkg/drift"
	"github.com/winnpm/winnpm/pkg/ipsets"
	"github.com/winnpm/winnpm/pkg/policy"
)

// newTestEndpoints returns a State that knows nothing.
func newTestEndpoints() *State {
	cache, log := ipsets.NewCache(), drift.NewLog()
	return New(Settings{}, Dependencies{
		Cache: cache, Desired: desired.New(desired.Settings{Budgets: policy.DefaultBudgets()}, cache, func(string, string, string, string) {}),
		Drift: &log, Spellings: &drift.Spellings{},
	})
}

// joinLast has an endpoint join, and wants its turn to be behind those of all that wait for
// the same, wherever they are looked for.
func joinLast(t require.TestingT, d *State, ep *Endpoint) {
	d.Join(ep)
	last := d.subqueues[ep.subqueue].turn
	for _, other := range d.byID {
		same := other.subqueue == ep.subqueue && (ep.subqueue == queueOfRetries || d.cause(other) == d.cause(ep))
		if other != ep && same {
			last = max(last, other.turn)
		}
	}
	require.Equal(t, last+1, ep.turn)
}

// TestCausesAlternate: whatever joins and whatever fails, who waits sees each other
// namespace served once before its turn. Nobody starves, and subqueues are as many as
// namespaces that wait.
func TestCausesAlternate(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := newTestEndpoints()
		const namespaces, policies, pods = 4, 3, 5
		tx := desired.NewObjects()
		for ns := range namespaces {
			for i := range pods {
				id := fmt.Sprintf("ep-%d-%d", ns, i)
				uid := types.UID(id)
				tx.SharePod(&desired.Pod{Namespace: fmt.Sprint("ns", ns), Name: id, UID: uid, Local: true, Addr: netip.AddrFrom4([4]byte{10, 0, byte(ns), byte(i)})})
				d.byID[id] = &Endpoint{ID: id, owner: uid, writtenFor: uid}
			}
		}
		d.desired.Stage(&tx, time.Time{})
		pick := func() *Endpoint {
			id := fmt.Sprintf("ep-%d-%d", rapid.IntRange(0, namespaces-1).Draw(t, "namespace"), rapid.IntRange(0, pods-1).Draw(t, "pod"))
			return d.byID[id]
		}
		waits := map[string]map[string]int{} // subqueue → how often another one was served meanwhile
		for range rapid.IntRange(1, 120).Draw(t, "steps") {
			switch rapid.IntRange(0, 2).Draw(t, "what") {
			case 0: // a change
				ep := pick()
				ep.tries = 0
				ep.changedBy = policy.Key{}
				if p := rapid.IntRange(0, policies).Draw(t, "policy"); p < policies {
					ep.changedBy = policy.Key{Namespace: d.desired.Local(ep.owner).Namespace, Name: fmt.Sprint("p", p)}
				}
				if !ep.Pending() {
					joinLast(t, d, ep)
				} else {
					d.rejoin(ep)
				}
				if waits[ep.subqueue] == nil {
					waits[ep.subqueue] = map[string]int{}
				}
			case 1: // a turn
				due := d.Due(time.Now())
				if len(due) == 0 {
					continue
				}
				ep := due[0]
				d.Serve(ep.ID)
				subqueue := ep.subqueue
				for other, seen := range waits {
					if seen[subqueue]++; other != subqueue && other != queueOfRetries {
						require.LessOrEqual(t, seen[subqueue], 1, "%q was served while %q waits", subqueue, other)
					}
				}
				ep.leave()
				if rapid.Bool().Draw(t, "fails") {
					ep.tries++
					joinLast(t, d, ep)
					if waits[queueOfRetries] == nil {
						waits[queueOfRetries] = map[string]int{}
					}
				}
				delete(waits, subqueue)
				for _, other := range d.pending() {
					if other.subqueue == subqueue {
						waits[subqueue] = map[string]int{}
						break
					}
				}
			case 2: // the transaction ends
				d.ForgetSubqueues()
				require.LessOrEqual(t, len(d.subqueues), namespaces+1)
			}
			for _, ep := range d.pending() {
				require.Contains(t, d.subqueues, ep.subqueue)
			}
		}
		// Nothing comes any more, and nothing fails: all are served.
		for left := len(d.pending()); left > 0; left-- {
			ep := d.Due(time.Now())[0]
			d.Serve(ep.ID)
			ep.leave()
		}
		require.Empty(t, d.pending())
	})
}
