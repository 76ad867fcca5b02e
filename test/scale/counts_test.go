package scale

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/winnpm/winnpm/pkg/dataplane"
)

// TestCounts: each scenario makes so many requests of HNS, also in a cluster of five times
// the size. node.cost compares them with the cost model as well.
func TestCounts(t *testing.T) {
	type calls = map[string]int
	tests := map[string]struct {
		many       int
		want       calls
		dll        int // calls of the DLLs
		sent, read int // bytes
		fake       time.Duration
	}{
		// Two transactions of 500 events: one request each.
		"Churn": {0, calls{"SetPolicy/Update": 2}, 6, 10681, 0, 530 * time.Millisecond},
		// However many policies use the set.
		"OneAddressJoinsABusySet": {20, calls{"SetPolicy/Update": 1}, 3, 238, 0, 30 * time.Millisecond},
		// 104 rules make four requests, with two reads each, and its endpoint is read
		// when it is new.
		"OnePodManyPolicies": {100, calls{"Endpoint/Enumerate": 1, "SetPolicy/Add": 2, "ACL/Add": 4, "Endpoint/Get": 9}, 25, 37949, 132506, 250 * time.Millisecond},
		// However many pods the namespace has.
		"NamespaceRelabel": {500, calls{"SetPolicy/Update": 1}, 3, 755, 0, 30 * time.Millisecond},
		// One request for each of 110 endpoints, with two reads.
		"PolicyEdit": {0, calls{"ACL/Update": 110, "Endpoint/Get": 220}, 550, 139040, 309100, 5500 * time.Millisecond},
		// The whole set for one member.
		"BigSet": {1_000, calls{"SetPolicy/Update": 1}, 3, 15189, 0, 30 * time.Millisecond},
	}
	require.Len(t, tests, len(scenarios))
	for _, s := range scenarios {
		want := tests[s.name]
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			for _, pods := range []int{1_000, 5_000} {
				n := s.setup(t, size{pods, 50, want.many})
				n.meter.latency = 10 * time.Millisecond
				c := n.cost(s.event(n, 0)...)
				require.Equal(t, counts{want.want, want.dll, want.sent, want.read}, c.counts, pods)
				require.Equal(t, want.fake, c.fake)
			}
		})
	}
}

// TestCountsOfAStart: what is there is read once; a cold start writes two
// requests of sets and the rules of each isolated pod, a restart nothing.
func TestCountsOfAStart(t *testing.T) {
	t.Parallel()
	for _, pods := range []int{1_000, 5_000} {
		w := newWorld(pods, 500)
		n := newNode(t, w)
		cold := n.cost(w.transaction())
		require.Equal(t, counts{map[string]int{"Network/Get": 1, "Endpoint/Enumerate": 1, "SetPolicy/Add": 2, "ACL/Add": 110, "Endpoint/Get": 330}, 892, 160036, 400527}, cold.counts)
		n.restart()
		again := n.cost(w.transaction())
		require.Equal(t, counts{map[string]int{"Network/Get": 1, "Endpoint/Enumerate": 1, "Endpoint/Get": 110}, 336, 0, 260875}, again.counts)
		require.Empty(t, n.cost(dataplane.NewTransaction()).calls)
	}
}
