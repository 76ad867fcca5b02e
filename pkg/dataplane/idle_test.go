package dataplane_test

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/network-policy-api/apis/v1alpha2"

	"github.com/winnpm/winnpm/pkg/dataplane"
	"github.com/winnpm/winnpm/pkg/desired"
	"github.com/winnpm/winnpm/pkg/policy"
	"github.com/winnpm/winnpm/pkg/state"
	"github.com/winnpm/winnpm/test/hnsfault"
	"github.com/winnpm/winnpm/tool/explain"
)

// idleOf returns the policies that select nothing, by kind and name.
func idleOf(dp *dataplane.Dataplane) []string {
	var out []string
	for _, namespace := range dp.PolicyNamespaces() {
		for _, key := range dp.SelectingNothing(namespace) {
			w := desired.SelectingNothing(key)
			out = append(out, w.Kind+" "+w.Object)
		}
	}
	slices.Sort(out)
	return out
}

// TestSelectingNothingIsBounded: of thousands of policies that select nothing the first are named,
// always the same ones, and where they cost too much none is; other namespaces are told of all the same.
func TestSelectingNothingIsBounded(t *testing.T) {
	dp := dataplane.New(dataplane.Config{Client: hnsfault.New(hnsfault.Options{}), Now: time.Now})
	idle := func(namespace string, i int) *networkingv1.NetworkPolicy {
		return &networkingv1.NetworkPolicy{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: fmt.Sprintf("p%04d", i)},
			Spec:       networkingv1.NetworkPolicySpec{PodSelector: metav1.LabelSelector{MatchLabels: map[string]string{"app": "none"}}},
		}
	}
	pods := func(tx *dataplane.Transaction, from, to int) {
		for i := from; i < to; i++ { // each is a group of its own
			tx.SetPod(desired.Pod{Namespace: "bad", Name: fmt.Sprint(i), UID: types.UID(fmt.Sprint(i)), Labels: map[string]string{"i": fmt.Sprint(i)}})
		}
	}
	tx := dataplane.NewTransaction()
	for i := range 5000 {
		tx.SetPolicy(idle("bad", i))
	}
	tx.SetPolicy(idle("good", 0))
	pods(tx, 0, 3)
	_, err := dp.ApplyDataplane(t.Context(), tx)
	require.NoError(t, err)
	first := dp.SelectingNothing("bad")
	require.Len(t, first, 64)
	require.Equal(t, policy.Key{Namespace: "bad", Name: "p0063"}, first[63])
	require.Equal(t, []policy.Key{{Namespace: "good", Name: "p0000"}}, dp.SelectingNothing("good"))

	tx = dataplane.NewTransaction()
	pods(tx, 3, 1000)
	_, err = dp.ApplyDataplane(t.Context(), tx)
	require.NoError(t, err)
	require.Empty(t, dp.SelectingNothing("bad"), "it would be millions of comparisons")
	require.Equal(t, []policy.Key{{Namespace: "good", Name: "p0000"}}, dp.SelectingNothing("good"))
	require.Less(t, len(explain.Idle(dp.Dump(), 100_000)), 200)
}

// TestSelectingNothingIsCertain: a pod whose labels are not known may be the one that is meant.
func TestSelectingNothingIsCertain(t *testing.T) {
	dp := dataplane.New(dataplane.Config{Client: hnsfault.New(hnsfault.Options{}), Now: time.Now})
	apply := func(over string) {
		tx := dataplane.NewTransaction()
		tx.SetPolicy(&networkingv1.NetworkPolicy{
			ObjectMeta: metav1.ObjectMeta{Namespace: "x", Name: "p"},
			Spec:       networkingv1.NetworkPolicySpec{PodSelector: metav1.LabelSelector{MatchLabels: map[string]string{"app": "none"}}},
		})
		tx.SetPod(desired.Pod{Namespace: "x", Name: "a", UID: "a", OverBudget: over})
		_, err := dp.ApplyDataplane(t.Context(), tx)
		require.NoError(t, err)
	}
	apply("too many labels")
	require.Empty(t, idleOf(dp))
	require.Empty(t, explain.Idle(dp.Dump(), math.MaxInt))
	apply("")
	require.Equal(t, []string{"NetworkPolicy x/p"}, idleOf(dp))
	require.Equal(t, state.ReasonSelectsNothing, explain.Idle(dp.Dump(), math.MaxInt)[0].Reason)
}

