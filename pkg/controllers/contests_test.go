package controllers

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/winnpm/winnpm/pkg/desired"
	"github.com/winnpm/winnpm/pkg/state"
)

// podOn returns a pod of a node with an address.
func podOn(node, name, ip string) *corev1.Pod {
	p := newPod(name, ip)
	p.Spec.NodeName = node
	return p
}

// nodeOf returns a node that is ready, with podCIDRs.
func nodeOf(name string, cidrs ...string) *corev1.Node {
	n := newNode(name)
	n.Spec.PodCIDRs = cidrs
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(start)}}
	return n
}

// notReady makes a node not ready since now.
func notReady(n *corev1.Node) *corev1.Node {
	n = n.DeepCopy()
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionUnknown, LastTransitionTime: metav1.NewTime(time.Now())}}
	return n
}

// trusts returns the last Trust of each pod by name. It leaves out deleted pods.
func trusts(r *recorder) map[string]int8 {
	out := map[string]int8{}
	for _, a := range r.calls() {
		for key, p := range a.pods {
			if delete(out, key.Name); p != nil {
				out[key.Name] = p.Trust
			}
		}
	}
	return out
}

// TestNodesJudgeContests: the agent watches the nodes while pods of other nodes contest an address,
// and from then on. The nodes decide about these pods and no other pods.
func TestNodesJudgeContests(t *testing.T) {
	cl := newCluster(podOn("n2", "old", "10.0.2.5"), podOn("n3", "new", "10.0.2.5"), podOn("n9", "alone", "10.0.2.6"), podOn("n1", "here", "10.0.1.1"))
	n2 := nodeOf("n2", "10.0.3.0/24")
	nodes := serve(cl.nodes.newEmpty(), n2, nodeOf("n3"), nodeOf("n1"))
	var rivals atomic.Pointer[[][2]string]
	rivals.Store(&[][2]string{})
	r := &recorder{answer: func(n int) (state.Report, error) {
		return state.Report{Generation: uint64(n), Rivals: *rivals.Load()}, nil
	}}
	source := cl.source()
	source.AllNodes = nodes
	settle := func() { pass(10 * time.Second) }
	run(t, Config{Source: source, Applier: r, Node: "n1"}, func(t *testing.T, c *Controller) {
		settle()
		require.Zero(t, nodes.listed(), "nothing is contested")
		require.Equal(t, map[string]int8{"old": 0, "new": 0, "alone": 0, "here": 0}, trusts(r))

		rivals.Store(&[][2]string{{"x", "new"}, {"x", "old"}, {"x", "here"}})
		cl.pods.set(podOn("n3", "new", "10.0.2.5"))
		cl.namespaces.set(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "y"}})
		settle()
		require.Equal(t, 1, nodes.listed())
		judged := func(old, fresh int8) {
			t.Helper()
			require.Equal(t, map[string]int8{"old": old, "new": fresh, "alone": 0, "here": 0}, trusts(r), "a pod without a rival keeps its claim, although its node is gone")
		}
		judged(desired.Outside, 0)

		nodes.set(nodeOf("n3", "fd00::/64", "10.0.2.0/24"))
		settle()
		judged(desired.Outside, desired.Inside)

		n2 = nodeOf("n2", "10.0.2.0/24")
		nodes.set(n2)
		settle()
		judged(desired.Inside, desired.Inside)
		nodes.set(notReady(n2))
		time.Sleep(lostAfter - time.Second)
		judged(desired.Inside, desired.Inside)
		time.Sleep(judgeEvery)
		settle()
		judged(desired.Lost, desired.Inside)
		nodes.set(n2)
		settle()
		judged(desired.Inside, desired.Inside)
		nodes.remove(n2)
		settle()
		judged(desired.Lost, desired.Inside)

		rivals.Store(&[][2]string{}) // first, as the transaction that follows the removal reads it
		cl.pods.remove(podOn("n3", "new", "10.0.2.5"))
		settle()
		require.Equal(t, map[string]int8{"old": 0, "alone": 0, "here": 0}, trusts(r), "it has no rival any more")
		time.Sleep(time.Hour)
		require.Equal(t, 1, nodes.listed(), "the nodes stay watched")
	})
}

// TestContestsWithoutNodes: while the agent cannot read the nodes, no claim gives way. The agent is ready
// all the same.
func TestContestsWithoutNodes(t *testing.T) {
	cl := newCluster(podOn("n2", "old", "10.0.2.5"), podOn("n3", "new", "10.0.2.5"))
	nodes := serve(cl.nodes.newEmpty(), nodeOf("n3", "10.0.2.0/24"))
	nodes.setDown(errDown)
	r := &recorder{answer: func(n int) (state.Report, error) {
		return state.Report{Generation: uint64(n), Rivals: [][2]string{{"x", "new"}, {"x", "old"}}}, nil
	}}
	source := cl.source()
	source.AllNodes = nodes
	run(t, Config{Source: source, Applier: r, Node: "n1"}, func(t *testing.T, c *Controller) {
		time.Sleep(10 * time.Minute)
		require.Equal(t, map[string]int8{"old": 0, "new": 0}, trusts(r))
		require.NoError(t, c.Ready())
		nodes.setDown(nil)
		time.Sleep(time.Minute)
		require.Equal(t, map[string]int8{"old": desired.Lost, "new": desired.Inside}, trusts(r))
	})
}

// TestClusterNodeAddresses: a node has each of its IPv4 addresses once. With more than maxNodeAddrs
// it is over its budget, so that no Accept matches it. It still has all of its addresses, so that
// a Deny matches each of them.
func TestClusterNodeAddresses(t *testing.T) {
	for more, over := range []string{"", "more than 64 addresses"} {
		var texts, want []string
		for i := range maxNodeAddrs + more {
			text := fmt.Sprintf("10.9.0.%d", i)
			texts, want = append(texts, text, "fd00::1", text, "name"), append(want, text)
		}
		node := newNode("n1", texts...)
		node.Labels = map[string]string{"role": "db"}
		is := ClusterNode(node)
		require.Equal(t, over, is.OverBudget)
		require.Equal(t, over == "", len(is.Labels) == 1)
		require.Equal(t, fmt.Sprint(want), fmt.Sprint(is.Addrs))
	}
}
