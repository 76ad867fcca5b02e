package doctor_test

import (
	"context"
	"errors"
	"io"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/winnpm/winnpm/pkg/doctor"
	"github.com/winnpm/winnpm/pkg/doctor/sockets"
	"github.com/winnpm/winnpm/pkg/hns/hnssim"
	"github.com/winnpm/winnpm/test/effort"
	"github.com/winnpm/winnpm/test/windows/hnsd"
)

// switchOf returns a node whose switch has another meaning for the rules of the doctor.
func switchOf(t *testing.T, m hnssim.Meaning) standIn {
	t.Helper()
	s := hnsd.New(hnsd.Options{Foreign: hnssim.DefaultForeign(), Meaning: m})
	for _, a := range []string{"10.0.0.4", "10.0.0.5"} {
		_, err := s.CreateEndpoint(netip.MustParseAddr(a))
		require.NoError(t, err)
	}
	return standIn{s}
}

// withPackets are the options of a doctor that sends packets over a library.
func withPackets(over doctor.Library) doctor.Options {
	o := options()
	o.Wire = sockets.Asked(over)
	return o
}

// TestPackets: a switch that does what WinNPM assumes holds every assumption about packets.
func TestPackets(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newStandIn(t)
		r := doctor.Run(t.Context(), s, withPackets(s))
		require.Empty(t, findings(r))
		for _, a := range r.Answers {
			if a.Phase != doctor.Packets {
				continue
			}
			want := doctor.Held
			if a.ID == "A2" { // the simulator does not say who wins
				want = doctor.Unknown
			}
			require.Equal(t, want, a.Verdict, "%s: %+v", a.ID, a.Findings)
		}
		require.Greater(t, len(r.Questions), 15)
		for _, q := range r.Questions {
			require.GreaterOrEqual(t, q.RightMicros, int64(0), "%+v", q)
			require.GreaterOrEqual(t, q.Rounds, 3)
			require.Equal(t, "HcnModify", r.Records[q.Written].Export[:9])
		}
		require.Empty(t, r.Left)
		untouched(t, s)
		require.Zero(t, s.Streams(), "connections")
		require.Zero(t, s.OpenHandles()[1], "handles")
	})
}

// TestPacketDeviations: each thing that a switch does otherwise refutes its own assumption,
// and no other one.
func TestPacketDeviations(t *testing.T) {
	t.Parallel()
	for name, tt := range effort.Some(t, effort.Of(3, 8, 100), map[string]struct {
		odd  hnssim.Meaning
		want []string
	}{
		"a comma is OR":                      {hnssim.Meaning{CommaIsOr: true}, []string{"S1"}},
		"sets by side":                       {hnssim.Meaning{SetsBySide: true}, []string{"S2"}},
		"an empty set matches all":           {hnssim.Meaning{EmptyMatches: true}, []string{"S3"}},
		"an empty nested set matches none":   {hnssim.Meaning{EmptyListNone: true}, []string{"S4"}},
		"a filler matches all":               {hnssim.Meaning{FillerMatches: true}, []string{"S5"}},
		"members of the time of the write":   {hnssim.Meaning{Frozen: true}, []string{"S6"}},
		"the higher priority wins":           {hnssim.Meaning{HigherWins: true}, []string{"A1", "A4"}},
		"what no rule matches passes":        {hnssim.Meaning{DefaultAllows: true}, []string{"A3"}},
		"the last priorities are one":        {hnssim.Meaning{LateOnes: true}, []string{"A4"}},
		"addresses as sets":                  {hnssim.Meaning{AddressesBySet: true}, []string{"A5"}},
		"no protocol is TCP":                 {hnssim.Meaning{AnyIsTCP: true}, []string{"A11"}},
		"a Host pair is needed":              {hnssim.Meaning{HostPair: true}, []string{"A14"}},
		"an Update in two steps":             {hnssim.Meaning{Gap: 30 * time.Millisecond}, []string{"A19"}},
		"an Update resets":                   {hnssim.Meaning{Resets: true}, []string{"A21"}},
		"replies need a rule":                {hnssim.Meaning{Stateless: true}, []string{"A22"}},
		"replies need a rule, nothing else":  {hnssim.Meaning{Stateless: true, DefaultAllows: true}, []string{"A22", "A3"}},
		"slow":                               {hnssim.Meaning{Lag: 12 * time.Second}, []string{"A28"}},
		"slow by minutes":                    {hnssim.Meaning{Lag: 3 * time.Minute}, []string{"A28"}},
		"never in force":                     {hnssim.Meaning{Lag: time.Hour}, []string{"A28"}},
		"slow, and a comma is OR":            {hnssim.Meaning{Lag: 20 * time.Second, CommaIsOr: true}, []string{"A28", "S1"}},
		"within seconds is what WinNPM says": {hnssim.Meaning{Lag: 5 * time.Second}, nil},
	}) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := switchOf(t, tt.odd)
				began := time.Now()
				r := doctor.Run(t.Context(), s, withPackets(s))
				require.ElementsMatch(t, tt.want, refuted(r), "%+v", findings(r))
				require.Less(t, time.Since(began), 45*time.Minute)
				require.Empty(t, r.Left)
				untouched(t, s)
				require.Zero(t, s.Streams())
			})
		})
	}
}

