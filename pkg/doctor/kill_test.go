package doctor_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/winnpm/winnpm/pkg/doctor"
	"github.com/winnpm/winnpm/pkg/doctor/sockets"
	"github.com/winnpm/winnpm/test/effort"
)

// mortal makes so many calls, and no more: whoever makes them is killed then.
type mortal struct {
	doctor.Library
	left *atomic.Int64
	kill func()
}

var errKilled = errors.New("killed")

// Call implements doctor.Library.
func (m mortal) Call(ctx context.Context, export string, a doctor.Arguments) (doctor.Outcome, error) {
	if m.left.Load() == 0 {
		m.kill()
		return doctor.Outcome{}, errKilled
	}
	m.left.Add(-1)
	return m.Library.Call(ctx, export, a)
}

// packetsUntilDeath are the packets of who is mortal: they are no calls that count.
type packetsUntilDeath struct{ mortal }

// Call implements doctor.Library.
func (m packetsUntilDeath) Call(ctx context.Context, export string, a doctor.Arguments) (doctor.Outcome, error) {
	if m.left.Load() == 0 {
		return doctor.Outcome{}, errKilled
	}
	return m.Library.Call(ctx, export, a)
}

// killedAfter runs a doctor that is killed after so many calls.
func killedAfter(t *testing.T, s standIn, calls int) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	m := mortal{s, new(atomic.Int64), cancel} // nothing more comes of it
	m.left.Store(int64(calls))
	o := everything(s)
	o.Wire = sockets.Asked(packetsUntilDeath{m})
	doctor.Run(ctx, m, o)
}

// everything are the options of a doctor that does all that one can.
func everything(s standIn) doctor.Options {
	o := withPackets(s)
	o.Service = &quickService{}
	o.Scale = 128
	return o
}

// quickService restarts at once.
type quickService struct{ pid atomic.Uint32 }

// PID implements doctor.Service.
func (s *quickService) PID() (uint32, error) { return 1 + s.pid.Load(), nil }

// Restart implements doctor.Service.
func (s *quickService) Restart(context.Context) error {
	s.pid.Add(1)
	return nil
}

// TestKilled: in whichever probe a doctor is killed, the next one takes away what it left
// before it makes anything, and leaves nothing itself.
func TestKilled(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newStandIn(t)
		whole := doctor.Run(t.Context(), s, everything(s))
		var ends []int // of probes: calls until then
		for i, record := range whole.Records {
			if i+1 == len(whole.Records) || whole.Records[i+1].Probe != record.Probe {
				ends = append(ends, i)
			}
		}
		require.Greater(t, len(ends), 100)
		for i := 1; i < len(ends); i += effort.Of(47, 9, 1) {
			for _, calls := range []int{ends[i], (ends[i-1] + ends[i]) / 2} {
				s := newStandIn(t)
				killedAfter(t, s, calls)
				ctx, cancel := context.WithCancel(t.Context())
				o := everything(s)
				o.Progress = func(probe string) {
					if probe == "make a network" {
						untouched(t, s)
						cancel()
					}
				}
				r := doctor.Run(ctx, s, o)
				cancel()
				require.Equal(t, context.Canceled.Error(), r.Broken)
				require.Empty(t, r.Left)
				untouched(t, s)
			}
		}
	})
}

// TestKilledAnyCall: the same between any two calls, and the next doctor finds what any finds.
func TestKilledAnyCall(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newStandIn(t)
		whole := doctor.Run(t.Context(), s, everything(s))
		for calls := 0; calls < len(whole.Records); calls += effort.Of(3989, 997, 29) {
			s := newStandIn(t)
			killedAfter(t, s, calls)
			r := doctor.Run(t.Context(), s, everything(s))
			require.Equal(t, whole.Headline(), r.Headline(), "killed after %d calls: %+v", calls, findings(r))
			untouched(t, s)
		}
	})
}

// TestStopped: a doctor that is asked to stop takes away what it made.
func TestStopped(t *testing.T) {
	t.Parallel()
	synctest.Test(t, testStopped)
}

func testStopped(t *testing.T) {
	for _, at := range []string{
		"make a network", "sets: a nested set", "rules: update replaces", "endpoints: one address twice",
		"packets: endpoints", "packets: two sets in a field", "packets: a stream through 200 Updates", "restart: the service", "scale: rules", "scale: members of a nested set",
	} {
		s := newStandIn(t)
		ctx, cancel := context.WithCancelCause(t.Context())
		o := everything(s)
		o.Progress = func(probe string) {
			if probe == at {
				cancel(errors.New("somebody said so"))
			}
		}
		r := doctor.Run(ctx, s, o)
		require.Equal(t, "somebody said so", r.Broken)
		require.Empty(t, r.Left)
		untouched(t, s)
	}
}
