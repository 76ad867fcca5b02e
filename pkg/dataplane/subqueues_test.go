package dataplane

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/winnpm/winnpm/pkg/policy"
)

// TestCausesAlternate: whatever joins and whatever fails, who waits sees each other
// namespace served once before its turn. Nobody starves, and subqueues are as many as
// namespaces that wait.
func TestCausesAlternate(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := New(Config{Now: time.Now})
		const namespaces, policies, pods = 4, 3, 5
		for ns := range namespaces {
			for i := range pods {
				id := fmt.Sprintf("ep-%d-%d", ns, i)
				uid := types.UID(id)
				d.core.local[uid] = &podState{Pod: &Pod{Namespace: fmt.Sprint("ns", ns), Name: id, UID: uid}}
				d.core.endpoints[id] = &endpoint{id: id, owner: uid, writtenFor: uid}
			}
		}
		pick := func() *endpoint {
			id := fmt.Sprintf("ep-%d-%d", rapid.IntRange(0, namespaces-1).Draw(t, "namespace"), rapid.IntRange(0, pods-1).Draw(t, "pod"))
			return d.core.endpoints[id]
		}
		waits := map[string]map[string]int{} // subqueue → how often another one was served meanwhile
		for range rapid.IntRange(1, 120).Draw(t, "steps") {
			switch rapid.IntRange(0, 2).Draw(t, "what") {
			case 0: // a change
				ep := pick()
				ep.tries = 0
				ep.changedBy = policy.Key{}
				if p := rapid.IntRange(0, policies).Draw(t, "policy"); p < policies {
					ep.changedBy = policy.Key{Namespace: d.core.local[ep.owner].Namespace, Name: fmt.Sprint("p", p)}
				}
				if !ep.pending() {
					d.core.join(ep)
				} else {
					d.core.rejoin(ep)
				}
				if waits[ep.subqueue] == nil {
					waits[ep.subqueue] = map[string]int{}
				}
			case 1: // a turn
				due := d.core.due(time.Now())
				if len(due) == 0 {
					continue
				}
				ep := due[0]
				d.core.serve(ep.id)
				subqueue := ep.subqueue
				for other, seen := range waits {
					if seen[subqueue]++; other != subqueue && other != queueOfRetries {
						require.LessOrEqual(t, seen[subqueue], 1, "%q was served while %q waits", subqueue, other)
					}
				}
				ep.leave()
				if rapid.Bool().Draw(t, "fails") {
					ep.tries++
					d.core.join(ep)
					if waits[queueOfRetries] == nil {
						waits[queueOfRetries] = map[string]int{}
					}
				}
				delete(waits, subqueue)
				for _, other := range d.core.pending() {
					if other.subqueue == subqueue {
						waits[subqueue] = map[string]int{}
						break
					}
				}
			case 2: // the transaction ends
				d.core.forgetSubqueues()
				require.LessOrEqual(t, len(d.core.subqueues), namespaces+1)
			}
			for _, ep := range d.core.pending() {
				require.Contains(t, d.core.subqueues, ep.subqueue)
			}
		}
		// Nothing comes any more, and nothing fails: all are served.
		for left := len(d.core.pending()); left > 0; left-- {
			ep := d.core.due(time.Now())[0]
			d.core.serve(ep.id)
			ep.leave()
		}
		require.Empty(t, d.core.pending())
	})
}
