package dataplane_test

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"sync"
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
	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/pkg/policy"
	"github.com/winnpm/winnpm/pkg/state"
	"github.com/winnpm/winnpm/test/effort"
	"github.com/winnpm/winnpm/test/hnsfault"
	"github.com/winnpm/winnpm/test/looks"
)

const dumpPolicy = `{podSelector: {matchLabels: {app: web}}, ingress: [{from: [{podSelector: {matchLabels: {app: api}}}]}]}`

// stall makes the next call of a kind wait in HNS: began is closed when it does,
// release lets it go on.
func (w *world) stall(op string, side hnsfault.When) (began <-chan struct{}, release func()) {
	reached, goOn := make(chan struct{}), make(chan struct{})
	var once sync.Once
	w.sim.OnCall(func(c hnsfault.Call, when hnsfault.When) {
		if c.Op == op && when == side {
			once.Do(func() {
				close(reached)
				<-goOn
			})
		}
	})
	return reached, func() { close(goOn) }
}

// answers fails the test when one of the questions has no answer. A minute is no
// pause: it only ends a test that would never end.
func answers(t *testing.T, questions ...func()) {
	t.Helper()
	var wg sync.WaitGroup
	for _, ask := range questions {
		wg.Go(ask)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		wg.Wait()
	}()
	select {
	case <-done:
	case <-time.After(time.Minute):
		t.Fatal("no answer while HNS hangs")
	}
}

// TestDumpNeverWaitsForHNS: whichever call hangs, dumps and warnings answer, and
// what they show is the staged state.
func TestDumpNeverWaitsForHNS(t *testing.T) {
	for _, op := range []string{
		"Network/Get", "Endpoint/Enumerate", "SetPolicy/Add", "ACL/Add", // the policy comes
		"SetPolicy/Update",                               // a pod moves
		"Endpoint/Get", "ACL/Update", "SetPolicy/Remove", // the policy goes
	} {
		t.Run(op, func(t *testing.T) {
			w := newWorld(t)
			w.do("namespace x", "endpoint ep 10.0.0.1", "pod x/web 10.0.0.1 app=web", "pod x/api 10.0.1.1 app=api remote", "policy x/p "+dumpPolicy)
			policies := 1
			switch op {
			case "SetPolicy/Update":
				w.do("apply", "pod x/api 10.0.1.2 app=api remote")
			case "Endpoint/Get", "ACL/Update", "SetPolicy/Remove":
				w.do("apply", "delete policy x/p")
				policies = 0
			}
			began, release := w.stall(op, hnsfault.Before)
			applied := make(chan error)
			go func() { applied <- w.apply() }()
			<-began
			ask := func() {
				d := w.dp.Dump()
				if len(d.Policies) != policies || len(d.Pods) != 2 {
					t.Errorf("the dump does not show the staged state: %+v", d)
				}
				w.dp.Warnings()
			}
			answers(t, ask, ask, ask)
			release()
			require.NoError(t, <-applied)
			require.True(t, w.report.Converged())
			require.Empty(t, w.dp.Warnings())
		})
	}
}

// TestLookThatHangs: while the reconciler's reading hangs, dumps answer. The event that comes
// meanwhile is applied after it.
func TestLookThatHangs(t *testing.T) {
	w := newWorld(t)
	w.do("namespace x", "endpoint ep 10.0.0.1", "pod x/web 10.0.0.1 app=web", "apply")
	began, release := w.stall("Endpoint/Enumerate", hnsfault.After)
	var both sync.WaitGroup
	both.Go(func() {
		if due, err := w.dp.Observe(t.Context(), looks.All(w.dp)); due || err != nil {
			t.Error(due, err)
		}
	})
	<-began
	answers(t, func() { w.dp.Dump() }, func() { w.dp.Warnings() })
	both.Go(func() { w.do("policy x/p "+dumpPolicy, "apply", "calls SetPolicy/Add=1 ACL/Add=1") })
	release()
	both.Wait()
	require.True(t, w.report.Converged())
}

// TestCanceled: a transaction whose caller does not wait is staged all the same
// and programmed by a later one.
func TestCanceled(t *testing.T) {
	w := newWorld(t)
	w.do("namespace x", "endpoint ep 10.0.0.1", "pod x/web 10.0.0.1 app=web", "policy x/p "+dumpPolicy)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	report, err := w.dp.ApplyDataplane(ctx, w.tx)
	require.ErrorIs(t, err, context.Canceled)
	require.False(t, report.Converged())
	require.Positive(t, report.RetryAfter)
	require.Len(t, w.dp.Dump().Policies, 1)
	_, err = w.dp.Observe(ctx, looks.All(w.dp))
	require.ErrorIs(t, err, hns.ErrUnavailable)

	w.tx = dataplane.NewTransaction()
	w.settle()
	w.do("trace 10.0.1.9 -> 10.0.0.1 TCP/80 ep in block")

	// In the middle of the pod updates: the rest is left for later.
	w.do("endpoint ep-2 10.0.0.2", "pod x/w2 10.0.0.2 app=web", "endpoint ep-3 10.0.0.3", "pod x/w3 10.0.0.3 app=web")
	ctx, cancel = context.WithCancel(t.Context())
	w.sim.OnCall(func(c hnsfault.Call, when hnsfault.When) {
		if c.Op == "ACL/Add" && when == hnsfault.After {
			cancel()
		}
	})
	report, err = w.dp.ApplyDataplane(ctx, w.tx)
	require.ErrorIs(t, err, context.Canceled)
	require.Equal(t, 1, report.Calls["ACL/Add"])
	require.Equal(t, 2, report.Pending, "one was not begun, one was written and not read after that")
	w.sim.OnCall(nil)
	w.tx = dataplane.NewTransaction()
	w.settle()
	for _, n := range []string{"2", "3"} {
		w.do("trace 10.0.1.9 -> 10.0.0." + n + " TCP/80 ep-" + n + " in block")
	}
}

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
			tx.SetNamespace(desired.Namespace{Name: fmt.Sprint("ns-", n%20)})
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
