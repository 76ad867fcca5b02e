package uninstall_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/pkg/hns/canary"
	"github.com/winnpm/winnpm/pkg/hns/hnssim"
	"github.com/winnpm/winnpm/pkg/uninstall"
)

// TestLookFindsTheCanary: what a killed agent left of its first write is ours too.
func TestLookFindsTheCanary(t *testing.T) {
	sim := hnssim.New(hnssim.Options{})
	require.NoError(t, sim.PutSet(hns.SetPolicy{ID: canary.ID, Name: canary.ID, Type: hns.IPSet, Values: []string{"192.0.2.1"}}))
	require.NoError(t, sim.PutSet(hns.SetPolicy{ID: "winnpm-other", Name: "o", Type: hns.IPSet}))
	found, err := uninstall.Look(context.Background(), sim)
	require.NoError(t, err)
	require.Len(t, found.Sets, 1)
	require.Equal(t, canary.ID, found.Sets[0].ID)
}
