package hnssim_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/test/cnis"
	"github.com/winnpm/winnpm/test/hnsfault"
	"github.com/winnpm/winnpm/test/hnstest"
	"github.com/winnpm/winnpm/test/hnstest/onsim"
	"github.com/winnpm/winnpm/tool/hnssim"
)

func TestContract(t *testing.T) {
	report := hnstest.Run(t, func(*testing.T) (hns.Client, hnstest.Fixture) {
		sim := hnsfault.New(hnsfault.Options{})
		return sim, &onsim.CNI{Sim: sim}
	})
	require.Empty(t, report.Skipped)
	t.Run("on one network", func(t *testing.T) {
		sim := hnsfault.New(hnsfault.Options{})
		fixture := &onsim.CNI{Sim: sim}
		empty := sim.Dump()
		hnstest.Run(t, func(*testing.T) (hns.Client, hnstest.Fixture) { return sim, fixture })
		require.Equal(t, empty, sim.Dump(), "the suite takes away what it made")
	})
	t.Run("enumerates the endpoints of other networks", func(t *testing.T) {
		hnstest.Run(t, func(*testing.T) (hns.Client, hnstest.Fixture) {
			sim := hnsfault.New(hnsfault.Options{})
			sim.SetPersonality(hnsfault.Personality{Show: func(op string, out *hns.Result) {
				for _, e := range sim.Endpoints() {
					if op == hns.OpEndpointIDs && e.Network != hnssim.DefaultNetwork {
						out.IDs = append(out.IDs, e.ID)
					}
				}
			}})
			return sim, &onsim.CNI{Sim: sim}
		})
	})
	for _, c := range cnis.All() {
		t.Run(c.Name, func(t *testing.T) {
			hnstest.Run(t, func(*testing.T) (hns.Client, hnstest.Fixture) {
				sim := hnsfault.New(hnsfault.Options{Network: c.Network.Name})
				return sim, &onsim.CNI{Sim: sim, Policies: c.Endpoint}
			})
		})
	}
}