// TestSelectingNothingCountsLivePods: a policy that matches only finished pods and host-network pods
// selects nothing.
func TestSelectingNothingCountsLivePods(t *testing.T) {
	for name, test := range map[string]struct {
		pod  desired.Pod
		idle bool
	}{
		"runs elsewhere":        {desired.Pod{Addr: mustAddr("10.0.1.1")}, false},
		"has no address yet":    {desired.Pod{}, false},
		"has finished":          {desired.Pod{Addr: mustAddr("10.0.1.1"), Finished: true}, true},
		"has finished here":     {desired.Pod{Addr: mustAddr("10.0.1.1"), Local: true, Finished: true}, true},
		"in the node's network": {desired.Pod{Addr: mustAddr("10.1.0.4"), HostNetwork: true}, true},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, policyText("p", `{podSelector: {matchLabels: {app: a}}}`)+tierText("c", `{tier: Admin, priority: 1, subject: {pods: {namespaceSelector: {}, podSelector: {matchLabels: {app: a}}}}}`))
			w.do("namespace x", "policy p", "cluster c")
			test.pod.Namespace, test.pod.Name, test.pod.UID, test.pod.Labels = "x", "a", "a", map[string]string{"app": "a"}
			w.tx.SetPod(test.pod)
			w.do("apply")
			var want, told []string
			if test.idle {
				want = []string{"ClusterNetworkPolicy c", "NetworkPolicy x/p"}
			}
			require.Equal(t, want, idleOf(w.dp))
			for _, warning := range explain.Idle(w.dp.Dump(), math.MaxInt) {
				told = append(told, warning.Kind+" "+warning.Object)
			}
			require.ElementsMatch(t, want, told)
		})
	}
}

// TestMaySelectIn: a ClusterNetworkPolicy is about the namespaces that its subject selects, and
// may be about one that is not known.
func TestMaySelectIn(t *testing.T) {
	dp := dataplane.New(dataplane.Config{Client: hnsfault.New(hnsfault.Options{}), Now: time.Now})
	tx := dataplane.NewTransaction()
	tx.SetClusterPolicy(&v1alpha2.ClusterNetworkPolicy{ObjectMeta: metav1.ObjectMeta{Name: "c"}, Spec: v1alpha2.ClusterNetworkPolicySpec{
		Tier: v1alpha2.AdminTier, Subject: v1alpha2.ClusterNetworkPolicySubject{Namespaces: &metav1.LabelSelector{MatchLabels: map[string]string{"team": "a"}}},
	}})
	tx.SetNamespace(desired.Namespace{Name: "a", Labels: map[string]string{"team": "a"}})
	tx.SetNamespace(desired.Namespace{Name: "b", Labels: map[string]string{"team": "b"}})
	tx.SetNamespace(desired.Namespace{Name: "over", OverBudget: "too many labels"})
	_, err := dp.ApplyDataplane(t.Context(), tx)
	require.NoError(t, err)
	for _, c := range []struct {
		in   []string
		want bool
	}{{nil, false}, {[]string{"b"}, false}, {[]string{"b", "a"}, true}, {[]string{"unknown"}, true}, {[]string{"over"}, true}} {
		require.Equal(t, c.want, dp.MaySelectIn("c", c.in), c.in)
	}
	require.True(t, dp.MaySelectIn("gone", []string{"b"}))
}
