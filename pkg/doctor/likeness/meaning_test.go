package likeness_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/winnpm/winnpm/pkg/doctor"
	"github.com/winnpm/winnpm/pkg/doctor/likeness"
	"github.com/winnpm/winnpm/pkg/doctor/sockets"
	"github.com/winnpm/winnpm/pkg/hns/hnssim"
	"github.com/winnpm/winnpm/test/effort"
	"github.com/winnpm/winnpm/test/windows/hnsd"
)

// sent is what a doctor finds with packets where the switch has a meaning.
func sent(t *testing.T, m hnssim.Meaning) doctor.Result {
	t.Helper()
	s := standIn{hnsd.New(hnsd.Options{Foreign: hnssim.DefaultForeign(), Meaning: m})}
	return doctor.Run(t.Context(), s, doctor.Options{Wire: sockets.Asked(s), Now: time.Now})
}

// TestMeaning: the zip of a node has the meaning of its switch, and packets go in a simulator
// with that as they did on the node.
func TestMeaning(t *testing.T) {
	t.Parallel()
	for name, want := range effort.Some(t, effort.Of(1, 6, 100), map[string]hnssim.Meaning{
		"plain":     {},
		"comma":     {CommaIsOr: true},
		"sides":     {SetsBySide: true},
		"empty":     {EmptyMatches: true, FillerMatches: true, EmptyListNone: true},
		"frozen":    {Frozen: true},
		"higher":    {HigherWins: true},
		"late ones": {LateOnes: true, AnyIsTCP: true},
		"default":   {DefaultAllows: true},
		"addresses": {AddressesBySet: true, Resets: true},
		"host":      {HostPair: true},
		"stateless": {Stateless: true},
		"slow":      {Lag: 20 * time.Second},
	}) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				node := sent(t, want)
				is, unlike := likeness.Meaning(node)
				require.Equal(t, want, is)
				require.Empty(t, unlike)
				require.Empty(t, likeness.Differences(node, sent(t, is)))
				if want != (hnssim.Meaning{}) && want.Lag == 0 && !want.Resets {
					require.NotEmpty(t, likeness.Differences(node, sent(t, hnssim.Meaning{})))
				}
			})
		})
	}
	synctest.Test(t, func(t *testing.T) {
		_, unlike := likeness.Meaning(sent(t, hnssim.Meaning{Gap: 30 * time.Millisecond}))
		require.Len(t, unlike, 1)
		require.Equal(t, "A19", unlike[0].ID, "nobody knows how long the gap is")
	})
}

// TestLimits: what an HNS has too much of is in its personality.
func TestLimits(t *testing.T) {
	t.Parallel()
	limits := func(p hnssim.Personality) doctor.Result {
		s := standIn{hnsd.New(hnsd.Options{Foreign: hnssim.DefaultForeign(), Personality: p})}
		return doctor.Run(t.Context(), s, doctor.Options{Scale: 1024, Now: time.Now})
	}
	bytes := hnssim.Refusal{What: hnssim.RequestBytes, N: 300_000, Code: 0x803b000d}
	for name, want := range effort.Some(t, effort.Of(1, 2, 4), map[string][]hnssim.Refusal{
		"members": {{What: hnssim.NestedMembers, N: 128, Code: 0x80070057}, {What: hnssim.SetValues, N: 256, Code: 0x803b000d}},
		"sets":    {{What: hnssim.SetCount, N: 512, Code: 0x80070032}},
		"rules":   {{What: hnssim.ACLCount, N: 64, Code: 0x803b000d}},
		"bytes":   {bytes},
	}) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			node := limits(hnssim.Personality{Refuses: want})
			is := likeness.Of(node)
			if name == "bytes" { // what was asked for last before it was too much
				bytes.N = 256_000
				require.Equal(t, []hnssim.Refusal{bytes}, is.Refuses)
				return
			}
			require.Subset(t, is.Refuses, want)
			require.Empty(t, likeness.Differences(node, limits(is)))
		})
	}
}
