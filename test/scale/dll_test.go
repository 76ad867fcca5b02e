package scale

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/winnpm/winnpm/pkg/dataplane"
	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/test/effort"
	"github.com/winnpm/winnpm/test/hnsfault"
)

// endpointCounts are how many endpoints a node has.
var endpointCounts = []int{1, 10, localPods}

// crowd is a node with so many endpoints, whose pods the policies select, with
// everything in HNS.
func crowd(t *testing.T, endpoints int, policies ...*networkingv1.NetworkPolicy) *node {
	w := homeWorld(1_000, 0)
	for i := range w.pods {
		if p := &w.pods[i]; p.Local {
			p.Local = endpoints > 0
			endpoints--
		}
	}
	w.policies = append(w.policies, policies...)
	return programmed(t, w)
}

// TestDLLCallsOfAPodStart: from the event of a new pod until its block is on its
// endpoint, seven calls: GUIDs 2, the read of the new endpoint 3, a handle and the write
// over it 2. Each request for sets that its rules need is 3 more. It
// is the same however many endpoints the node has. Reading back what was written
// and closing the handle come after that.
func TestDLLCallsOfAPodStart(t *testing.T) {
	denyAll := &networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: home, Name: "deny"}}
	denyAll.Spec.PolicyTypes = []networkingv1.PolicyType{networkingv1.PolicyTypeIngress}
	fromChosen := fromApp("from it", nil, "", 1)
	fromChosen.Spec.Ingress[0].From = []networkingv1.NetworkPolicyPeer{{PodSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"role": "chosen"}}}}
	for name, tc := range map[string]struct {
		policy *networkingv1.NetworkPolicy
		sets   int // requests
	}{
		"needs no set":       {denyAll, 0},
		"its sets are there": {fromApp("of all", nil, appOf(0), 1), 0},
		"joins one of them":  {fromChosen, 1},
		"brings new sets":    {fromApp("of it", map[string]string{"role": "chosen"}, appOf(0), 1), 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, endpoints := range endpointCounts {
				n := crowd(t, endpoints, tc.policy)
				event := podComes(n)[0]
				n.take()
				isolated, sets := 0, 0
				n.sim.OnCall(func(c hnsfault.Call, when hnsfault.When) {
					blocks := slices.ContainsFunc(c.ACLs, func(a hns.ACL) bool { return a.Priority == hns.PriorityBlock })
					switch {
					case when == hnsfault.Before || isolated > 0:
					case blocks:
						isolated = n.sim.DLLCalls()
					case c.Sets != nil:
						sets++
					}
				})
				n.apply(event)
				require.Equal(t, tc.sets, sets)
				require.Equal(t, 7+3*tc.sets, isolated)
				require.Equal(t, isolated+2, n.take().dll, "nothing follows but a read and the handle's closing")
			}
		})
	}
}

// TestDLLCallsOfTheRollingLook: in a minute each endpoint and the sets are read
// once, and GUIDs every five seconds; while nothing happens nothing else is asked.
func TestDLLCallsOfTheRollingLook(t *testing.T) {
	const (
		minutes    = 10
		late       = 1.1  // how much longer a round may take, as looks wait for one another
		edge       = 0.03 // of the budget: looks at the edges of the time
		enumerates = 5 * time.Second
	)
	t.Parallel()
	for _, endpoints := range endpointCounts[:effort.Of(2, 3)] {
		n := crowd(t, endpoints, fromApp("a", nil, appOf(0), 1))
		n.look(2 * time.Minute) // until it goes round
		began := n.clock()
		last, longest := map[string]time.Time{}, map[string]time.Duration{}
		n.sim.OnCall(func(c hnsfault.Call, when hnsfault.When) {
			if when == hnsfault.Before {
				return
			}
			what, at := c.Op, n.clock()
			if c.Op == hns.OpEndpointGet {
				what = c.Target
			}
			if was, ok := last[what]; ok {
				longest[what] = max(longest[what], at.Sub(was))
			} else {
				longest[what] = at.Sub(began)
			}
			last[what] = at
		})
		n.take()
		n.look(minutes * time.Minute)
		asked := n.take()

		require.Len(t, longest, endpoints+2, "each endpoint, the sets, and GUIDs")
		for what, pause := range longest {
			most := time.Minute
			if what == hns.OpEndpointIDs {
				most = enumerates
			}
			require.LessOrEqual(t, pause.Seconds(), late*most.Seconds(), what)
		}
		budget := minutes * (3*endpoints + 4 + 2*int(time.Minute/enumerates))
		require.InEpsilon(t, budget, asked.dll, edge)
		for op := range asked.calls {
			require.Contains(t, []string{hns.OpEndpointGet, hns.OpEndpointIDs, hns.OpNetworkGet}, op)
		}
	}
}

// look looks at HNS for a while, as the controllers have the dataplane do it, and
// hands in what is found.
func (n *node) look(during time.Duration) {
	n.t.Helper()
	end := n.clock().Add(during)
	for {
		look, at := n.dp.NextLook()
		if !at.Before(end) {
			n.pass(end.Sub(n.clock()))
			return
		}
		n.pass(max(at.Sub(n.clock()), 0))
		due, err := n.dp.Observe(n.t.Context(), look)
		require.NoError(n.t, err)
		if due {
			n.apply(dataplane.NewTransaction())
		}
	}
}
