package controllers

import (
	"fmt"
	"maps"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/winnpm/winnpm/pkg/desired"
	"github.com/winnpm/winnpm/pkg/policy"
	"github.com/winnpm/winnpm/pkg/state"
)

func TestMain(m *testing.M) {
	// One of the handlers sleeps since the last error, which it takes from the
	// real clock when the process starts: years, in a synctest bubble.
	utilruntime.ErrorHandlers = nil
	goleak.VerifyTestMain(m)
}

func TestFirstTransactionHasEverything(t *testing.T) {
	r := &recorder{}
	run(t, Config{Source: newCluster(newPod("a", "10.0.0.1"), newPod("b", "10.0.0.2")).source(), Applier: r}, func(t *testing.T, c *Controller) {
		calls := r.calls()
		require.Len(t, calls, 1)
		require.Equal(t, 5, calls[0].len, "two pods, a namespace, a policy and the node's addresses")
		<-c.synced // it is closed
		require.NoError(t, c.Healthy())
		require.NoError(t, c.Ready())
	})
}

func TestEmptyClusterIsProgrammed(t *testing.T) {
	r := &recorder{}
	empty := &cluster{
		pods:       serve[*corev1.Pod](func() runtime.Object { return &corev1.PodList{} }),
		namespaces: serve[*corev1.Namespace](func() runtime.Object { return &corev1.NamespaceList{} }),
		policies:   serve[*networkingv1.NetworkPolicy](func() runtime.Object { return &networkingv1.NetworkPolicyList{} }),
		nodes:      serve[*corev1.Node](func() runtime.Object { return &corev1.NodeList{} }),
	}
	run(t, Config{Source: empty.source(), Applier: r}, func(t *testing.T, c *Controller) {
		require.Len(t, r.calls(), 1)
		require.NoError(t, c.Ready())
	})
}

func TestLoneEventIsAppliedAtOnce(t *testing.T) {
	r, cl := &recorder{}, newCluster()
	run(t, Config{Source: cl.source(), Applier: r}, func(t *testing.T, _ *Controller) {
		time.Sleep(10 * time.Second)
		cl.pods.set(newPod("a", "10.0.0.1"))
		synctest.Wait()
		calls := r.calls()
		require.Len(t, calls, 2)
		require.Equal(t, 10*time.Second, calls[1].at)
		require.Equal(t, 1, calls[1].len)
	})
}

// What comes soon after a transaction waits until HNS has rested from it.
func TestEventsSoonAfterAnotherWait(t *testing.T) {
	for busy, rest := range map[time.Duration]time.Duration{
		0:                      leastRest,
		4 * time.Millisecond:   leastRest,
		10 * time.Millisecond:  40 * time.Millisecond,
		100 * time.Millisecond: 400 * time.Millisecond,
		130 * time.Millisecond: 520 * time.Millisecond,
		time.Hour:              mostRest,
	} {
		r, cl := &recorder{answer: keepsBusy(busy)}, newCluster()
		run(t, Config{Source: cl.source(), Applier: r, Node: "n1"}, func(t *testing.T, _ *Controller) {
			time.Sleep(busy + time.Millisecond)
			cl.pods.set(newRemotePod("a", "10.0.0.1"))
			pass(rest - 2*time.Millisecond)
			require.Len(t, r.calls(), 1)
			pass(time.Millisecond)
			require.Len(t, r.calls(), 2)
			pass(busy + rest)
			cl.pods.set(newRemotePod("b", "10.0.0.2"))
			synctest.Wait()
			require.Len(t, r.calls(), 3, "at once")
		})
	}
}

// keepsBusy answers for an HNS that is busy for so long with each transaction.
func keepsBusy(busy time.Duration) func(n int) (state.Report, error) {
	return func(n int) (state.Report, error) {
		time.Sleep(busy)
		return state.Report{Generation: uint64(n), Busy: busy}, nil
	}
}

