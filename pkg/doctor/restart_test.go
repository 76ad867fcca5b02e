package doctor_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/winnpm/winnpm/pkg/doctor"
	"github.com/winnpm/winnpm/test/effort"
)

// service is the service of a stand-in: while it restarts every call fails with a code.
type service struct {
	standIn
	pid     atomic.Uint32
	down    atomic.Uint32 // the code; 0: it runs
	code    uint32
	samePID bool
	fails   error
	lose    func(*testing.T, standIn)
	t       *testing.T
}

func serviceOf(t *testing.T, s standIn) *service {
	out := &service{standIn: s, code: 0x800706ba, t: t} // RPC_S_SERVER_UNAVAILABLE
	out.pid.Store(1000)
	return out
}

// Call implements doctor.Library.
func (s *service) Call(ctx context.Context, export string, a doctor.Arguments) (doctor.Outcome, error) {
	if code := s.down.Load(); code != 0 && ctx.Err() == nil {
		return doctor.Outcome{HResult: code}, nil
	}
	return s.standIn.Call(ctx, export, a)
}

// PID implements doctor.Service.
func (s *service) PID() (uint32, error) { return s.pid.Load(), nil }

// Restart implements doctor.Service.
func (s *service) Restart(context.Context) error {
	if s.fails != nil {
		return s.fails
	}
	s.down.Store(s.code)
	<-time.After(3 * time.Second)
	s.Server.Restart(false)
	if s.lose != nil {
		s.lose(s.t, s.standIn)
	}
	if !s.samePID {
		s.pid.Add(1)
	}
	s.down.Store(0)
	return nil
}

// Ids of what the doctor makes.
const (
	doctorsNetwork = "d0c70000-5f3a-4c1e-9b6d-77696e6e7001"
	doctorsPod     = "d0c70000-5f3a-4c1e-9b6d-77696e6e7010"
)

// forgets is a restart after which objects are gone.
func forgets(calls ...[2]string) func(*testing.T, standIn) {
	return func(t *testing.T, s standIn) {
		for _, c := range calls {
			d, err := s.Call(t.Context(), c[0], doctor.Arguments{ID: c[1]})
			require.NoError(t, err)
			require.Zero(t, d.HResult, "%v: %s", c, d.Record)
		}
	}
}

// anotherID makes the doctor's network anew.
func anotherID(t *testing.T, s standIn) {
	forgets([2]string{"HcnDeleteEndpoint", doctorsPod}, [2]string{"HcnDeleteNetwork", doctorsNetwork})(t, s)
	d, err := s.Call(t.Context(), "HcnCreateNetwork", doctor.Arguments{
		ID: "d0c70000-5f3a-4c1e-9b6d-77696e6e70aa", Texts: []string{`{"Name":"winnpm-doctor","Type":"NAT","SchemaVersion":{"Major":2,"Minor":0}}`},
	})
	require.NoError(t, err)
	require.Zero(t, d.HResult, d.Record)
}

// TestRestart: what survives a restart of the service is told, and what does not refutes its
// own assumption.
func TestRestart(t *testing.T) {
	t.Parallel()
	for name, tt := range effort.Some(t, effort.Of(2, 6, 100), map[string]struct {
		change func(*service)
		want   []string
		sets   string
	}{
		"all survives":          {func(*service) {}, nil, "2 of 2 sets and 2 of 2 rules"},
		"sets are lost":         {func(s *service) { s.lose = func(_ *testing.T, s standIn) { s.Restart(true) } }, nil, "0 of 2 sets and 0 of 2 rules"},
		"the same process":      {func(s *service) { s.samePID = true }, []string{"E8"}, "2 of 2"},
		"endpoints are gone":    {func(s *service) { s.lose = forgets([2]string{"HcnDeleteEndpoint", doctorsPod}) }, []string{"E9"}, "2 of 2 sets and 0 of 2 rules"},
		"another network":       {func(s *service) { s.lose = anotherID }, []string{"E7", "E9"}, "0 of 2 sets"},
		"not found meanwhile":   {func(s *service) { s.code = 0x803b0001 }, []string{"C6"}, "2 of 2"},
		"refusals meanwhile":    {func(s *service) { s.code = 0x803b000d }, []string{"C6"}, "2 of 2"},
		"nobody may restart it": {func(s *service) { s.fails = errors.New("access is denied") }, nil, "HNS was not restarted: access is denied"},
	}) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := newStandIn(t)
				is := serviceOf(t, s)
				tt.change(is)
				o := options()
				o.Service = is
				r := doctor.Run(t.Context(), is, o)
				require.ElementsMatch(t, tt.want, refuted(r), "%+v", findings(r))
				require.Contains(t, whyOf(r, "S18"), tt.sets)
				if is.fails == nil {
					require.Contains(t, whyOf(r, "C6"), fmt.Sprintf("0x%08x", is.code))
				}
				require.Empty(t, r.Left)
				untouched(t, s)
			})
		})
	}
}

// TestStoppedInRestart: a doctor that is stopped while HNS restarts takes away what it made.
func TestStoppedInRestart(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newStandIn(t)
		is := serviceOf(t, s)
		ctx, cancel := context.WithCancel(t.Context())
		o := options()
		o.Service = is
		o.Progress = func(probe string) {
			if probe == "restart: the service" {
				time.AfterFunc(time.Second, cancel)
			}
		}
		r := doctor.Run(ctx, is, o)
		require.Equal(t, context.Canceled.Error(), r.Broken)
		require.Empty(t, r.Left)
		untouched(t, s)
	})
}
