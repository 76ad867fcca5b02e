package likeness_test

import (
	"bytes"
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/winnpm/winnpm/pkg/doctor"
	"github.com/winnpm/winnpm/pkg/doctor/likeness"
	"github.com/winnpm/winnpm/pkg/hns/hnssim"
	"github.com/winnpm/winnpm/test/effort"
	"github.com/winnpm/winnpm/test/windows/hnsd"
)

// standIn is the stand-in for HNS, without the DLLs.
type standIn struct{ *hnsd.Server }

// Call implements doctor.Library.
func (s standIn) Call(ctx context.Context, export string, a doctor.Arguments) (doctor.Outcome, error) {
	d, err := s.Server.Call(ctx, export, a.ID, a.Handle, a.Texts...)
	return doctor.Outcome(d), err
}

// examined is what a doctor finds of an HNS of a personality, through a zip.
func examined(t *testing.T, p hnssim.Personality) doctor.Result {
	t.Helper()
	s := standIn{hnsd.New(hnsd.Options{Foreign: hnssim.DefaultForeign(), Personality: p})}
	var file bytes.Buffer
	require.NoError(t, doctor.Run(t.Context(), s, doctor.Options{Now: time.Now}).WriteZip(&file))
	r, err := doctor.ReadZip(bytes.NewReader(file.Bytes()), int64(file.Len()))
	require.NoError(t, err)
	return r
}

// TestOf: the zip of an HNS has its personality, and a simulator with that answers every call
// of the doctor as this HNS did.
func TestOf(t *testing.T) {
	t.Parallel()
	refuse := func(list ...hnssim.Refusal) hnssim.Personality { return hnssim.Personality{Refuses: list} }
	for name, want := range effort.Some(t, effort.Of(1, 6, 100), map[string]hnssim.Personality{
		"plain":       {},
		"codes":       {Codes: map[hnssim.Answer]uint32{hnssim.BadSet: 0x80070057, hnssim.SetExists: 0x80004005, hnssim.EndpointClosed: 0x803b0034}},
		"ports":       refuse(hnssim.Refusal{What: hnssim.PortRanges, Code: 0x803b002d}),
		"SCTP":        refuse(hnssim.Refusal{What: hnssim.SCTP, Code: 0x80070032}),
		"host rules":  refuse(hnssim.Refusal{What: hnssim.HostRules, Code: 0x803b000d}),
		"blocks":      refuse(hnssim.Refusal{What: hnssim.WideBlocks, Code: 0x803b002f}),
		"names":       refuse(hnssim.Refusal{What: hnssim.Braces, Code: 0x80070057}, hnssim.Refusal{What: hnssim.NameLength, N: 255, Code: 0x80070057}),
		"masks":       {Spelling: hnssim.Spelling{HostMask: true}},
		"ports order": {Spelling: hnssim.Spelling{PortOrder: true}},
		"words":       {Spelling: hnssim.Spelling{ProtocolNames: true}},
		"no types":    {Spelling: hnssim.Spelling{NoRuleType: true}},
		"capitals":    {Spelling: hnssim.Spelling{UpperSetIDs: true, UpperRuleIDs: true}},
		// The stand-in takes no field back that it does not know, whatever the code.
		"extra": {Spelling: hnssim.Spelling{Extra: true}, Refuses: []hnssim.Refusal{{What: hnssim.ForeignExtras, Code: 0x803b001b}}},
	}) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			node := examined(t, want)
			is := likeness.Of(node)
			require.Empty(t, likeness.Differences(node, examined(t, is)))
			require.Equal(t, want, is)
		})
	}
}

// TestDifferences: what no personality has is said.
func TestDifferences(t *testing.T) {
	t.Parallel()
	node := examined(t, hnssim.Personality{})
	for _, r := range node.Records {
		if r.Asks == "two protocols in a rule" && r.Export == "HcnModifyEndpoint" {
			r.HResult, r.Name, r.ErrorRecord = "0x00000000", "", ""
		}
	}
	require.Len(t, likeness.Differences(node, examined(t, likeness.Of(node))), 1)
}
