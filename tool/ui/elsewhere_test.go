package ui

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/network-policy-api/apis/v1alpha2"

	"github.com/winnpm/winnpm/pkg/state"
)

// TestPodsElsewhereAreCounted: the pods of other nodes that a policy selects are counted as far as a bound of
// comparisons goes, over all namespaces together, and whoever asks sees that there may be more.
func TestPodsElsewhereAreCounted(t *testing.T) {
	var d state.Dump
	for i := range 30 {
		d.Pods = append(d.Pods, state.Pod{Pod: fmt.Sprintf("ns%d/p%d", i%3, i), Addr: fmt.Sprintf("10.0.0.%d", i), Labels: map[string]string{"app": "a"}})
	}
	n := newNames(d)
	app := metav1.LabelSelector{MatchLabels: map[string]string{"app": "a"}}
	namespaced := anyPolicy{name: "ns0/p", namespaced: &state.Policy{Spec: &networkingv1.NetworkPolicySpec{PodSelector: app}}}
	cluster := anyPolicy{name: "c", cluster: &state.ClusterPolicy{Spec: &v1alpha2.ClusterNetworkPolicySpec{Subject: v1alpha2.ClusterNetworkPolicySubject{Namespaces: &metav1.LabelSelector{}}}}}
	for _, c := range []struct {
		p     anyPolicy
		most  int
		count int
		whole bool
	}{
		{namespaced, 10, 10, true}, {namespaced, 9, 9, false}, {namespaced, 0, 0, false},
		{cluster, 33, 30, true}, {cluster, 32, 29, false}, {cluster, 1, 0, false}, // three namespaces are compared too
	} {
		count, whole := n.selectedElsewhere(c.p, c.most)
		require.Equal(t, []any{c.count, c.whole}, []any{count, whole}, "%s with %d comparisons", c.p.name, c.most)
	}
	count, whole := n.selectedElsewhere(anyPolicy{name: "ns0/without-text", namespaced: &state.Policy{}}, 0)
	require.Equal(t, []any{0, true}, []any{count, whole})

	d = state.Dump{}
	for i := range 45 { // ns1 has one, ns2 two
		namespace := 1
		for before := 0; before+namespace <= i; namespace++ {
			before += namespace
		}
		d.Pods = append(d.Pods, state.Pod{Pod: fmt.Sprintf("ns%d/p%d", namespace, i), Addr: fmt.Sprintf("10.0.0.%d", i), Labels: map[string]string{"app": "a"}})
	}
	n = newNames(d)
	for range 20 {
		count, whole = n.selectedElsewhere(cluster, 20)
		require.Equal(t, []any{15, false}, []any{count, whole}, "the pods of ns1 to ns5, whenever somebody asks")
	}
}
