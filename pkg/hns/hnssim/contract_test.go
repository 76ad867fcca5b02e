package hnssim_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/pkg/hns/hnssim"
	"github.com/winnpm/winnpm/pkg/hns/hnstest"
)

// cni is the hand that makes endpoints on a simulated node.
type cni struct {
	sim  *hnssim.Sim
	next int
}

func (c *cni) CreateEndpoint(t *testing.T, e hnstest.Endpoint) string {
	c.next++
	id := fmt.Sprintf("ep-%d", c.next)
	n := hnssim.NewEndpoint{ID: id, Addrs: e.Addrs, Remote: e.Remote, Policies: e.Foreign}
	if e.Detached {
		n.State = hnssim.Created
	}
	require.NoError(t, c.sim.CreateEndpoint(n))
	return id
}

func (c *cni) DeleteEndpoint(t *testing.T, id string) {
	if err := c.sim.DeleteEndpoint(id); !errors.Is(err, hns.ErrNotFound) {
		require.NoError(t, err)
	}
}

func TestContract(t *testing.T) {
	hnstest.Run(t, func(*testing.T) (hns.Client, hnstest.Fixture) {
		sim := hnssim.New(hnssim.Options{})
		return sim, &cni{sim: sim}
	})
	t.Run("on one network", func(t *testing.T) {
		sim := hnssim.New(hnssim.Options{})
		fixture := &cni{sim: sim}
		empty := sim.Dump()
		hnstest.Run(t, func(*testing.T) (hns.Client, hnstest.Fixture) { return sim, fixture })
		require.Equal(t, empty, sim.Dump(), "the suite takes away what it made")
	})
}
