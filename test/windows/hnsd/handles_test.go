package hnsd

import (
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/winnpm/winnpm/pkg/hns"
)

func TestHandles(t *testing.T) {
	t.Parallel()
	s, c := start(t, Options{})
	other := c.as(7)
	require.Empty(t, s.OpenHandles())
	network, endpoint := c.open("Network", s.own.id), c.open("Endpoint", pod(t, s))
	theirs := other.open("Network", s.own.id)
	require.NotEqual(t, network, theirs)
	require.Equal(t, map[uint32]int{1: 2, 7: 1}, s.OpenHandles())

	query := func(h uint64) request { return request{handle: h, text: [2]string{allQuery}} }
	c.refused(codeInvalidHandle, "HcnQueryNetworkProperties", query(theirs))
	c.refused(codeInvalidHandle, "HcnQueryNetworkProperties", query(endpoint))
	c.refused(codeInvalidHandle, "HcnQueryNamespaceProperties", query(network))
	c.refused(codeInvalidHandle, "HcnModifyNetwork", query(endpoint))
	c.refused(codeInvalidHandle, "HcnModifyEndpoint", query(network))
	c.refused(codeInvalidHandle, "HcnModifyNamespace", query(network))
	c.refused(codeInvalidHandle, "HcnCreateEndpoint", query(endpoint))
	c.refused(codeInvalidHandle, "HcnCloseEndpoint", query(network))
	c.refused(codeInvalidHandle, "HcnCloseNamespace", query(0))
	require.Equal(t, map[uint32]int{1: 2, 7: 1}, s.OpenHandles())

	c.do("HcnCloseNetwork", request{handle: network})
	c.refused(codeInvalidHandle, "HcnCloseNetwork", request{handle: network})
	c.refused(codeInvalidHandle, "HcnQueryNetworkProperties", query(network))
	require.Equal(t, map[uint32]int{1: 1, 7: 1}, s.OpenHandles())

	require.NoError(t, c.conn.Close())
	require.Len(t, other.ids("HcnEnumerateNetworks", allQuery), 1)
	require.Equal(t, map[uint32]int{1: 1, 7: 1}, s.OpenHandles(), "what an ended process left is still told")
}

func TestConcurrentClients(t *testing.T) {
	t.Parallel()
	s, first := start(t, Options{})
	const clients, rounds = 8, 25
	var all sync.WaitGroup
	for i := range clients {
		c := first.as(uint32(10 + i))
		all.Go(func() {
			for n := range rounds {
				id := pod(c.t, s)
				h := c.open("Network", s.own.id)
				name := fmt.Sprintf("azure-npm-%d-%d", i, n)
				c.do("HcnModifyNetwork", request{handle: h, text: [2]string{modify(hns.Add, setPolicy(name, hns.IPSet, ""))}})
				e := c.open("Endpoint", id)
				var view shown
				c.query("Endpoint", e, &view)
				if view.ID != id.String() {
					t.Errorf("got endpoint %s, want %v", view.ID, id)
				}
				c.ids("HcnEnumerateEndpoints", where(c.t, `{"State":3}`))
				c.do("HcnCloseEndpoint", request{handle: e})
				c.do("HcnCloseNetwork", request{handle: h})
			}
		})
	}
	all.Wait()
	require.Empty(t, s.OpenHandles())
	require.Len(t, s.Sim().Sets(), clients*rounds)
	require.Len(t, s.Sim().Endpoints(), clients*rounds)
	require.Equal(t, clients*rounds, s.Counts()["HcnModifyNetwork"])
}
