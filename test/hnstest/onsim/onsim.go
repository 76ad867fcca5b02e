// Package onsim lets the contract suite run on the simulator, and on whatever
// wraps it.
package onsim

import (
	"errors"
	"fmt"
	"slices"

	"github.com/stretchr/testify/require"

	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/test/hnsfault"
	"github.com/winnpm/winnpm/test/hnstest"
	"github.com/winnpm/winnpm/tool/hnssim"
)

// CNI is the hand that makes endpoints on a simulated node. It implements
// hnstest.Fixture, and is used by one test at a time.
type CNI struct {
	Sim *hnsfault.Sim
	// Policies are those of the CNI; none: the suite's own example.
	Policies []hns.EndpointPolicy
	// Refuses says which endpoints this node does not make; nil: it makes all.
	Refuses func(hnstest.Endpoint) error
	next    int
}

var (
	_ hnstest.Fixture   = (*CNI)(nil)
	_ hnstest.Elsewhere = (*CNI)(nil)
	_ hnstest.Others    = (*CNI)(nil)
)

// Others implements hnstest.Others.
func (c *CNI) Others() []hns.EndpointPolicy { return slices.Clone(c.Policies) }

// CreateEndpoint implements hnstest.Fixture.
func (c *CNI) CreateEndpoint(t hnstest.T, e hnstest.Endpoint) (string, error) {
	t.Helper()
	return c.create(t, "", e)
}

// CreateElsewhere implements hnstest.Elsewhere.
func (c *CNI) CreateElsewhere(t hnstest.T, e hnstest.Endpoint) (string, error) {
	t.Helper()
	return c.create(t, "elsewhere", e)
}

func (c *CNI) create(t hnstest.T, network string, e hnstest.Endpoint) (string, error) {
	t.Helper()
	if c.Refuses != nil {
		if err := c.Refuses(e); err != nil {
			return "", err
		}
	}
	c.next++
	id := fmt.Sprintf("ep-%d", c.next)
	n := hnssim.NewEndpoint{ID: id, Addrs: e.Addrs, Remote: e.Remote, Network: network, Policies: e.Foreign}
	if e.Detached {
		n.State = hnssim.Created
	}
	require.NoError(t, c.Sim.CreateEndpoint(n))
	return id, nil
}

// DeleteEndpoint implements hnstest.Fixture.
func (c *CNI) DeleteEndpoint(t hnstest.T, id string) {
	t.Helper()
	if err := c.Sim.DeleteEndpoint(id); !errors.Is(err, hns.ErrNotFound) {
		require.NoError(t, err)
	}
}