// Of 5,000 pod events in one second HNS is busy for a fifth of that at most.
func TestScenario_E7_BurstOfPodEvents(t *testing.T) {
	const busy = 30 * time.Millisecond
	r, cl := &recorder{answer: keepsBusy(busy)}, newCluster()
	run(t, Config{Source: cl.source(), Applier: r, Node: "n1"}, func(t *testing.T, _ *Controller) {
		time.Sleep(time.Minute)
		before := len(r.calls())
		const events = 5000
		for i := range events {
			cl.pods.set(newRemotePod(fmt.Sprintf("p%d", i), fmt.Sprintf("10.1.%d.%d", i/250, i%250)))
			time.Sleep(time.Second / events)
		}
		time.Sleep(time.Minute)
		calls := r.calls()[before:]
		require.Len(t, calls, 8, "at once, and then whenever HNS has rested")
		seen := 0
		for i, call := range calls {
			seen += call.len
			if i > 0 {
				require.Equal(t, (1+restFactor)*busy, call.at-calls[i-1].at)
			}
		}
		require.Equal(t, events, seen, "every pod came, once")
	})
}

// A pod that is new on this node may be open, so it does not wait for HNS to rest:
// nor does one that came anew under its name or with another address. One that is
// relabelled does, for an interval, and one of another node until HNS has rested.
func TestNewPodsDoNotWaitForHNSToRest(t *testing.T) {
	r, cl := &recorder{answer: keepsBusy(time.Second)}, newCluster()
	run(t, Config{Source: cl.source(), Applier: r, Node: "n1"}, func(t *testing.T, c *Controller) {
		next := func(p *corev1.Pod) time.Duration {
			time.Sleep(time.Minute)
			cl.nodes.set(newNode("n1", fmt.Sprintf("10.9.1.%d", len(r.calls())))) // HNS is busy
			time.Sleep(time.Second + leastRest/2)
			before := len(r.calls())
			cl.pods.set(p)
			pass(time.Minute)
			calls := r.calls()
			require.Len(t, calls, before+1)
			return calls[before].at - calls[before-1].at - time.Second
		}
		again, moved, relabelled := newPod("a", "10.0.0.1"), newPod("a", "10.0.0.2"), newPod("a", "10.0.0.2")
		again.UID, moved.UID, relabelled.UID = "another", "another", "another"
		relabelled.Labels = map[string]string{"app": "b"}
		finished := newPod("a", "10.0.0.2")
		finished.UID, finished.Status.Phase = "another", corev1.PodSucceeded

		require.Equal(t, leastRest, next(newPod("a", "10.0.0.1")))
		require.Equal(t, leastRest, next(again))
		require.Equal(t, leastRest, next(moved))
		require.Equal(t, defaultApplyInterval, next(relabelled))
		require.Equal(t, restFactor*time.Second, next(newRemotePod("b", "10.0.0.3")))
		require.Equal(t, defaultApplyInterval, next(newPod("c", "")))
		require.Equal(t, leastRest, next(newPod("c", "10.0.0.4")), "it has got its address")
		require.Equal(t, defaultApplyInterval, next(finished))
	})
}

// One that comes while HNS rests ends the rest.
func TestNewPodEndsTheRest(t *testing.T) {
	r, cl := &recorder{answer: keepsBusy(time.Second)}, newCluster()
	run(t, Config{Source: cl.source(), Applier: r, Node: "n1"}, func(t *testing.T, _ *Controller) {
		cl.pods.set(newRemotePod("b", "10.0.0.3"))
		pass(time.Second + 100*time.Millisecond)
		require.Len(t, r.calls(), 1)
		cl.pods.set(newPod("a", "10.0.0.1"))
		synctest.Wait()
		require.Len(t, r.calls(), 2)
		require.Equal(t, 2, r.calls()[1].len)
		cl.pods.remove(newRemotePod("b", "10.0.0.3"))
		pass(time.Second + 100*time.Millisecond)
		require.Len(t, r.calls(), 2, "once")
	})
}

// The queue takes events while a transaction hangs in HNS; they come together
// when it ends.
func TestScenario_A3_QueueIsFreeWhileApplyHangs(t *testing.T) {
	r, cl := &recorder{}, newCluster()
	run(t, Config{Source: cl.source(), Applier: r}, func(t *testing.T, c *Controller) {
		hang := make(chan struct{})
		r.setHang(hang)
		time.Sleep(time.Second)
		cl.pods.set(newPod("first", "10.0.0.1"))
		synctest.Wait()
		require.Len(t, r.calls(), 2)

		for i := range 100 {
			cl.pods.set(newPod(fmt.Sprintf("p%d", i), fmt.Sprintf("10.1.0.%d", i)))
		}
		cl.policies.remove(&networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "x", Name: "deny"}})
		synctest.Wait() // every handler has returned
		waiting, _ := c.queue.Waiting()
		require.Equal(t, 101, waiting)
		require.NoError(t, c.Healthy())
		time.Sleep(2 * time.Minute)
		require.NoError(t, c.Healthy(), "long is not dead")
		require.Len(t, r.calls(), 2, "one writer")

		r.setHang(nil)
		close(hang)
		pass(leastRest)
		require.Len(t, r.calls(), 3)
		require.Equal(t, 101, r.calls()[2].len)
		require.NoError(t, c.Healthy())
	})
}

