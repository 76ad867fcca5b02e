package controllers

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/winnpm/winnpm/pkg/dataplane"
	"github.com/winnpm/winnpm/pkg/hns"
	gate "github.com/winnpm/winnpm/pkg/node"
	"github.com/winnpm/winnpm/test/effort"
	"github.com/winnpm/winnpm/test/hnsfault"
	"github.com/winnpm/winnpm/tool/hnssim"
)

// TestClaimRandom: pods come and go on few addresses, of which many keep the endpoints of
// dead ones. HNS is slow and odd, shows endpoints late and denies some, and the agent
// restarts. A pod that was told to start is closed, if it is to be.
func TestClaimRandom(t *testing.T) {
	for seed := range uint64(effort.Of(6, 100)) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { newStarts(t, seed).play() })
		})
	}
}

// starts is a node on which pods start and end.
type starts struct {
	*cluster
	t     *testing.T
	seed  uint64
	sim   *hnsfault.Sim
	left  bool // some endpoints of dead pods stay
	ready int  // pods that were told to start

	mu   sync.Mutex // guards what follows
	free []string   // addresses
	c    *Controller
	stop func()
}

func newStarts(t *testing.T, seed uint64) *starts {
	t.Helper()
	rng := rand.New(rand.NewPCG(seed, 9))
	reads := func(c hnssim.Call) bool { return c.Op == hns.OpEndpointGet }
	writes := func(c hnssim.Call) bool { return !hnsfault.ReadsOnly(c.Op) }
	var faults []hnsfault.Fault
	for _, f := range []hnsfault.Fault{
		{On: writes, P: 0.1, Times: 20, Mode: hnsfault.Half, Code: 0x80004005},
		{On: reads, P: 0.05, Times: 20, Err: hns.ErrNotFound},
		{On: reads, P: 0.25, Times: 10, Code: 0x803B0031},
	} {
		if rng.IntN(2) == 0 {
			faults = append(faults, f)
		}
	}
	p := hnsfault.Personality{
		Latency: []time.Duration{0, time.Millisecond, 20 * time.Millisecond, 100 * time.Millisecond}[rng.IntN(4)],
		Early:   true, Fail: hnsfault.Chances(seed, faults...), Show: hnsfault.Late(rng.IntN(6) / 3 * rng.IntN(3)),
	}
	s := &starts{cluster: newCluster(), t: t, seed: seed, sim: hnsfault.New(hnsfault.Options{Foreign: hnssim.DefaultForeign()}), left: rng.IntN(3) > 0}
	s.sim.SetPersonality(p)
	t.Logf("%+v, a call takes %v", faults, p.Latency)
	s.policies.set(denies("deny", map[string]string{"closed": "yes"}))
	for i := range 6 {
		s.free = append(s.free, fmt.Sprintf("10.0.0.%d", i+1))
	}
	return s
}

// play has three pods at a time come and go.
func (s *starts) play() {
	// Another pod runs, so that HNS is known to show namespaces.
	require.NoError(s.t, s.sim.CreateEndpoint(hnssim.SimEndpoint{ID: "other", Addrs: []netip.Addr{netip.MustParseAddr("10.0.0.99")}, Netns: netnsOf(999)}))
	s.pods.set(newPod("other", "10.0.0.99"))
	s.restart()
	var workers sync.WaitGroup
	for worker := range 3 {
		rng := rand.New(rand.NewPCG(s.seed, uint64(worker)+100))
		workers.Go(func() {
			for round := range 12 {
				s.pod(rng, worker, round)
				if worker == 0 && rng.IntN(6) == 0 {
					s.restart()
				}
			}
		})
	}
	workers.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stop()
	s.t.Logf("%d of 36 were told to start", s.ready)
}

// restart ends the agent and begins a new one.
func (s *starts) restart() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stop != nil {
		s.stop()
	}
	dp := dataplane.New(dataplane.Config{Client: s.sim, Node: "n1", Now: time.Now})
	s.c = New(Config{Source: s.source(), Applier: dp, Readiness: dp, Node: "n1"})
	ctx, cancel := context.WithCancel(s.t.Context())
	done := make(chan struct{})
	go func(c *Controller) { c.Run(ctx); close(done) }(s.c)
	s.stop = func() { cancel(); <-done }
}

// pod is the life of one pod.
func (s *starts) pod(rng *rand.Rand, worker, round int) {
	s.mu.Lock()
	at := rng.IntN(len(s.free))
	addr := s.free[at]
	s.free = append(s.free[:at], s.free[at+1:]...)
	c := s.c
	s.mu.Unlock()

	name := fmt.Sprintf("w%d-%d", worker, rng.IntN(2))
	pod := newPod(name, "")
	pod.UID = types.UID(fmt.Sprintf("%s-%d", name, round))
	pod.Labels = map[string]string{}
	closed := rng.IntN(3) > 0
	if closed {
		pod.Labels["closed"] = "yes"
	}
	pod.Status = corev1.PodStatus{Phase: corev1.PodPending}
	s.pods.set(pod)
	id, netns := string(pod.UID), netnsOf(worker*100+round)
	_ = s.sim.CreateEndpoint(hnssim.SimEndpoint{ID: id, Addrs: []netip.Addr{netip.MustParseAddr(addr)}, State: hnssim.Created, Netns: netns})
	ctx, cancel := context.WithTimeoutCause(s.t.Context(), 20*time.Second, gate.ErrLate)
	err := c.Claim(ctx, gate.Claim{
		UID: string(pod.UID), Namespace: "x", Name: name, ContainerID: "s" + id, Netns: netns,
		Addresses: []netip.Addr{netip.MustParseAddr(addr)}, Wait: 20 * time.Second,
	})
	cancel()
	s.check(err == nil && closed, id, addr)
	_ = s.sim.SetState(id, hnssim.AttachedSharing)
	if rng.IntN(4) > 0 {
		runs := pod.DeepCopy()
		runs.Status = corev1.PodStatus{Phase: corev1.PodRunning, PodIP: addr}
		s.pods.set(runs)
	}
	time.Sleep(time.Duration(rng.IntN(2000)) * time.Millisecond)
	s.check(err == nil && closed, id, addr)
	switch {
	case !s.left || rng.IntN(4) > 0:
		_ = s.sim.DeleteEndpoint(id)
	case rng.IntN(2) == 0:
		_ = s.sim.SetNetns(id, "") // its namespace is gone
	}
	s.pods.remove(pod)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.free = append(s.free, addr)
	if err == nil {
		s.ready++
	}
}

// check fails when the endpoint of a pod that has to be closed is open.
func (s *starts) check(closed bool, id, addr string) {
	v, err := s.sim.Trace(id, hns.In, hnssim.Packet{Src: netip.MustParseAddr("10.0.9.9"), Dst: netip.MustParseAddr(addr), Protocol: 6, DstPort: 80})
	if closed && err == nil && v.Allowed {
		s.t.Errorf("%s at %s was told to start and is open, at %s", id, addr, time.Now())
	}
}

func netnsOf(n int) string { return fmt.Sprintf("00000000-0000-0000-0000-%012d", n) }
