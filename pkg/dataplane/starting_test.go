package dataplane_test

import (
	"context"
	"net/netip"
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
	"github.com/winnpm/winnpm/tool/hnssim"
)

// starting is a node with a policy, and a pod x/w whose CNI told of the sandbox s1. The
// policy lets x/a alone in.
func starting(t *testing.T) *world {
	t.Helper()
	w := newWorld(t)
	w.do("namespace x", "policy x/p "+webFromAPI, "pod x/a 10.0.1.1 app=api remote", "apply")
	return w
}

// early has endpoints take rules before they are attached.
func early(w *world) {
	w.sim.SetPersonality(hnsfault.Personality{Early: true})
}

// create makes an endpoint that nothing uses yet.
func (s *world) create(id, addr string) { s.createIn(id, addr, "") }

// createIn makes an endpoint that nothing uses yet, in an HNS namespace.
func (s *world) createIn(id, addr, netns string) {
	s.t.Helper()
	require.NoError(s.t, s.sim.CreateEndpoint(hnssim.NewEndpoint{
		ID: id, Addrs: []netip.Addr{netip.MustParseAddr(addr)}, State: hnssim.Created, Netns: netns,
	}))
}

// notReady returns why the pod x/w may not start with a sandbox; "" when it may.
func (s *world) notReady(sandbox string) string {
	s.t.Helper()
	ctx, cancel := context.WithCancel(s.t.Context())
	cancel() // no waiting
	if err := s.dp.WaitReady(ctx, desired.PodKey{Namespace: "x", Name: "w"}, "x/w", state.Sandbox{ID: sandbox}); err != nil {
		return err.Error()
	}
	return ""
}

// TestStarting: a pod whose CNI told of it is ready when its endpoint has its rules, as soon
// as HNS shows the endpoint, attached or not.
func TestStarting(t *testing.T) {
	for name, make := range map[string]func(*world){
		"attached": func(w *world) { w.do("endpoint new 10.0.0.1") },
		"created":  func(w *world) { early(w); w.create("new", "10.0.0.1") },
	} {
		t.Run(name, func(t *testing.T) {
			w := starting(t)
			make(w)
			require.Equal(t, "the agent has not come to it yet", w.notReady("s1"))
			w.do("pod x/w 10.0.0.1 app=web sandbox=s1", "apply")
			require.Empty(t, w.notReady("s1"))
			w.do("trace 10.0.1.1 -> 10.0.0.1 TCP/80 new in allow", "trace 10.0.1.9 -> 10.0.0.1 TCP/80 new in block")
			require.Equal(t, "the agent has not come to it yet", w.notReady("s0"))

			w.do("state new AttachedSharing", "wait 1s", "pod x/w 10.0.0.1 app=web sandbox=s1 port=http:80", "apply", "calls")
			require.Empty(t, w.notReady("s1"))
		})
	}
}

// TestStartingRefused: where HNS takes no rules for an endpoint before it is attached, the
// pod is not ready until it does.
func TestStartingRefused(t *testing.T) {
	w := starting(t)
	w.create("new", "10.0.0.1")
	w.do("pod x/w 10.0.0.1 app=web sandbox=s1", "! apply")
	require.Contains(t, w.notReady("s1"), "not attached")
	w.do("state new AttachedSharing", "wait 1m")
	w.settle()
	require.Empty(t, w.notReady("s1"))
}

// TestStartingNotThere: a pod whose endpoint HNS does not show is looked for again.
func TestStartingNotThere(t *testing.T) {
	w := starting(t)
	w.do("pod x/w 10.0.0.1 app=web sandbox=s1", "apply", "retry 1s")
	require.Equal(t, 1, w.report.Calls[hns.OpEndpointNew])
	require.Equal(t, "HNS shows no endpoint with its address that was made for its sandbox", w.notReady("s1"))
	early(w)
	w.create("new", "10.0.0.1")
	w.do("wait 1s", "apply")
	require.Empty(t, w.notReady("s1"))

	w.do("wait 1m", "apply")
	require.Zero(t, w.report.Calls[hns.OpEndpointNew], "nobody waits")
}

