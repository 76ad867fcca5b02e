package hnssim_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/test/cnis"
	"github.com/winnpm/winnpm/test/hnstest"
	"github.com/winnpm/winnpm/test/hnstest/onsim"
	"github.com/winnpm/winnpm/tool/hnssim"
)

func TestContract(t *testing.T) {
	report := hnstest.Run(t, func(*testing.T) (hns.Client, hnstest.Fixture) {
		sim := hnssim.New(hnssim.Options{})
		return sim, &onsim.CNI{Sim: sim}
	})
	require.Empty(t, report.Skipped)
	t.Run("on one network", func(t *testing.T) {
		sim := hnssim.New(hnssim.Options{})
		fixture := &onsim.CNI{Sim: sim}
		empty := sim.Dump()
		hnstest.Run(t, func(*testing.T) (hns.Client, hnstest.Fixture) { return sim, fixture })
		require.Equal(t, empty, sim.Dump(), "the suite takes away what it made")
	})
	t.Run("odd where it does not matter", func(t *testing.T) {
		hnstest.Run(t, func(*testing.T) (hns.Client, hnstest.Fixture) {
			sim := hnssim.New(hnssim.Options{Personality: hnssim.Personality{
				Spelling:  hnssim.Spelling{Extra: true, NoProtocol: true},
				Endpoints: hnssim.EndpointHabits{Others: true},
			}})
			return sim, &onsim.CNI{Sim: sim}
		})
	})
	for _, c := range cnis.All() {
		t.Run(c.Name, func(t *testing.T) {
			hnstest.Run(t, func(*testing.T) (hns.Client, hnstest.Fixture) {
				sim := hnssim.New(hnssim.Options{Network: c.Network.Name})
				return sim, &onsim.CNI{Sim: sim, Policies: c.Endpoint}
			})
		})
	}
	t.Run("after a personality was lifted", func(t *testing.T) {
		for seed := range uint64(10) {
			sim := hnssim.New(hnssim.Options{Personality: hnssim.DrawPersonality(seed)})
			fixture := &onsim.CNI{Sim: sim}
			_, err := fixture.CreateEndpoint(t, hnstest.Endpoint{})
			require.NoError(t, err)
			sim.SetPersonality(hnssim.Personality{})
			hnstest.Run(t, func(*testing.T) (hns.Client, hnstest.Fixture) { return sim, fixture })
		}
	})
}
