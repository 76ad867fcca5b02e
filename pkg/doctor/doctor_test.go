package doctor_test

import (
	"context"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/winnpm/winnpm/pkg/doctor"
	"github.com/winnpm/winnpm/pkg/hns/hnssim"
	"github.com/winnpm/winnpm/test/windows/hnsd"
)

// standIn is the stand-in for HNS that npm.exe has under Wine, without the DLLs.
type standIn struct{ *hnsd.Server }

// Call implements doctor.Library.
func (s standIn) Call(ctx context.Context, export string, a doctor.Arguments) (doctor.Outcome, error) {
	d, err := s.Server.Call(ctx, export, a.ID, a.Handle, a.Texts...)
	return doctor.Outcome{HResult: d.HResult, Record: d.Record, Output: d.Output, Handle: d.Handle}, err
}

// newStandIn returns a node with two pods.
func newStandIn(t *testing.T) standIn {
	t.Helper()
	s := hnsd.New(hnsd.Options{Foreign: hnssim.DefaultForeign()})
	for _, a := range []string{"10.0.0.4", "10.0.0.5"} {
		_, err := s.CreateEndpoint(netip.MustParseAddr(a))
		require.NoError(t, err)
	}
	return standIn{s}
}

func options() doctor.Options {
	return doctor.Options{Node: doctor.Node{OS: "Wine", Keys: map[string]string{}}, Now: time.Now}
}

// untouched: nothing of the doctor's is left.
func untouched(t *testing.T, s standIn) {
	t.Helper()
	networks, endpoints, namespaces := s.Exists()
	require.Equal(t, []string{"azure"}, networks)
	require.Equal(t, []int{2, 0}, []int{endpoints, namespaces})
}

// refuted returns the assumptions that are.
func refuted(r doctor.Result) []string {
	var out []string
	for _, a := range r.Answers {
		if a.Verdict == doctor.Refuted {
			out = append(out, a.ID)
		}
	}
	return out
}

// TestOfTheStandIn: nothing that WinNPM assumes is refuted by the HNS of its own tests.
func TestOfTheStandIn(t *testing.T) {
	t.Parallel()
	for _, bridge := range []bool{false, true} {
		s := newStandIn(t)
		o := options()
		o.L2Bridge = bridge
		r := doctor.Run(t.Context(), s, o)
		for _, a := range r.Answers {
			for _, f := range a.Findings {
				if f.Verdict == doctor.Refuted {
					t.Errorf("%s in %q: %s %v", a.ID, f.Probe, f.Why, f.Records)
				}
			}
		}
		for _, d := range r.Differences {
			t.Errorf("%q: %s", d.Probe, d.Why)
		}
		require.Empty(t, r.Left)
		require.Empty(t, r.Broken)
		untouched(t, s)
		require.Zero(t, s.OpenHandles()[1], "handles")
		t.Log(r.Headline(), len(r.Records))
	}
}
