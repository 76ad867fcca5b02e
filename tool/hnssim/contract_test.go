package hnssim_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/test/cnis"
	"github.com/winnpm/winnpm/test/hnsfault"
	"github.com/winnpm/winnpm/test/hnstest"
	"github.com/winnpm/winnpm/test/hnstest/onsim"
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
	t.Run("odd where it does not matter", func(t *testing.T) {
		hnstest.Run(t, func(*testing.T) (hns.Client, hnstest.Fixture) {
			sim := hnsfault.New(hnsfault.Options{Personality: hnsfault.Personality{
				Spelling:  hnsfault.Spelling{Extra: true, NoProtocol: true},
				Endpoints: hnsfault.EndpointHabits{Others: true},
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
	t.Run("after a personality was lifted", func(t *testing.T) {
		for seed := range uint64(10) {
			sim := hnsfault.New(hnsfault.Options{Personality: hnsfault.DrawPersonality(seed)})
			fixture := &onsim.CNI{Sim: sim}
			_, err := fixture.CreateEndpoint(t, hnstest.Endpoint{})
			require.NoError(t, err)
			sim.SetPersonality(hnsfault.Personality{})
			hnstest.Run(t, func(*testing.T) (hns.Client, hnstest.Fixture) { return sim, fixture })
		}
	})
}
