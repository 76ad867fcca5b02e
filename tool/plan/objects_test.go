package plan_test

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/winnpm/winnpm/pkg/desired"
	"github.com/winnpm/winnpm/pkg/state"
	"github.com/winnpm/winnpm/tool/cluster"
	"github.com/winnpm/winnpm/tool/explain"
	"github.com/winnpm/winnpm/tool/plan"
)

// node is a node of a name and some addresses.
func node(name string, addrs ...netip.Addr) cluster.Node {
	return cluster.Node{NodeDump: state.NodeDump{Name: name, Addrs: addrs}}
}

// pod is one at 10.0.0.N.
func pod(name, app string, n byte) cluster.Pod {
	return cluster.Pod{Node: "n1", Pod: desired.Pod{Namespace: "x", Name: name, Labels: map[string]string{"app": app}, Addr: netip.AddrFrom4([4]byte{10, 0, 0, n})}}
}

// fromTo isolates the pods of one label and lets in those of another.
func fromTo(name, from, to string) *networkingv1.NetworkPolicy {
	np := deny("x")
	np.Name, np.Spec.PodSelector = name, metav1.LabelSelector{MatchLabels: map[string]string{"app": to}}
	np.Spec.Ingress = []networkingv1.NetworkPolicyIngressRule{{From: []networkingv1.NetworkPolicyPeer{{PodSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": from}}}}}}
	return np
}

// small is a cluster of three pods, one of which lets the web in.
func small() cluster.World {
	return cluster.World{
		Nodes: []cluster.Node{node("n1")}, Namespaces: []desired.Namespace{{Name: "x"}},
		Pods: []cluster.Pod{pod("web-0", "web", 1), pod("spy", "spy", 2), pod("db", "db", 3)}, Policies: []*networkingv1.NetworkPolicy{fromTo("db", "web", "db")},
	}
}

// planned is the plan of other pods.
func planned(t *testing.T, w cluster.World, pods ...cluster.Pod) plan.Plan {
	t.Helper()
	after := w
	after.Pods = pods
	got, err := plan.New(t.Context(), w, cluster.Change{After: after, Objects: []cluster.ObjectChange{{Kind: "Namespace", Object: "x", Change: "unchanged"}}})
	require.NoError(t, err)
	return got
}

// TestNewPodsAreCountedApart: one web more flips nothing, though the database lets it in; that
// it does is said, and so is what stays closed to a pod that nobody lets in.
func TestNewPodsAreCountedApart(t *testing.T) {
	w := small()
	got := planned(t, w, append(w.Pods, pod("web-1", "web", 4))...)
	require.Equal(t, plan.Tally{}, got.Tally)
	// To and from three pods but for what the database would open, none of which it may not;
	// and outside, both ways.
	require.Equal(t, plan.Others{Pods: 1, Allowed: 8, WithOutside: 2, ByPolicy: 1}, got.NewPods)
	require.True(t, got.Any())
	require.Equal(t, []int{3, 6}, []int{got.Pods, got.Connections})
	require.Equal(t, []string{"n1"}, []string{got.Nodes[0].Node})

	got = planned(t, w, append(w.Pods, pod("spy-1", "spy", 4))...)
	require.Equal(t, plan.Others{Pods: 1, Allowed: 7, WithOutside: 2}, got.NewPods, "not to the database")
	require.Contains(t, got.Headline(), "NO FLIPS among 6 connections between 3 pods, nor with addresses outside.")

	got = planned(t, w, w.Pods[1:]...)
	require.Equal(t, plan.Others{Pods: 1, Allowed: 6, WithOutside: 2}, got.DeletedPods)
	require.Equal(t, plan.Tally{}, got.Tally)
	require.True(t, got.Any())
	for _, f := range got.DeletedConnections {
		require.Equal(t, []explain.Verdict{explain.Allowed, plan.Absent}, []explain.Verdict{f.Before, f.After})
	}
}

// A pod that stays under another label opens and blocks, as policies do.
func TestLabelsFlip(t *testing.T) {
	w := small()
	got := planned(t, w, w.Pods[0], pod("spy", "web", 2), w.Pods[2])
	require.Equal(t, plan.Tally{Flipped: 1, Opened: 1}, got.Tally)
	require.Equal(t, []string{"x/db"}, got.Flips[0].By)
	got = planned(t, w, pod("web-0", "wbe", 1), w.Pods[1], w.Pods[2])
	require.Equal(t, plan.Tally{Flipped: 1, Blocked: 1}, got.Tally)
	require.Zero(t, got.NewPods.Pods+got.DeletedPods.Pods)
}

// TestPoliciesThatSelectNoLonger: a policy that no file of the change names is named when the
// change takes its last pod.
func TestPoliciesThatSelectNoLonger(t *testing.T) {
	w := small()
	got := planned(t, w, w.Pods[0], w.Pods[1], pod("db", "bd", 3))
	require.Equal(t, []plan.PolicyChange{{Policy: "x/db", Change: "unchanged", SelectsNothing: true, NoLonger: true}}, got.Policies)
	require.Equal(t, plan.Tally{Flipped: 2, Opened: 2}, got.Tally, "of the spy, and of addresses outside")
	var b strings.Builder
	require.NoError(t, got.WriteText(&b, false))
	require.Contains(t, b.String(), "x/db: unchanged, selects no pod any more\nNamespace x: unchanged, 0 pods\nOPENED 2, 1 of them with addresses outside; none blocked.")
	for i := range 20 {
		got.Objects = append(got.Objects, cluster.ObjectChange{Kind: "Deployment", Object: fmt.Sprint("x/other-", i), Change: "unchanged"})
	}
	b.Reset()
	require.NoError(t, got.WriteText(&b, false))
	require.Contains(t, b.String(), "x/db: unchanged, selects no pod any more\n21 objects are unchanged; --all names them\n", "that is folded with nothing")
}

// The API server refuses what has no namespace there, whatever its kind.
func TestObjectsWithoutANamespace(t *testing.T) {
	w := small()
	after := w
	got, err := plan.New(t.Context(), w, cluster.Change{After: after, Objects: []cluster.ObjectChange{
		{Kind: "Deployment", Object: "xx/web", Change: "new"}, {Kind: "Pod", Object: "x/web-0", Change: "unchanged"}, {Kind: "Node", Object: "n2", Change: "new"}, {Kind: "Pod", Object: "gone/p", Change: "deleted"},
	}})
	require.NoError(t, err)
	require.Equal(t, []state.Warning{{Object: "xx/web", Kind: "Deployment", Reason: "NoNamespace", Message: "the cluster has no namespace xx, so it cannot be applied there"}}, got.Warnings)
}

// What stays as it is takes one line, unless nothing is to be folded.
func TestUnchangedObjectsAreFolded(t *testing.T) {
	got := plan.Plan{Policies: []plan.PolicyChange{{Policy: "x/p", Change: "changed"}}}
	for i := range 20 {
		got.Objects = append(got.Objects, cluster.ObjectChange{Kind: "Pod", Object: fmt.Sprintf("x/p%d", i), Change: "unchanged", Pods: 1})
	}
	got.Objects = append(got.Objects, cluster.ObjectChange{Kind: "Deployment", Object: "x/d", Change: "changed", Pods: 4, New: 2, Deleted: 1})
	for d, want := range map[bool]string{
		false: "x/p: changed\nDeployment x/d: changed, 4 pods, 2 of them new, 1 of them deleted\n20 objects are unchanged; --all names them\nNothing changes",
		true:  "Pod x/p18: unchanged, 1 pod\nPod x/p19: unchanged, 1 pod\nDeployment x/d: changed, 4 pods, 2 of them new, 1 of them deleted\nNothing changes",
	} {
		var b strings.Builder
		require.NoError(t, got.WriteText(&b, d))
		require.Contains(t, b.String(), want)
	}
}
