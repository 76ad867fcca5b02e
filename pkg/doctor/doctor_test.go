package doctor_test

import (
	"archive/zip"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/netip"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/winnpm/winnpm/pkg/doctor"
	"github.com/winnpm/winnpm/pkg/hns"
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

// findings returns those that refute something.
func findings(r doctor.Result) []doctor.Finding {
	out := slices.Clone(r.Differences)
	for _, a := range r.Answers {
		for _, f := range a.Findings {
			if f.Verdict == doctor.Refuted {
				out = append(out, f)
			}
		}
	}
	return out
}

// TestOfTheStandIn: nothing that WinNPM assumes is refuted by the HNS of its own tests, which
// does nothing otherwise than the simulator.
func TestOfTheStandIn(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"NAT", "L2Bridge"} {
		s := newStandIn(t)
		o := options()
		o.L2Bridge = kind == "L2Bridge"
		r := doctor.Run(t.Context(), s, o)
		require.Empty(t, findings(r))
		require.Equal(t, kind, r.OwnNetwork)
		require.Empty(t, r.Left)
		require.Empty(t, r.Broken)
		require.GreaterOrEqual(t, r.Count(doctor.Held), 40, r.Headline())
		untouched(t, s)
		require.Zero(t, s.OpenHandles()[1], "handles")
	}
}

// TestSettled: each assumption of the two phases is held or refuted somewhere, but for those
// that take a node of their own.
func TestSettled(t *testing.T) {
	t.Parallel()
	r := doctor.Run(t.Context(), newStandIn(t), options())
	var open []string
	for _, a := range r.Answers {
		if (a.Phase == doctor.ReadOnly || a.Phase == doctor.OwnNetwork) && a.Verdict == doctor.Unknown {
			open = append(open, a.ID)
		}
	}
	// Rights, an HNS 13, tiers of others, pods in namespaces, what A17 decides.
	require.ElementsMatch(t, []string{"C7", "S8", "A27", "E1", "N9"}, open)
}

// TestEveryRefusal: what the simulator refuses is asked, so that a node tells whether it is so.
func TestEveryRefusal(t *testing.T) {
	t.Parallel()
	source, err := os.ReadFile("../hns/hnssim/refusals.go")
	require.NoError(t, err)
	rows := regexp.MustCompile(`hns\.Err\w+, code\w+, hns\.Kind\w+, "([^"]+)"`).FindAllStringSubmatch(string(source), -1)
	require.Greater(t, len(rows), 30)
	var said strings.Builder
	for _, record := range doctor.Run(t.Context(), newStandIn(t), options()).Records {
		said.WriteString(record.ErrorRecord + "\n")
	}
	for _, row := range rows {
		switch row[1] {
		case "content that this node refuses", "no such endpoint": // a test's; the boundary's own
		default:
			if !strings.Contains(said.String(), row[1]) {
				t.Errorf("nobody asks for %q", row[1])
			}
		}
	}
}

// TestReadOnly: without a network of its own nothing is written.
func TestReadOnly(t *testing.T) {
	t.Parallel()
	s := newStandIn(t)
	o := options()
	o.ReadOnly = true
	r := doctor.Run(t.Context(), s, o)
	require.Empty(t, findings(r))
	for export := range s.Counts() {
		require.Regexp(t, "Enumerate|Open|Query|Close|HNSCall", export)
	}
}

// TestZip: what was found comes back from the zip, and what is no zip of a doctor is refused.
func TestZip(t *testing.T) {
	t.Parallel()
	want := doctor.Run(t.Context(), newStandIn(t), options())
	want.Began = want.Began.UTC().Round(0)
	var file bytes.Buffer
	require.NoError(t, want.WriteZip(&file))
	got, err := doctor.ReadZip(bytes.NewReader(file.Bytes()), int64(file.Len()))
	require.NoError(t, err)
	require.Equal(t, want, got)

	z, err := zip.NewReader(bytes.NewReader(file.Bytes()), int64(file.Len()))
	require.NoError(t, err)
	page, err := z.Open(doctor.ReportFile)
	require.NoError(t, err)
	text, err := io.ReadAll(page)
	require.NoError(t, err)
	require.Contains(t, string(text), want.Headline())
	for _, a := range doctor.Assumptions() {
		require.Contains(t, string(text), `<tr id="`+a.ID+`">`)
	}

	for _, cut := range []int{0, 100, file.Len() - 1} {
		_, err = doctor.ReadZip(bytes.NewReader(file.Bytes()[:cut]), int64(cut))
		require.ErrorIs(t, err, doctor.ErrNoResult)
	}
}

// TestHashNames: no name of the node is in the zip, and what is compared stays comparable.
func TestHashNames(t *testing.T) {
	t.Parallel()
	s := newStandIn(t)
	require.NoError(t, s.Sim().PutSet(hns.SetPolicy{ID: "azure-npm-123", Name: "podlabel-secret:project", Type: hns.IPSet}))
	r := doctor.Run(t.Context(), s, options())
	r.HashNames([]byte("key"))
	require.True(t, r.Hashed)
	text, err := json.Marshal(r.Records)
	require.NoError(t, err)
	for _, name := range []string{"secret", "azure-npm-123", `"azure"`, `\"azure\"`} {
		require.NotContains(t, string(text), name)
	}
	require.Contains(t, string(text), "winnpm-doctor")
	require.Contains(t, string(text), `\"name-`)
}