// changed is a wire of which one method does something else first.
type changed struct {
	doctor.Wire
	serve func(doctor.Place) error
	send  func(doctor.Flow) (doctor.Fate, error) // no fate: as ever
}

// Serve implements doctor.Wire.
func (c changed) Serve(ctx context.Context, at doctor.Place, ports []uint16) (io.Closer, error) {
	if c.serve != nil {
		if err := c.serve(at); err != nil {
			return nil, err
		}
	}
	return c.Wire.Serve(ctx, at, ports)
}

// Send implements doctor.Wire.
func (c changed) Send(ctx context.Context, f doctor.Flow) (doctor.Fate, error) {
	if c.send != nil {
		if fate, err := c.send(f); fate != "" || err != nil {
			return fate, err
		}
	}
	return c.Wire.Send(ctx, f)
}

// TestNoPackets: where no packet can be sent nothing is refuted, and it is said why.
func TestNoPackets(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]changed{
		"no compartment 2": {serve: func(doctor.Place) error { return errors.New("no compartment 2") }},
		"no sockets":       {send: func(doctor.Flow) (doctor.Fate, error) { return "", errors.New("no sockets") }},
		"without rules":    {send: func(doctor.Flow) (doctor.Fate, error) { return doctor.Dropped, nil }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := newStandIn(t)
				change.Wire = sockets.Asked(s)
				o := options()
				o.Wire = change
				r := doctor.Run(t.Context(), s, o)
				require.Empty(t, findings(r))
				require.Contains(t, whyOf(r, "A28"), name)
				untouched(t, s)
			})
		})
	}
}

// TestFirewall: a node whose own firewall lets nothing to one of the ports through refutes nothing.
func TestFirewall(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newStandIn(t)
		o := options()
		o.Wire = changed{Wire: sockets.Asked(s), send: func(f doctor.Flow) (doctor.Fate, error) {
			if f.Protocol == 17 {
				return doctor.Dropped, nil
			}
			return "", nil
		}}
		r := doctor.Run(t.Context(), s, o)
		require.Empty(t, findings(r))
		require.Contains(t, whyOf(r, "A28"), "without rules")
	})
}

// whyOf joins what the findings about an assumption say.
func whyOf(r doctor.Result, id string) string {
	why := ""
	for _, a := range r.Answers {
		for _, f := range a.Findings {
			if a.ID == id {
				why += f.Why + "\n"
			}
		}
	}
	return why
}

// TestEqualPriorities: whichever of two rules wins is a held A2 that says which.
func TestEqualPriorities(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := switchOf(t, hnssim.Meaning{LateOnes: true}) // says who wins where the simulator does not
		r := doctor.Run(t.Context(), s, withPackets(s))
		require.Contains(t, whyOf(r, "A2"), "dropped")
	})
}

// TestSetsRefused: a network that takes no sets leaves what they mean unknown, and the rest is
// asked all the same.
func TestSetsRefused(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newStandIn(t)
		s.Refuse(func(request string) bool { return strings.Contains(request, `"SetPolicy"`) }, 0x803b0015)
		r := doctor.Run(t.Context(), s, withPackets(s))
		verdicts := map[string]doctor.Verdict{}
		for _, a := range r.Answers {
			verdicts[a.ID] = a.Verdict
		}
		for _, id := range []string{"S1", "S2", "S3", "S4", "S5", "S6"} {
			require.Equal(t, doctor.Unknown, verdicts[id], id)
		}
		for _, id := range []string{"A1", "A3", "A5", "A19", "A22"} {
			require.Equal(t, doctor.Held, verdicts[id], id)
		}
	})
}
