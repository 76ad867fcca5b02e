package scale

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/winnpm/winnpm/pkg/dataplane"
	"github.com/winnpm/winnpm/pkg/hns"
)

// What the node pays for is calls of the DLLs. These are the budgets of
// docs/performance.md, on nodes with few and with many endpoints.

// endpointCounts are how many endpoints a node has.
var endpointCounts = []int{1, 10, localPods}

// crowd is a node with so many endpoints, whose pods the policies select, with
// everything in HNS.
func crowd(t *testing.T, endpoints int, policies ...*networkingv1.NetworkPolicy) *node {
	w := homeWorld(size{pods: 1_000})
	for i := range w.pods {
		if p := &w.pods[i]; p.Local {
			p.Local = endpoints > 0
			endpoints--
		}
	}
	w.policies = append(w.policies, policies...)
	return programmed(t, w)
}

// perEndpoint runs a test for nodes of every size.
func perEndpoint(t *testing.T, test func(t *testing.T, endpoints int)) {
	for _, n := range endpointCounts {
		t.Run(fmt.Sprintf("endpoints=%d", n), func(t *testing.T) {
			t.Parallel()
			test(t, n)
		})
	}
}

// denyAll isolates every pod of home, and names no set.
func denyAll() *networkingv1.NetworkPolicy {
	return &networkingv1.NetworkPolicy{
		ObjectMeta: metav1.ObjectMeta{Namespace: home, Name: "deny"},
		Spec:       networkingv1.NetworkPolicySpec{PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeIngress}},
	}
}

// fromChosen lets the pods that podComes starts in to every pod of home.
func fromChosen() *networkingv1.NetworkPolicy {
	np := fromApp("from it", nil, "", 1)
	np.Spec.Ingress[0].From = []networkingv1.NetworkPolicyPeer{{PodSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"role": "chosen"}}}}
	return np
}

// TestDLLCallsOfAPodStart: from the event of a new pod until its block is on its
// endpoint, eight calls: GUIDs 2, the read of the new endpoint 3, a handle, a read
// and the write over it 3. Each request for sets that its rules need is 3 more. It
// is the same however many endpoints the node has. Reading back what was written
// and closing the handle come after that.
func TestDLLCallsOfAPodStart(t *testing.T) {
	for name, tc := range map[string]struct {
		policy *networkingv1.NetworkPolicy
		sets   int // requests
	}{
		"needs no set":       {denyAll(), 0},
		"its sets are there": {fromApp("of all", nil, appOf(0), 1), 0},
		"joins one of them":  {fromChosen(), 1},
		"brings new sets":    {fromApp("of it", map[string]string{"role": "chosen"}, appOf(0), 1), 2},
	} {
		t.Run(name, func(t *testing.T) {
			perEndpoint(t, func(t *testing.T, endpoints int) {
				n := crowd(t, endpoints, tc.policy)
				event := podComes(n, 0)[0]
				n.meter.take()
				n.apply(event)
				isolated, sets := n.meter.blocked, n.meter.sets
				all, _ := n.meter.take()
				require.Equal(t, tc.sets, sets)
				require.Equal(t, 8+3*tc.sets, isolated)
				require.Equal(t, isolated+2, all.dll, "nothing follows but a read and the handle's closing")
			})
		})
	}
}

// TestDLLCallsOfAPolicyEdit: five calls for each endpoint of the policy, over one
// handle.
func TestDLLCallsOfAPolicyEdit(t *testing.T) {
	perEndpoint(t, func(t *testing.T, endpoints int) {
		n := crowd(t, endpoints, fromApp("edited", nil, appOf(0), 1))
		require.Equal(t, 5*endpoints, n.cost(editPolicy(n, 0)...).dll)
	})
}

// TestDLLCallsOfARestart: the GUIDs and each endpoint, and the network with its
// sets.
func TestDLLCallsOfARestart(t *testing.T) {
	perEndpoint(t, func(t *testing.T, endpoints int) {
		n := crowd(t, endpoints, fromApp("a", nil, appOf(0), 1))
		n.restart()
		require.Equal(t, 2+3*endpoints+4, n.cost(n.world.transaction()).dll)
	})
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
	perEndpoint(t, func(t *testing.T, endpoints int) {
		n := crowd(t, endpoints, fromApp("a", nil, appOf(0), 1))
		n.meter.latency = 10 * time.Millisecond
		n.look(2 * time.Minute) // until it goes round
		began := n.meter.clock()
		last, longest := map[string]time.Time{}, map[string]time.Duration{}
		n.meter.seen = func(what string, at time.Time) {
			if was, ok := last[what]; ok {
				longest[what] = max(longest[what], at.Sub(was))
			} else {
				longest[what] = at.Sub(began)
			}
			last[what] = at
		}
		n.meter.take()
		n.look(minutes * time.Minute)
		asked, _ := n.meter.take()

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
		require.Equal(t, asked.requests(), asked.calls[hns.OpEndpointGet]+asked.calls[hns.OpEndpointIDs]+asked.calls[hns.OpNetworkGet])
	})
}

// look looks at HNS for a while, as the controllers have the dataplane do it, and
// hands in what is found.
func (n *node) look(during time.Duration) {
	n.t.Helper()
	end := n.meter.clock().Add(during)
	for {
		look, at := n.dp.NextLook()
		if !at.Before(end) {
			n.meter.pass(end.Sub(n.meter.clock()))
			return
		}
		n.meter.pass(max(at.Sub(n.meter.clock()), 0))
		obs, err := n.dp.Observe(n.t.Context(), look)
		require.NoError(n.t, err)
		if obs != nil {
			tx := dataplane.NewTransaction()
			tx.SetObservation(obs)
			n.apply(tx)
		}
	}
}
