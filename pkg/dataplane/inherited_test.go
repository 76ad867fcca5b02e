package dataplane_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/winnpm/winnpm/pkg/desired"
	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/pkg/state"
	"github.com/winnpm/winnpm/test/hnsfault"
)

// reaches reports whether somebody whom no policy allows reaches an endpoint.
func (w *world) reaches(id string) bool {
	w.t.Helper()
	return w.trace(strings.Fields("10.0.1.9 -> 10.0.0.1 TCP/80 "+id+" in allow")) == nil
}

// TestStartInherited: an endpoint that was there before anybody, as after a restart of the
// agent, is not the one of a pod that starts with its address.
func TestStartInherited(t *testing.T) {
	w := starting(t)
	w.do("early")
	w.do("endpoint old 10.0.0.1", "observe", "apply", "wait 1s") // nobody's, and lately seen
	w.do("new-endpoint new 10.0.0.1", "pod x/w 10.0.0.1 app=web sandbox=s1", "apply")
	for range 70 {
		if why := w.notReady("x/w", "s1"); why == "" {
			require.False(t, w.reaches("new"), "ready while its endpoint is open")
			return
		}
		w.do("wait 1s", "apply")
	}
	t.Fatal("never ready")
}

// TestStartRelists: others that start do not make an old endpoint the pod's own, whether its
// own cannot be read or is not there yet.
func TestStartRelists(t *testing.T) {
	for name, unreadable := range map[string]bool{"its own cannot be read": true, "its own is not there yet": false} {
		t.Run(name, func(t *testing.T) {
			w := starting(t)
			w.do("early", "endpoint old 10.0.0.1", "pod x/old 10.0.0.1 app=web", "apply", "delete pod x/old", "wait 10s", "pod x/w 10.0.0.1 app=web sandbox=s1")
			if unreadable {
				w.do("new-endpoint new 10.0.0.1")
				w.sim.Inject(hnsfault.Fault{Op: hns.OpEndpointGet, Target: "new", Times: -1, Mode: hnsfault.Refuse})
			}
			_ = w.apply()
			for i := range 8 { // within a second
				require.NotEmpty(t, w.notReady("x/w", "s1"), "ready after %d others", i)
				w.now = w.now.Add(50 * time.Millisecond)
				w.do("pod x/o" + string(rune('0'+i)) + " 10.0.2." + string(rune('1'+i)) + " app=o sandbox=s1")
				_ = w.apply()
			}
		})
	}
}

// TestStartVanished: the same as TestStartInherited without a restart, after one read that
// says "not found" of an endpoint that is there.
func TestStartVanished(t *testing.T) {
	w := starting(t)
	w.do("early", "endpoint old 10.0.0.1", "pod x/old 10.0.0.1 app=web", "apply", "delete pod x/old")
	w.sim.Inject(hnsfault.Fault{Op: hns.OpEndpointGet, Target: "old", Err: hns.ErrNotFound})
	_ = w.apply()
	require.Empty(t, w.sim.UnusedFaults(), "the read came")
	w.do("wait 10s", "observe", "apply", "wait 10s", "new-endpoint new 10.0.0.1", "pod x/w 10.0.0.1 app=web sandbox=s1", "apply")
	for range 70 {
		if why := w.notReady("x/w", "s1"); why == "" {
			require.False(t, w.reaches("new"), "ready while its endpoint is open")
			return
		}
		w.do("wait 1s", "apply")
	}
	t.Fatal("never ready")
}

// TestStartNamespace: the endpoint in the HNS namespace that the CNI told of is the pod's own,
// whatever else has its address, and however often HNS does not show it at first.
func TestStartNamespace(t *testing.T) {
	const told = "pod x/w 10.0.0.1 app=web sandbox=s1 netns=n1"
	for name, before := range map[string]func(*world){
		"an endpoint without a namespace": func(w *world) { w.do("endpoint old 10.0.0.1") },
		"one of another namespace":        func(w *world) { w.do("new-endpoint old 10.0.0.1 n0") },
		"one that a read denied": func(w *world) {
			w.do("endpoint old 10.0.0.1", "pod x/old 10.0.0.1 app=web", "apply", "delete pod x/old")
			w.sim.Inject(hnsfault.Fault{Op: hns.OpEndpointGet, Target: "old", Err: hns.ErrNotFound})
			_ = w.apply()
			w.do("wait 1s")
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := starting(t)
			w.do("early", "new-endpoint other 10.0.0.9 N9")
			before(w)
			w.do("pod x/w 10.0.0.1 app=web") // the endpoint came for it, as far as we know
			w.do("observe", "apply", "wait 1s", told, "apply")
			for range 260 { // nearly as long as a CNI may wait
				require.Equal(t, "HNS shows no endpoint with its address that was made for its sandbox", w.notReady("x/w", "s1"))
				w.do("wait 1s", "apply")
			}
			w.do("new-endpoint new 10.0.0.1 N1")
			for range 30 {
				w.do("wait 1s", "apply", "wait 1ms", "apply")
			}
			require.Empty(t, w.notReady("x/w", "s1"))
			require.False(t, w.reaches("new"))
		})
	}
}