func TestRetryAfterBringsAnEmptyTransaction(t *testing.T) {
	r := &recorder{answer: func(n int) (state.Report, error) {
		if n < 3 {
			return state.Report{Pending: 1, RetryAfter: 4 * time.Second}, nil
		}
		return state.Report{}, nil
	}}
	run(t, Config{Source: newCluster().source(), Applier: r}, func(t *testing.T, c *Controller) {
		time.Sleep(time.Minute)
		calls := r.calls()
		require.Len(t, calls, 3, "a retry until nothing waits, then silence")
		require.Equal(t, 4*time.Second, calls[1].at)
		require.Equal(t, 8*time.Second, calls[2].at)
		require.Zero(t, calls[1].len)
	})
}

// TestReadyByWarning: while HNS does not answer the node is not ready. A single object is no reason,
// as the others are served.
func TestReadyByWarning(t *testing.T) {
	for w, says := range map[state.Warning]string{
		{Object: "x/a", Kind: "Pod", Reason: state.ReasonHNSRejected, Message: "no"}:    "",
		{Object: "x/a", Kind: "Pod", Reason: state.ReasonHNSUnavailable, Message: "no"}: "",
		{Object: "x/a", Kind: "Pod", Reason: state.ReasonForeignWrites, Message: "no"}:  "",
		{Object: "n1", Kind: "Node", Reason: state.ReasonHNSUnavailable, Message: "no"}: "HNS does not answer: Node n1: no",
	} {
		r := &recorder{answer: func(int) (state.Report, error) {
			return state.Report{Pending: 1, RetryAfter: time.Hour, Warnings: []state.Warning{w}}, nil
		}}
		run(t, Config{Source: newCluster().source(), Applier: r}, func(t *testing.T, c *Controller) {
			ready, healthy := checks(c)
			require.Equal(t, says, ready)
			require.Empty(t, healthy)
		})
	}
}

func TestFailedApplyBringsTheSameObjectsAgain(t *testing.T) {
	r := &recorder{answer: func(n int) (state.Report, error) {
		if n <= 3 {
			return state.Report{}, errDown
		}
		return state.Report{}, nil
	}}
	run(t, Config{Source: newCluster(newPod("a", "10.0.0.1")).source(), Applier: r}, func(t *testing.T, c *Controller) {
		require.ErrorIs(t, c.Ready(), errDown)
		require.NoError(t, c.Healthy())
		time.Sleep(time.Minute)
		var at []time.Duration
		for _, call := range r.calls() {
			at = append(at, call.at)
			require.Equal(t, 4, call.len)
		}
		require.Equal(t, []time.Duration{0, time.Second, 3 * time.Second, 7 * time.Second}, at)
		require.NoError(t, c.Ready())
	})
}

// After a watch expired everything is listed again: what was missed comes, a
// missed delete as a tombstone, and what did not change does not.
func TestRelistBringsWhatWasMissed(t *testing.T) {
	r, cl := &recorder{}, newCluster(newPod("kept", "10.0.0.1"), newPod("gone", "10.0.0.2"))
	run(t, Config{Source: cl.source(), Applier: r}, func(t *testing.T, _ *Controller) {
		cl.pods.change(newPod("gone", "10.0.0.2"), watch.Deleted, false)
		cl.pods.change(newPod("new", "10.0.0.3"), watch.Added, false)
		cl.pods.cut()
		pass(time.Minute)
		require.Equal(t, 2, cl.pods.listed())
		changed := map[desired.PodKey]*desired.Pod{} // the worker may take the two one by one
		for _, call := range r.calls()[1:] {
			require.Equal(t, len(call.pods), call.len)
			maps.Copy(changed, call.pods)
		}
		require.Len(t, changed, 2)
		gone, ok := changed[desired.PodKey{Namespace: "x", Name: "gone"}]
		require.True(t, ok)
		require.Nil(t, gone)
		require.NotNil(t, changed[desired.PodKey{Namespace: "x", Name: "new"}])
	})
}

