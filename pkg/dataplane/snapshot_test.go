package dataplane_test

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/stretchr/testify/require"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/winnpm/winnpm/pkg/dataplane"
	"github.com/winnpm/winnpm/pkg/desired"
	"github.com/winnpm/winnpm/pkg/policy"
	"github.com/winnpm/winnpm/pkg/state"
	"github.com/winnpm/winnpm/test/effort"
	"github.com/winnpm/winnpm/test/hnsfault"
)

// crowd returns a transaction of so many pods in twenty namespaces, a few of them
// local, and so many policies.
func crowd(pods, policies int) *dataplane.Transaction {
	tx := dataplane.NewTransaction()
	for i := range 20 {
		tx.SetNamespace(desired.Namespace{Name: fmt.Sprint("ns-", i), Labels: map[string]string{"team": fmt.Sprint(i % 5)}})
	}
	for i := range pods {
		tx.SetPod(crowdPod(i, 0))
	}
	for i := range policies {
		tx.SetPolicy(crowdPolicy(i))
	}
	return tx
}

func crowdPod(i, version int) desired.Pod {
	return desired.Pod{
		Namespace: fmt.Sprint("ns-", i%20), Name: fmt.Sprint("pod-", i), UID: types.UID(fmt.Sprint("uid-", i)), Local: i%20 == 0 && i < 2000,
		Addr:   netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)}),
		Labels: map[string]string{"app": fmt.Sprint("app-", i%500), "tier": fmt.Sprint(i % 3), "version": fmt.Sprint(version)},
	}
}

func crowdPolicy(i int) *networkingv1.NetworkPolicy {
	peer := func(key, value string) networkingv1.NetworkPolicyPeer {
		return networkingv1.NetworkPolicyPeer{PodSelector: &metav1.LabelSelector{MatchLabels: map[string]string{key: value}}}
	}
	return &networkingv1.NetworkPolicy{
		ObjectMeta: metav1.ObjectMeta{Namespace: fmt.Sprint("ns-", i%20), Name: fmt.Sprint("policy-", i)},
		Spec: networkingv1.NetworkPolicySpec{
			PodSelector: metav1.LabelSelector{MatchLabels: map[string]string{"app": fmt.Sprint("app-", i%500)}},
			Ingress: []networkingv1.NetworkPolicyIngressRule{{From: []networkingv1.NetworkPolicyPeer{
				peer("app", fmt.Sprint("app-", (i+1)%500)), peer("tier", fmt.Sprint(i%3)),
			}}},
		},
	}
}

func newCrowd(t testing.TB, pods, policies int) *dataplane.Dataplane {
	dp := dataplane.New(dataplane.Config{Client: hnsfault.New(hnsfault.Options{}), Now: time.Now, DryRun: true})
	_, err := dp.ApplyDataplane(t.Context(), crowd(pods, policies))
	require.NoError(t, err)
	return dp
}

// TestSnapshotIsOfItsMoment: the dump of a snapshot knows nothing of what came after it.
func TestSnapshotIsOfItsMoment(t *testing.T) {
	dp := newCrowd(t, 100, 20)
	want, s := dp.Dump(), dp.Snapshot()
	tx := dataplane.NewTransaction()
	tx.DeletePod(crowdPod(7, 0).Key())
	tx.SetPod(crowdPod(0, 1))
	tx.SetPod(crowdPod(100, 0))
	tx.DeletePolicy(policy.Key{Namespace: "ns-0", Name: "policy-0"})
	tx.SetNamespace(desired.Namespace{Name: "ns-1"})
	_, err := dp.ApplyDataplane(t.Context(), tx)
	require.NoError(t, err)
	require.Empty(t, cmp.Diff(want, s.Dump(), cmpopts.IgnoreFields(state.Dump{}, "Time", "LookAge")))
}

// While a flood of events comes in, the dump of a snapshot is of the moment before.
func TestSnapshotInAFlood(t *testing.T) {
	pods, policies := effort.Of(300, 3000), effort.Of(30, 300)
	dp := newCrowd(t, pods, policies)
	want, s := dp.Dump(), dp.Snapshot()
	flooded := make(chan error)
	go func() {
		for n := range 40 {
			tx := dataplane.NewTransaction()
			for i := range 50 { // each of them in large sets
				tx.SetPod(crowdPod((50*n+i)%pods, 1+n))
			}
			for i := range 5 {
				tx.DeletePod(crowdPod(pods-1-5*n-i, 0).Key())
				tx.SetPod(crowdPod(pods+5*n+i, 0))
			}
			tx.DeletePolicy(policy.Key{Namespace: fmt.Sprint("ns-", n%20), Name: fmt.Sprint("policy-", n)})
			tx.SetPolicy(crowdPolicy(policies + n))
			if _, err := dp.ApplyDataplane(context.Background(), tx); err != nil {
				flooded <- err
				return
			}
		}
		flooded <- nil
	}()
	for range 3 { // beside the flood, for the race detector
		require.Empty(t, cmp.Diff(want, s.Dump(), cmpopts.IgnoreFields(state.Dump{}, "Time", "LookAge")))
	}
	require.NoError(t, <-flooded)
	require.Empty(t, cmp.Diff(want, s.Dump(), cmpopts.IgnoreFields(state.Dump{}, "Time", "LookAge")))
	require.NotEmpty(t, cmp.Diff(want.Pods, dp.Dump().Pods))
}

// BenchmarkDump is what a dump costs, and for how long a snapshot holds the lock: in the
// median and at most.
func BenchmarkDump(b *testing.B) {
	for _, n := range []struct{ pods, policies int }{{1000, 50}, {20_000, 500}, {100_000, 5000}} {
		b.Run(fmt.Sprintf("pods=%d/policies=%d", n.pods, n.policies), func(b *testing.B) {
			dp := newCrowd(b, n.pods, n.policies)
			var held []time.Duration
			b.ReportAllocs()
			for b.Loop() {
				at := time.Now()
				s := dp.Snapshot()
				held = append(held, time.Since(at))
				_ = s.Dump()
			}
			slices.Sort(held)
			b.ReportMetric(float64(held[len(held)/2].Nanoseconds()), "held-ns")
			b.ReportMetric(float64(held[len(held)-1].Nanoseconds()), "longest-ns")
		})
	}
}
