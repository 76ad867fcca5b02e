package dataplane_test

import (
	"context"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"

	"github.com/winnpm/winnpm/pkg/desired"
	"github.com/winnpm/winnpm/pkg/state"
	"github.com/winnpm/winnpm/test/hnsfault"
)

// notReady returns why a pod may not start with a sandbox, ID or ID/ROUND; "" when it may.
func (w *world) notReady(pod, sandbox string) string {
	w.t.Helper()
	ctx, cancel := context.WithCancel(w.t.Context())
	cancel() // no waiting
	ns, name, _ := strings.Cut(pod, "/")
	sandbox, round, _ := strings.Cut(sandbox, "/")
	asked, _ := strconv.Atoi(round)
	if err := w.dp.WaitReady(ctx, desired.PodKey{Namespace: ns, Name: name}, types.UID(pod), state.Sandbox{ID: sandbox, Round: asked}); err != nil {
		return err.Error()
	}
	return ""
}

// TestWaitReady: who waits is told as soon as the endpoint is right, while the transaction
// goes on with others.
func TestWaitReady(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.do("namespace x", "policy x/p "+webFromAPI, "pod x/a 10.0.1.1 app=api remote", "apply")
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
