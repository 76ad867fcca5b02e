package hnsd

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/winnpm/winnpm/pkg/hns"
)

// TestSpent: each process is told what it has cost, since it asked last.
func TestSpent(t *testing.T) {
	t.Parallel()
	s, c := start(t, Options{})
	other := c.as(7)
	spent := func(c *client) (out Spent) {
		a := c.do("HNSCall", request{text: [2]string{"GET " + SpentPath}})
		require.NoError(t, decode(*a.output, &out))
		return out
	}
	require.Zero(t, spent(c))
	h := c.open("Network", s.own.id)
	other.open("Network", s.own.id)
	sent := modify(hns.Add, setPolicy("azure-npm-🚀", hns.IPSet, ""))
	c.do("HcnModifyNetwork", request{handle: h, text: [2]string{sent}})
	record := c.call("HcnModifyNetwork", request{handle: h, text: [2]string{sent}}).record
	got := c.do("HcnQueryNetworkProperties", request{handle: h, text: [2]string{allQuery}}).output
	bytes := func(text string) int {
		units, _ := encodeText(&text)
		return len(units)
	}
	require.Equal(t, Spent{
		Calls: map[string]int{"HcnOpenNetwork": 1, "HcnModifyNetwork": 2, "HcnQueryNetworkProperties": 1},
		In:    2*bytes(sent) + bytes(allQuery), Out: bytes(*record) + bytes(*got),
		Open: 1,
	}, spent(c))
	require.Equal(t, Spent{Open: 1}, spent(c))
	require.Equal(t, Spent{Calls: map[string]int{"HcnOpenNetwork": 1}, Open: 1}, spent(other))
}
