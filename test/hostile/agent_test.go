// Package hostile attacks a whole agent as one tenant, or one lost node, can: it
// plays each known attack, every two of them together, and a search for worse
// ones. What it asks is what the attack costs the others: memory, requests to HNS,
// and the time until another tenant's policy is in force. It knows nothing of how
// the agent defends itself. README.md has the figures.
package hostile

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/require"
	eventsv1 "k8s.io/api/events/v1"

	"github.com/winnpm/winnpm/pkg/controllers"
	"github.com/winnpm/winnpm/pkg/dataplane"
	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/pkg/policy"
	"github.com/winnpm/winnpm/pkg/recorder"
	"github.com/winnpm/winnpm/pkg/state"
	"github.com/winnpm/winnpm/test/effort"
	"github.com/winnpm/winnpm/test/hnsfault"
	"github.com/winnpm/winnpm/test/hostile/cluster"
	"github.com/winnpm/winnpm/tool/hnssim"
)

// callTakes is how long a call of HNS takes, in the time of the bubble.
const callTakes = 5 * time.Millisecond

// agent is everything of npm start but its HTTP server and its metrics, on the
// simulator, in a synctest bubble.
type agent struct {
	t      *testing.T
	server *cluster.Server
	sim    *hnsfault.Sim
	dp     *dataplane.Dataplane
	rec    *recorder.Recorder

	calls, sent atomic.Int64 // of HNS, and their bytes

	mu     sync.Mutex // guards following
	second time.Time  // in which now calls were begun
	now    int
	most   int                      // calls in one second
	told   map[policy.Key]time.Time // when the first Event of a policy was sent
	events int
	after  map[string]time.Time // when a rule was first written to an endpoint, by its id
}

// inBubble starts an agent in a bubble, waits until everything honest is
// programmed, and plays.
func inBubble(t *testing.T, play func(a *agent)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		a := newAgent(t)
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		defer running.Wait()
		defer cancel() // a failed test would move the bubble's clock for good
		a.run(ctx, &running)
		play(a)
	})
}

func newAgent(t *testing.T) *agent {
	a := &agent{
		t: t, server: cluster.NewServer(cluster.Honest()...), sim: hnsfault.New(hnsfault.Options{Foreign: hnssim.DefaultForeign()}),
		told: map[policy.Key]time.Time{}, after: map[string]time.Time{},
	}
	for _, addr := range cluster.LocalAddrs() {
		require.NoError(t, a.sim.CreateEndpoint(hnssim.SimEndpoint{ID: endpointOf(addr), Addrs: []netip.Addr{addr}}))
	}
	a.sim.OnCall(a.onCall)
	return a
}

// endpointOf returns the GUID of an address's endpoint.
func endpointOf(addr netip.Addr) string {
	ip := addr.As4()
	return fmt.Sprintf("%08x-0bad-4e00-9000-0000%02x%02x%02x%02x", ip, ip[0], ip[1], ip[2], ip[3])
}

// run wires the parts as cmd/npm does, and waits until they have settled.
func (a *agent) run(ctx context.Context, running *sync.WaitGroup) {
	logger := logr.Discard()
	cfg := dataplane.Config{Node: cluster.Node, Now: time.Now, GracePeriod: 5 * time.Minute}
	a.rec = recorder.New(recorder.Config{Node: cluster.Node, Now: time.Now})
	cfg.Client = a.rec.Client(a.sim)
	a.dp = dataplane.New(cfg)
	recorded := a.rec.Dataplane(a.dp)
	var teller *controllers.Recorder
	ctl := controllers.New(controllers.Config{
		Source: a.server.Source(), Applier: recorded, Observer: recorded, Node: cluster.Node, RequireNodeAddr: true, Logger: logger,
		OnApplied: func(done controllers.Applied) { teller.Applied(done) },
	})
	teller = controllers.NewRecorder(controllers.EventsConfig{Sink: a, Node: cluster.Node, Policy: ctl.Policy, Selecting: a.dp.Selecting, Logger: logger})
	running.Go(func() { teller.Run(ctx) })
	running.Go(func() { ctl.Run(ctx) })
	a.rest(time.Duration(effort.Of(6, 15)) * time.Minute) // also what nothing needs has gone
}

// rest lets time pass, in which the agent does what it has left to do.
func (a *agent) rest(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// onCall counts every call of HNS and lets it take its time.
func (a *agent) onCall(c hnsfault.Call, when hnsfault.When) {
	if when == hnsfault.Before {
		a.calls.Add(1)
		a.sent.Add(int64(c.Bytes))
		a.mu.Lock()
		if second := time.Now().Truncate(time.Second); second.Equal(a.second) {
			a.now++
		} else {
			a.second, a.now = second, 1
		}
		a.most = max(a.most, a.now)
		a.mu.Unlock()
		time.Sleep(callTakes)
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, acl := range c.ACLs {
		if id := c.Target + " " + acl.ID; strings.HasPrefix(acl.ID, hns.ACLIDPrefix+cluster.Victim+".") && a.after[id].IsZero() {
			a.after[id] = time.Now()
		}
	}
}

// Create implements controllers.Sink.
func (a *agent) Create(_ context.Context, e *eventsv1.Event) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.events++
	if key := (policy.Key{Namespace: e.Regarding.Namespace, Name: e.Regarding.Name}); a.told[key].IsZero() {
		a.told[key] = time.Now()
	}
	return nil
}

// written returns when a policy's first rule was on a pod of the victim.
func (a *agent) written(key policy.Key, pod int) time.Time {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.after[endpointOf(cluster.VictimAddr(pod))+" "+state.ACLID(key)]
}

func (a *agent) toldOf(key policy.Key) time.Time {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.told[key]
}

// liveHeap returns the bytes of objects that something still needs. The
// simulator's log of calls is not among them.
func (a *agent) liveHeap() int64 {
	a.sim.ResetCalls()
	return effort.Live()
}

// simulated returns about how many bytes of the heap are what the simulated HNS has.
func (a *agent) simulated() int64 {
	sum := 0
	for _, s := range a.sim.Sets() {
		sum += len(s.ID) + len(s.Name) + 100
		for _, v := range s.Values {
			sum += len(v) + 40 // and a decoded address
		}
	}
	for _, e := range a.sim.Endpoints() {
		for _, p := range e.Policies {
			sum += 2*len(p.Settings) + 400 // and a decoded rule
		}
	}
	return int64(sum)
}

// members returns those of all sets in HNS, in order.
func (a *agent) members() []string {
	var out []string
	for _, s := range a.sim.Sets() {
		if s.Type == hns.IPSet {
			out = append(out, s.Values...)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}
