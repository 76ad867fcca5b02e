package doctor_test

import (
	"flag"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/winnpm/winnpm/pkg/doctor"
	"github.com/winnpm/winnpm/pkg/hns/hnssim"
	"github.com/winnpm/winnpm/test/windows/hnsd"
)

var update = flag.Bool("update", false, "write the table of docs/windows.md")

// TestDocumented: docs/windows.md says of each assumption which probes settle it.
func TestDocumented(t *testing.T) {
	const path = "../../docs/windows.md"
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	before, rest, ok := strings.Cut(string(text), "| assumption | WinNPM assumes that | phase | settled by |\n")
	require.True(t, ok, "the table is not there")
	_, after, ok := strings.Cut(rest, "\n\n")
	require.True(t, ok)
	var table string
	synctest.Test(t, func(t *testing.T) {
		// Small limits settle what is about limits, and cost little.
		s := standIn{hnsd.New(hnsd.Options{Foreign: hnssim.DefaultForeign(), Personality: hnssim.Personality{Refuses: []hnssim.Refusal{
			{What: hnssim.SetCount, N: 100}, {What: hnssim.SetValues, N: 100}, {What: hnssim.ACLCount, N: 100}, {What: hnssim.RequestBytes, N: 100_000},
		}}})}
		_, err := s.CreateEndpoint(netip.MustParseAddr("10.0.0.4"))
		require.NoError(t, err)
		is := serviceOf(t, s)
		o := everything(s)
		o.Service = is
		table = tableOf(doctor.Run(t.Context(), is, o))
	})
	want := before + table + "\n" + after
	if *update {
		require.NoError(t, os.WriteFile(path, []byte(want), 0o600))
		return
	}
	require.Equal(t, want, string(text), "make update writes it")
}

// mostProbes is how many a row of the table names.
const mostProbes = 4

// tableOf has a row for each assumption, in their order.
func tableOf(r doctor.Result) string {
	var b strings.Builder
	b.WriteString("| assumption | WinNPM assumes that | phase | settled by |\n|---|---|---|---|\n")
	for _, a := range doctor.Assumptions() {
		at := slices.IndexFunc(r.Answers, func(answer doctor.Answer) bool { return answer.ID == a.ID })
		var settle, record []string
		for _, f := range r.Answers[at].Findings {
			to := &settle
			if f.Verdict == doctor.Unknown {
				to = &record
			}
			if !slices.Contains(*to, f.Probe) {
				*to = append(*to, f.Probe)
			}
		}
		by := "no probe"
		switch {
		case len(settle) > mostProbes:
			by = fmt.Sprintf("%s; %d more", strings.Join(settle[:mostProbes], "; "), len(settle)-mostProbes)
		case len(settle) > 0:
			by = strings.Join(settle, "; ")
		case len(record) > 0:
			by = "recorded, where there is something: " + strings.Join(record, "; ")
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", a.ID, a.What, a.Phase, by)
	}
	return b.String()
}
