package dataplane

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/winnpm/winnpm/pkg/state"
)

// TestProgress: it says where a transaction is, since when, and whether HNS is asked.
func TestProgress(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	n := &progress{now: func() time.Time { return now }}
	require.Equal(t, state.Progress{}, n.Now(), "nothing runs")

	n.Note("beginning", "", "", "")
	require.Equal(t, "beginning", n.Now().Doing)
	now = now.Add(time.Second)
	n.Note("staging", "Pod", "shop", "db-0")
	require.Equal(t, state.Progress{Doing: "staging Pod shop/db-0", Since: now}, n.Now())

	n.Note("updating", "endpoint", "", "ep")
	require.Equal(t, "updating endpoint ep", n.Now().Doing)
	at := n.at
	n.move(place{work: at.work, kind: at.kind, name: at.name, call: "Endpoint/Get"})
	require.Equal(t, state.Progress{Doing: "updating endpoint ep, in HNS: Endpoint/Get", Since: now, InHNS: true}, n.Now())
	n.move(at)
	require.False(t, n.Now().InHNS)
	require.Equal(t, "updating endpoint ep", n.Now().Doing)

	n.Note("staging", "Namespace", "", "a\nb")
	require.NotContains(t, n.Now().Doing, "\n", "text of others is one line")
}

// TestSlowestPiece: a report tells of the longest piece of work that took a second or more.
// What HNS takes is not work of ours.
func TestSlowestPiece(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	n := &progress{now: func() time.Time { return now }}
	takes := func(d time.Duration) { now = now.Add(d) }
	end := func() *state.Piece { n.move(place{}); return n.longest }

	n.Note("beginning", "", "", "")
	n.Note("staging", "Pod", "x", "quick")
	takes(900 * time.Millisecond)
	require.Nil(t, end())

	n.Note("beginning", "", "", "")
	n.Note("staging", "NetworkPolicy", "x", "slow")
	takes(2 * time.Second)
	n.Note("staging", "NetworkPolicy", "x", "slowest")
	takes(3 * time.Second)
	at := n.at
	n.move(place{work: at.work, call: "SetPolicy/Update"})
	takes(time.Minute)
	n.move(at)
	require.Equal(t, &state.Piece{Doing: "staging NetworkPolicy x/slowest", Took: 3 * time.Second}, end())

	n.Note("beginning", "", "", "")
	require.Nil(t, end(), "each transaction has its own")
}
