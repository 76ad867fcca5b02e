package scale

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/winnpm/winnpm/pkg/dataplane"
	"github.com/winnpm/winnpm/pkg/desired"
	"github.com/winnpm/winnpm/test/effort"
)

// TestCounts checks the requests of one event each, also in a cluster of five times the size.
// node.cost compares them with the cost model.
func TestCounts(t *testing.T) {
	tests := map[string]struct {
		begin func(pods, policies int) *world
		event func(n *node) []*dataplane.Transaction
		want  cost
	}{
		"a second of pod events: two transactions, one request each": {
			newWorld, func(n *node) []*dataplane.Transaction { return churn(n, 0) },
			cost{counts{map[string]int{"SetPolicy/Update": 2}, 6}, 22035},
		},
		"a pod of 100 policies: 104 rules make two requests, the block first, and a read around each": {
			manyPolicies, podComes,
			cost{counts{map[string]int{"Endpoint/Enumerate": 1, "SetPolicy/Add": 2, "ACL/Add": 1, "ACL/Update": 1, "Endpoint/Get": 4}, 18}, 38504},
		},
		"an edited policy: one request with two reads for each of 110 endpoints": {
			homePolicy, editPolicy,
			cost{counts{map[string]int{"ACL/Update": 110, "Endpoint/Get": 220}, 550}, 130900},
		},
		"one member of a big set: the whole set": {
			bigSet, relabelOne,
			cost{counts{map[string]int{"SetPolicy/Update": 1}, 3}, 15116},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, pods := range []int{1_000, 5_000}[:effort.Of(1, 2)] {
				n := programmed(t, test.begin(pods, 50))
				require.Equal(t, test.want, n.cost(test.event(n)...), pods)
			}
		})
	}
}

// TestCallsOfAStart: DLL calls of a node with 20 endpoints, all of isolated pods.
func TestCallsOfAStart(t *testing.T) {
	t.Parallel()
	w := homePolicy(1_000, 0)
	locals := 0
	for i := range w.pods {
		if p := &w.pods[i]; p.Local {
			locals++
			p.Local = locals <= 20
		}
	}
	n := newNode(t, w)
	cold := n.cost(w.transaction())
	require.Equal(t, 20, cold.calls["ACL/Add"], "each is isolated")
	require.Equal(t, 152, cold.dll, "the network 4, GUIDs 2, three for each read, sets 6, and four for each write")
	n.restart()
	again := n.cost(w.transaction())
	require.Equal(t, 66, again.dll, "the network 4, GUIDs 2, and three for each read")
}

// TestCountsOfAStart: what is there is read once; a cold start writes two
// requests of sets and the rules of each isolated pod, a restart nothing.
func TestCountsOfAStart(t *testing.T) {
	t.Parallel()
	for _, pods := range []int{1_000, 5_000}[:effort.Of(1, 2)] {
		w := newWorld(pods, 500)
		n := newNode(t, w)
		cold := n.cost(w.transaction())
		require.Equal(t, counts{map[string]int{"Network/Get": 1, "Endpoint/Enumerate": 1, "SetPolicy/Add": 2, "ACL/Add": 110, "Endpoint/Get": 220}, 782}, cold.counts)
		n.restart()
		again := n.cost(w.transaction())
		require.Equal(t, counts{map[string]int{"Network/Get": 1, "Endpoint/Enumerate": 1, "Endpoint/Get": 110}, 336}, again.counts)
		require.Empty(t, n.cost(dataplane.NewTransaction()).calls)
	}
}

// churnEvents is a second of events, in transactions of half of them.
const churnEvents = 1_000

// churn changes pods of other nodes, and changes them back in the next transaction: half of them
// get the label of another workload, the rest go and come again. It takes other pods each turn.
func churn(n *node, turn int) []*dataplane.Transaction {
	remote := slices.DeleteFunc(slices.Clone(n.world.pods), func(p desired.Pod) bool { return p.Local })
	there, back := dataplane.NewTransaction(), dataplane.NewTransaction()
	for i := range churnEvents / 2 {
		k := turn*churnEvents/2 + i
		p := remote[k%len(remote)]
		back.SetPod(p)
		if i%2 == 0 {
			there.DeletePod(p.Key())
			continue
		}
		p.Labels = remote[(k+replicas)%len(remote)].Labels
		there.SetPod(p)
	}
	return []*dataplane.Transaction{there, back}
}

// home is the namespace of all local pods in worlds that are about them.
const home = "home"

