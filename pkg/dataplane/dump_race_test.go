package dataplane_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/winnpm/winnpm/pkg/dataplane"
	"github.com/winnpm/winnpm/pkg/hns"
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
