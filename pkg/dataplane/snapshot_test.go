package dataplane_test

import (
	"fmt"
	"maps"
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
	"pgregory.net/rapid"

	"github.com/winnpm/winnpm/pkg/dataplane"
	"github.com/winnpm/winnpm/pkg/hns/hnssim"
	"github.com/winnpm/winnpm/pkg/policy"
	"github.com/winnpm/winnpm/pkg/state"
)

// dumpBeside takes a dump while other actions happen between its pieces. It is of
// the moment at which it was asked for.
func (w *walker) dumpBeside(actions map[string]func(*rapid.T)) func(*rapid.T) {
	var names []string
	for _, name := range slices.Sorted(maps.Keys(actions)) {
		if name != "" && name != "process" {
			names = append(names, name)
		}
	}
	return func(t *rapid.T) {
		w.note("dump")
		want, dp := w.dp.Dump(), w.dp
		pauses, every := 0, rapid.IntRange(1, 12).Draw(t, "pieces between")
		got := dp.DumpInPieces(rapid.IntRange(1, 12).Draw(t, "size"), func() {
			if pauses++; pauses%every != 0 || pauses > 6*every {
				return
			}
			if do := actions[rapid.SampledFrom(names).Draw(t, "beside")]; do != nil {
				do(t)
			}
		})
		w.note("dump ends")
		if diff := cmp.Diff(want, got); diff != "" {
			w.fail("the dump is not of when it was asked for (-want +got):\n%s", diff)
		}
	}
}

// crowd returns a transaction of so many pods in twenty namespaces, a few of them
// local, and so many policies.
func crowd(pods, policies int) *dataplane.Transaction {
	tx := dataplane.NewTransaction()
	for i := range 20 {
		tx.SetNamespace(dataplane.Namespace{Name: fmt.Sprint("ns-", i), Labels: map[string]string{"team": fmt.Sprint(i % 5)}})
	}
	for i := range pods {
		tx.SetPod(crowdPod(i, 0))
	}
	for i := range policies {
		tx.SetPolicy(crowdPolicy(i))
	}
	return tx
}

func crowdPod(i, version int) dataplane.Pod {
	return dataplane.Pod{
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
	dp := dataplane.New(dataplane.Config{Client: hnssim.New(hnssim.Options{}), Now: time.Now, DryRun: true})
	_, err := dp.ApplyDataplane(t.Context(), crowd(pods, policies))
	require.NoError(t, err)
	return dp
}

// While a flood of events comes in, nobody waits for more than a piece, and the
// dump comes to an end: it is of the moment before.
func TestDumpIsBoundedInAFlood(t *testing.T) {
	const size, pods, policies = 100, 3000, 300
	dp := newCrowd(t, pods, policies)
	want := dp.Dump()
	objects := len(want.Pods) + len(want.Policies) + len(want.Namespaces)
	for _, s := range want.Sets {
		objects += 2 + len(s.Members) + len(s.Holders)
	}
	pauses := 0
	got := dp.DumpInPieces(size, func() {
		tx := dataplane.NewTransaction()
		for i := range 50 { // each of them in large sets
			tx.SetPod(crowdPod((50*pauses+i)%pods, 1+pauses))
		}
		for i := range 5 {
			tx.DeletePod(crowdPod(pods-1-5*pauses-i, 0).Key())
			tx.SetPod(crowdPod(pods+5*pauses+i, 0))
		}
		tx.DeletePolicy(policy.Key{Namespace: fmt.Sprint("ns-", pauses%20), Name: fmt.Sprint("policy-", pauses)})
		tx.SetPolicy(crowdPolicy(policies + pauses))
		_, err := dp.ApplyDataplane(t.Context(), tx)
		require.NoError(t, err)
		pauses++
	})
	require.Empty(t, cmp.Diff(want, got, cmpopts.IgnoreFields(state.Dump{}, "Time", "LookAge")))
	t.Logf("%d objects in %d pieces", objects, pauses)
	require.GreaterOrEqual(t, pauses, objects/size)
	require.LessOrEqual(t, pauses, objects/size+20, "no piece comes again")

	pauses = 0
	dp.StatsInPieces(size, func() { pauses++ })
	require.GreaterOrEqual(t, pauses, len(dp.Dump().Sets)/size)
}

// What is copied at once is the node's own.
func TestSnapshotCostsTheNode(t *testing.T) {
	allocs := func(pods int) float64 {
		dp := newCrowd(t, pods, 10)
		tx := dataplane.NewTransaction()
		for i := range pods {
			if p := crowdPod(i, 0); p.Local && i > 0 {
				tx.DeletePod(p.Key())
			}
		}
		_, err := dp.ApplyDataplane(t.Context(), tx)
		require.NoError(t, err)
		return testing.AllocsPerRun(20, func() { dp.Snapshot() })
	}
	require.InDelta(t, allocs(10), allocs(3000), 2)
}

// BenchmarkDump is what a dump costs, and for how long it holds the lock: when it
// begins, and for the longest piece.
func BenchmarkDump(b *testing.B) {
	for _, n := range []struct{ pods, policies int }{{1000, 50}, {20_000, 500}, {100_000, 5000}} {
		b.Run(fmt.Sprintf("pods=%d/policies=%d", n.pods, n.policies), func(b *testing.B) {
			dp := newCrowd(b, n.pods, n.policies)
			var begin, longest time.Duration
			b.ReportAllocs()
			for b.Loop() {
				first, piece := dp.Holds()
				begin, longest = max(begin, first), max(longest, piece)
			}
			b.ReportMetric(float64(begin.Nanoseconds()), "begin-ns")
			b.ReportMetric(float64(longest.Nanoseconds()), "longest-ns")
		})
	}
}
