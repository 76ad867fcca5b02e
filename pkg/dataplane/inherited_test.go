package dataplane_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/pkg/hns/hnssim"
)

// reaches reports whether somebody whom no policy allows reaches an endpoint.
func (s *script) reaches(id string) bool {
	s.t.Helper()
	return s.trace(strings.Fields("10.0.1.9 -> 10.0.0.1 TCP/80 "+id+" in allow")) == nil
}

// TestStartInherited: an endpoint that was there before anybody, as after a restart of the
// agent, is not the one of a pod that starts with its address.
func TestStartInherited(t *testing.T) {
	w := starting(t)
	early(w)
	w.do("endpoint old 10.0.0.1", "observe", "apply", "advance 10s") // nobody's
	w.create("new", "10.0.0.1")
	w.do("pod x/w 10.0.0.1 app=web sandbox=s1", "apply")
	for range 70 {
		if why := w.notReady("s1"); why == "" {
			require.False(t, w.reaches("new"), "ready while its endpoint is open")
			return
		}
		w.do("advance 1s", "apply")
	}
	t.Fatal("never ready")
}

// TestStartRelists: others that start do not make an old endpoint the pod's own, whether its
// own cannot be read or is not there yet.
func TestStartRelists(t *testing.T) {
	for name, unreadable := range map[string]bool{"its own cannot be read": true, "its own is not there yet": false} {
		t.Run(name, func(t *testing.T) {
			w := starting(t)
			early(w)
			w.do("endpoint old 10.0.0.1", "pod x/old 10.0.0.1 app=web", "apply", "delete pod x/old", "advance 10s", "pod x/w 10.0.0.1 app=web sandbox=s1")
			if unreadable {
				w.create("new", "10.0.0.1")
				w.sim.Inject(hnssim.Fault{Op: hns.OpEndpointGet, Target: "new", Times: -1, Mode: hnssim.Refuse})
			}
			_ = w.apply()
			for i := range 8 { // within a second
				require.NotEmpty(t, w.notReady("s1"), "ready after %d others", i)
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
	early(w)
	w.do("endpoint old 10.0.0.1", "pod x/old 10.0.0.1 app=web", "apply", "delete pod x/old")
	w.sim.Inject(hnssim.Fault{Op: hns.OpEndpointGet, Target: "old", Err: hns.ErrNotFound})
	_ = w.apply()
	require.Empty(t, w.sim.UnusedFaults(), "the read came")
	w.do("advance 10s", "observe", "apply", "advance 10s")
	w.create("new", "10.0.0.1")
	w.do("pod x/w 10.0.0.1 app=web sandbox=s1", "apply")
	for range 70 {
		if why := w.notReady("s1"); why == "" {
			require.False(t, w.reaches("new"), "ready while its endpoint is open")
			return
		}
		w.do("advance 1s", "apply")
	}
	t.Fatal("never ready")
}