// homeWorld is a cluster whose local pods are in one namespace. The policies of
// the neighbourhood select none of them there.
func homeWorld(pods, policies int) *world {
	w := newWorld(pods, policies)
	w.addNamespace(home, "home")
	for i := range w.pods {
		if p := &w.pods[i]; p.Local {
			p.Namespace = home
		}
	}
	return w
}

// fromApp is a policy of home that allows one port from the pods of an app in
// the namespaces of a team.
func fromApp(name string, selects map[string]string, app string, port int) *networkingv1.NetworkPolicy {
	return &networkingv1.NetworkPolicy{
		ObjectMeta: metav1.ObjectMeta{Namespace: home, Name: name},
		Spec: networkingv1.NetworkPolicySpec{
			PodSelector: metav1.LabelSelector{MatchLabels: selects},
			Ingress: []networkingv1.NetworkPolicyIngressRule{{
				From: []networkingv1.NetworkPolicyPeer{{
					NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"team": "near-0"}},
					PodSelector:       &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}},
				}},
				Ports: []networkingv1.NetworkPolicyPort{{Port: new(intstr.FromInt32(int32(port)))}},
			}},
		},
	}
}

// extra is a pod that a scenario adds.
func extra(number int, namespace string, labels map[string]string) desired.Pod {
	number += 500_000 // beyond those of every world
	return desired.Pod{
		Namespace: namespace, Name: fmt.Sprintf("extra-%d", number), UID: types.UID(fmt.Sprintf("extra-%d", number)),
		Addr: addrOf(number), Labels: labels,
	}
}

func one(change func(tx *dataplane.Transaction)) []*dataplane.Transaction {
	tx := dataplane.NewTransaction()
	change(tx)
	return []*dataplane.Transaction{tx}
}

// manyPolicies returns a cluster with policies that wait for a pod to select.
func manyPolicies(pods, policies int) *world {
	w := homeWorld(pods, policies)
	for i := range 100 {
		w.policies = append(w.policies, fromApp(fmt.Sprintf("many-%d", i), map[string]string{"role": "chosen"}, appOf(i%nearLoads), i+1))
	}
	return w
}

// podComes starts the pod that they select, with an endpoint of its own.
func podComes(n *node) []*dataplane.Transaction {
	p := extra(0, home, map[string]string{"role": "chosen"})
	p.Local = true
	n.plug(p.Addr)
	return one(func(tx *dataplane.Transaction) { tx.SetPod(p) })
}

// homePolicy returns a cluster with one policy of every local pod.
func homePolicy(pods, policies int) *world {
	w := homeWorld(pods, policies)
	w.policies = append(w.policies, fromApp("edited", nil, appOf(0), 1))
	return w
}

// editPolicy gives the policy another port.
func editPolicy(*node) []*dataplane.Transaction {
	return one(func(tx *dataplane.Transaction) { tx.SetPolicy(fromApp("edited", nil, appOf(0), 2)) })
}

// bigSet returns a cluster with a set of many pods of other nodes.
func bigSet(pods, policies int) *world {
	w := homeWorld(pods, policies)
	w.policies = append(w.policies, fromApp("big", nil, "big", 1))
	for i := range 1_000 {
		w.pods = append(w.pods, extra(i, "elsewhere", map[string]string{"app": "big"}))
	}
	return w
}

// relabelOne takes one pod out of the set.
func relabelOne(*node) []*dataplane.Transaction {
	return one(func(tx *dataplane.Transaction) {
		tx.SetPod(extra(0, "elsewhere", map[string]string{"app": "other"}))
	})
}

// BenchmarkStart applies the first transaction of a process on a node where everything is
// as it should be.
func BenchmarkStart(b *testing.B) {
	benchmark(b, func(n *node, _ int) []*dataplane.Transaction {
		n.restart()
		return []*dataplane.Transaction{n.world.transaction()}
	})
}

// BenchmarkChurn applies a second of pod events.
func BenchmarkChurn(b *testing.B) { benchmark(b, churn) }

func benchmark(b *testing.B, event func(n *node, turn int) []*dataplane.Transaction) {
	for _, size := range [][2]int{{1_000, 500}, {100_000, 5_000}} {
		b.Run(fmt.Sprintf("pods=%d/policies=%d", size[0], size[1]), func(b *testing.B) {
			n, turn := programmed(b, newWorld(size[0], size[1])), 0
			b.ReportAllocs()
			for b.Loop() {
				b.StopTimer()
				txs := event(n, turn)
				turn++
				b.StartTimer()
				n.cost(txs...)
			}
		})
	}
}