// TestStartingOnOldEndpoint: an endpoint that others have left, or that the pod had for an
// older sandbox, is not the one that the pod starts with.
func TestStartingOnOldEndpoint(t *testing.T) {
	for name, before := range map[string]string{
		"of another pod":                        "pod x/old 10.0.0.1 app=web",
		"of an older sandbox":                   "pod x/w 10.0.0.1 app=web sandbox=s0",
		"of the same pod, of which nobody told": "pod x/w 10.0.0.1 app=web",
	} {
		t.Run(name, func(t *testing.T) {
			w := starting(t)
			early(w)
			w.do("endpoint old 10.0.0.1", before, "apply")
			if name == "of another pod" {
				w.do("delete pod x/old")
			}
			w.do("pod x/w 10.0.0.1 app=web sandbox=s1", "apply")
			require.Equal(t, "HNS shows no endpoint with its address that was made for its sandbox", w.notReady("s1"))
			w.create("new", "10.0.0.1")
			w.do("wait 1s", "apply")
			require.Empty(t, w.notReady("s1"))
			w.do("trace 10.0.1.9 -> 10.0.0.1 TCP/80 new in block")
		})
	}
}

// TestStartingOnTheSameEndpoint: where no other endpoint comes, the one that is there is the
// pod's.
func TestStartingOnTheSameEndpoint(t *testing.T) {
	w := starting(t)
	w.do("endpoint old 10.0.0.1", "pod x/w 10.0.0.1 app=web", "apply", "pod x/w 10.0.0.1 app=web sandbox=s1", "apply")
	for range 5 {
		require.Equal(t, "HNS shows no endpoint with its address that was made for its sandbox", w.notReady("s1"))
		w.do("wait 30s", "apply")
	}
	require.Empty(t, w.notReady("s1"))
}

// TestStartingWaitsForSets: a pod is not ready while a set in HNS has its address and should
// not, or should and has not.
func TestStartingWaitsForSets(t *testing.T) {
	w := starting(t)
	w.do("endpoint ep 10.0.0.9", "pod x/other 10.0.0.9 app=web", "apply") // its rule sees podlabel-app:api
	w.do("endpoint new 10.0.0.1", "fault SetPolicy/Update * refuse", "pod x/w 10.0.0.1 app=api sandbox=s1", "! apply")
	require.Equal(t, "the sets in HNS do not show its address as they should yet", w.notReady("s1"))
	w.do("wait 1m")
	w.settle()
	require.Empty(t, w.notReady("s1"))
}

// TestStartingYields: a transaction that leaves reads to the next one, which is due, goes on
// with that.
func TestStartingYields(t *testing.T) {
	w := starting(t)
	w.do("endpoint one 10.0.0.8", "endpoint two 10.0.0.9", "pod x/w 10.0.0.1 app=web sandbox=s1")
	early(w)
	w.create("new", "10.0.0.1")
	w.tx.SetYield(func(turns int) bool { return turns == 1 })
	w.do("apply")
	require.Zero(t, w.report.Calls[hns.OpEndpointNew])
	w.settle()
	require.Empty(t, w.notReady("s1"))
}

// TestStartingContested: a pod whose address another pod of the node has is not ready.
func TestStartingContested(t *testing.T) {
	w := starting(t)
	w.do("endpoint ep 10.0.0.1", "pod x/w 10.0.0.1 app=web sandbox=s1 deleting", "pod x/z 10.0.0.1 app=web", "apply")
	require.Equal(t, "another pod of this node has its address: 10.0.0.1", w.notReady("s1"))
	w.do("delete pod x/z", "pod x/w 127.0.0.1 app=web sandbox=s1", "apply")
	require.Equal(t, "it has no address that a pod can have: 127.0.0.1", w.notReady("s1"))
	w.do("pod x/w 127.0.0.1 app=web sandbox=s1 host", "apply")
	require.Equal(t, "it has no address that a pod can have: 127.0.0.1", w.notReady("s1"), "a CNI is called for the pod network alone")
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