func TestNothingIsAppliedBeforeEverythingIsKnown(t *testing.T) {
	r, cl := &recorder{}, newCluster()
	cl.policies.setDown(errDown)
	run(t, Config{Source: cl.source(), Applier: r}, func(t *testing.T, c *Controller) {
		time.Sleep(10 * time.Minute)
		require.Empty(t, r.calls())
		select {
		case <-c.synced:
			require.Fail(t, "not everything is known")
		default:
		}
		require.NoError(t, c.Healthy(), "an API server that is down is no reason to restart")
		require.EqualError(t, c.Ready(), "the API server does not answer: list networkpolicies: connection refused")
		cl.policies.setDown(nil)
		time.Sleep(2 * time.Minute)
		require.Len(t, r.calls(), 1)
		require.NoError(t, c.Ready())
	})
}

func TestNodeAddressIsWaitedFor(t *testing.T) {
	r, cl := &recorder{}, newCluster(newPod("a", "10.0.0.1"))
	cl.nodes.set(newNode("n1"))
	run(t, Config{Source: cl.source(), Applier: r, Node: "n1", RequireNodeAddr: true}, func(t *testing.T, c *Controller) {
		time.Sleep(time.Minute)
		require.Empty(t, r.calls())
		require.EqualError(t, c.Ready(), `node "n1" has no InternalIP yet`)
		cl.nodes.set(newNode("n1", "10.9.0.1"))
		synctest.Wait()
		require.Len(t, r.calls(), 1)
		require.Equal(t, 4, r.calls()[0].len)
		require.NoError(t, c.Ready())

		cl.nodes.remove(newNode("n1"))
		cl.pods.set(newPod("b", "10.0.0.2"))
		time.Sleep(time.Second)
		require.Len(t, r.calls(), 2)
		require.Equal(t, 1, r.calls()[1].len, "the pod comes, the addresses stay")
	})
}

// TestNodeAddressGoesBeforeTheFirstTransaction: an address that the Node object lost again is none.
func TestNodeAddressGoesBeforeTheFirstTransaction(t *testing.T) {
	r, cl := &recorder{}, newCluster(newPod("a", "10.0.0.1"))
	cl.nodes.set(newNode("n1", "10.9.0.1"))
	cl.policies.setDown(errDown)
	run(t, Config{Source: cl.source(), Applier: r, Node: "n1", RequireNodeAddr: true}, func(t *testing.T, c *Controller) {
		time.Sleep(time.Second)
		cl.nodes.set(newNode("n1")) // it registers anew
		cl.policies.setDown(nil)
		time.Sleep(2 * time.Minute)
		require.Empty(t, r.calls())
		require.EqualError(t, c.Ready(), `node "n1" has no InternalIP yet`)
		cl.nodes.set(newNode("n1", "10.9.0.1"))
		synctest.Wait()
		require.Len(t, r.calls(), 1)
	})
}

func TestShutdownWhileApplyHangs(t *testing.T) {
	r := &recorder{stuck: true}
	run(t, Config{Source: newCluster().source(), Applier: r, Observer: newObserver(time.Hour)}, func(t *testing.T, _ *Controller) {
		time.Sleep(time.Minute)
		require.Len(t, r.calls(), 1)
	})
}

func TestNodeAddrs(t *testing.T) {
	c := New(Config{Source: newCluster().source()})
	node := newNode("n1", "10.9.0.1", "fd00::1", "10.9.0.2", "nonsense")
	node.Status.Addresses = append(node.Status.Addresses, corev1.NodeAddress{Type: corev1.NodeExternalIP, Address: "20.1.1.1"})
	require.NoError(t, c.nodes.set(node))
	require.Equal(t, "[10.9.0.1 10.9.0.2]", fmt.Sprint(c.nodeAddrs()))
}

func TestPolicy(t *testing.T) {
	r, cl := &recorder{}, newCluster()
	run(t, Config{Source: cl.source(), Applier: r}, func(t *testing.T, c *Controller) {
		deny := policy.Key{Namespace: "x", Name: "deny"}
		np, ok := c.Policy(deny)
		require.True(t, ok)
		require.Equal(t, "deny", np.GetName())
		_, ok = c.Policy(policy.Key{Namespace: "y", Name: "deny"})
		require.False(t, ok)
		cl.policies.remove(&networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "x", Name: "deny"}})
		synctest.Wait()
		_, ok = c.Policy(deny)
		require.False(t, ok, "it was deleted")
	})
}
