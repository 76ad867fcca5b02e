package dataplane_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"

	"github.com/winnpm/winnpm/pkg/desired"
	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/pkg/state"
	"github.com/winnpm/winnpm/test/hnsfault"
)

// starting is a node with a policy that lets only x/a into the pods of namespace x with app=web.
func starting(t *testing.T) *world {
	t.Helper()
	w := newWorld(t)
	w.do("namespace x", "policy x/p "+webFromAPI, "pod x/a 10.0.1.1 app=api remote", "apply")
	return w
}

// notReady returns why a pod may not start with a sandbox; "" when it may.
func (w *world) notReady(pod, sandbox string) string {
	w.t.Helper()
	ctx, cancel := context.WithCancel(w.t.Context())
	cancel() // no waiting
	ns, name, _ := strings.Cut(pod, "/")
	if err := w.dp.WaitReady(ctx, desired.PodKey{Namespace: ns, Name: name}, types.UID(pod), state.Sandbox{ID: sandbox}); err != nil {
		return err.Error()
	}
	return ""
}

// TestStartingNotThere: a pod whose endpoint HNS does not show is looked for again.
func TestStartingNotThere(t *testing.T) {
	w := starting(t)
	w.do("pod x/w 10.0.0.1 app=web sandbox=s1", "apply", "retry 1s")
	require.Equal(t, 1, w.report.Calls[hns.OpEndpointNew])
	require.Equal(t, "HNS shows no endpoint with its address that was made for its sandbox", w.notReady("x/w", "s1"))
	w.do("early", "new-endpoint new 10.0.0.1", "wait 1s", "apply")
	require.Empty(t, w.notReady("x/w", "s1"))

	w.do("wait 1m", "apply")
	require.Zero(t, w.report.Calls[hns.OpEndpointNew], "nobody waits")
}

// TestStartingYields: a transaction that leaves reads to the next one, which is due, goes on
// with that.
func TestStartingYields(t *testing.T) {
	w := starting(t)
	w.do("endpoint one 10.0.0.8", "endpoint two 10.0.0.9", "pod x/w 10.0.0.1 app=web sandbox=s1", "early", "new-endpoint new 10.0.0.1")
	w.tx.Yield = after(1)
	w.do("apply")
	require.Zero(t, w.report.Calls[hns.OpEndpointNew])
	w.settle()
	require.Empty(t, w.notReady("x/w", "s1"))
}

// TestWaitReady: who waits is told as soon as the endpoint is right, while the transaction
// goes on with others.
func TestWaitReady(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := starting(t)
		began := time.Now()
		told := map[string]time.Duration{}
		var mu sync.Mutex
		var waiting sync.WaitGroup
		for id, addr := range map[string]string{"w": "10.0.0.1", "z": "10.0.0.2"} {
			w.do("endpoint "+id+" "+addr, "pod x/"+id+" "+addr+" app=web sandbox=s1")
			waiting.Go(func() {
				assert.NoError(t, w.dp.WaitReady(t.Context(), desired.PodKey{Namespace: "x", Name: id}, types.UID("x/"+id), state.Sandbox{ID: "s1"}))
				mu.Lock()
				defer mu.Unlock()
				told[id] = time.Since(began)
			})
		}
		w.sim.SetPersonality(hnsfault.Personality{Latency: time.Second})
		w.do("apply")
		ended := time.Since(began)
		waiting.Wait()
		require.Less(t, min(told["w"], told["z"]), max(told["w"], told["z"]))
		require.LessOrEqual(t, max(told["w"], told["z"]), ended)
	})
}

// TestPodStart: the time from when a pod is known until it has its rules is told once, of
// pods that policies isolate and that came while the process ran.
func TestPodStart(t *testing.T) {
	pPolicy := "policy x/p " + webFromAPI
	w := newWorld(t)
	w.do("namespace x", pPolicy, "endpoint old 10.0.0.8", "pod x/old 10.0.0.8 app=web", "apply")
	require.Empty(t, w.report.Starts, "nobody can say how long it was open")
	w.do("pod x/w 10.0.0.1 app=web", "pod x/free 10.0.0.2", "endpoint free 10.0.0.2", "apply")
	require.Empty(t, w.report.Starts)
	since := w.now
	w.do("wait 400ms", "endpoint new 10.0.0.1", "wait 600ms", "apply")
	start := state.Start{Since: since, Until: w.now}
	require.Equal(t, []state.PodStart{{Pod: "x/w", Start: start}}, w.report.Starts)
	require.Equal(t, time.Second, start.Open())
	w.do("wait 1h", pPolicy, "pod x/w 10.0.0.1 app=web port=http:80", "apply")
	require.Empty(t, w.report.Starts)
	for _, p := range w.dp.Dump().Pods {
		if p.Pod == "x/w" {
			require.Equal(t, &start, p.Start)
		} else {
			require.Nil(t, p.Start, p.Pod)
		}
	}
	w.do("endpoint told 10.0.0.3", "pod x/told 10.0.0.3 app=web sandbox=s1", "apply")
	require.Equal(t, []state.PodStart{{Pod: "x/told", Start: state.Start{Since: w.now, Until: w.now, Told: true}}}, w.report.Starts)
}