// TestStartNamespaceLate: a namespace that HNS shows after the endpoint is read again for.
func TestStartNamespaceLate(t *testing.T) {
	w := starting(t)
	w.do("early", "new-endpoint other 10.0.0.9 n9", "new-endpoint new 10.0.0.1", "pod x/w 10.0.0.1 app=web sandbox=s1 netns=n1", "apply", "apply")
	require.NotEmpty(t, w.notReady("x/w", "s1"))
	require.NoError(t, w.sim.SetNetns("new", "n1"))
	w.do("wait 1s", "apply", "wait 1ms", "apply")
	require.Empty(t, w.notReady("x/w", "s1"))
	w.do("wait 1m", "apply")
	require.Zero(t, w.report.Calls[hns.OpEndpointNew], "nobody waits")
}

// TestStartRound: who asks anew waits for a transaction that began after that.
func TestStartRound(t *testing.T) {
	w := starting(t)
	w.do("endpoint new 10.0.0.1", "pod x/w 10.0.0.1 app=web sandbox=s1", "apply")
	require.Empty(t, w.notReady("x/w", "s1"))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	ask := func() error {
		return w.dp.WaitReady(ctx, desired.PodKey{Namespace: "x", Name: "w"}, "x/w", state.Sandbox{ID: "s1", Round: 1})
	}
	require.EqualError(t, ask(), "the agent has not come to it yet")
	w.do("pod x/w 10.0.0.1 app=web sandbox=s1 round=1", "apply", "calls")
	require.NoError(t, ask())
}

// TestStartUnread: where HNS shows no namespaces, an endpoint that is known only from the list
// of new ones, and that cannot be read at first, keeps the pod waiting, for as long as it
// cannot be read. An enumeration, which does not show such endpoints, does not forget it.
func TestStartUnread(t *testing.T) {
	for name, failures := range map[string]int{"one failed read": 1, "a minute of failed reads": 8} {
		t.Run(name, func(t *testing.T) {
			w := starting(t)
			w.do("early")
			w.do("endpoint old 10.0.0.1", "observe", "apply", "wait 1s") // met within five seconds of the claim
			w.do("new-endpoint new 10.0.0.1")
			w.sim.Inject(hnsfault.Fault{Op: hns.OpEndpointGet, Target: "new", Times: failures, Mode: hnsfault.Refuse})
			w.do("pod x/w 10.0.0.1 app=web sandbox=s1")
			_ = w.apply()
			w.do("pod x/o 10.0.2.1 app=o") // has all endpoints enumerated
			for range 300 {
				_ = w.apply()
				if w.notReady("x/w", "s1") == "" {
					require.False(t, w.reaches("new"), "ready while its endpoint is open")
					return
				}
				w.now = w.now.Add(500 * time.Millisecond)
			}
			t.Fatal("never ready")
		})
	}
}

// TestStartBesideUnread: an endpoint that cannot be read, and that existed long before the request
// of the pod's CNI, delays the pod for half a minute at most.
func TestStartBesideUnread(t *testing.T) {
	w := starting(t)
	w.do("early", "endpoint other 10.0.0.7")
	w.sim.Inject(hnsfault.Fault{Op: hns.OpEndpointGet, Target: "other", Times: -1, Mode: hnsfault.Refuse})
	w.do("observe")
	_ = w.apply()
	w.do("wait 10s", "endpoint new 10.0.0.1", "pod x/w 10.0.0.1 app=web sandbox=s1")
	for range 80 {
		_ = w.apply()
		if w.notReady("x/w", "s1") == "" {
			require.False(t, w.reaches("new"))
			return
		}
		w.now = w.now.Add(500 * time.Millisecond)
	}
	t.Fatal("never ready: " + w.notReady("x/w", "s1"))
}
