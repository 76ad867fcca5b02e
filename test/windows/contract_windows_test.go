package windows

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/pkg/hns/hcsadapter"
	"github.com/winnpm/winnpm/test/hnstest"
)

// TestContract is the one suite in its second home, whichever HNS is below.
func TestContract(t *testing.T) {
	fixture := newCNI(t)
	adapter, err := hcsadapter.New(hcsadapter.Options{Network: networkName})
	require.NoError(t, err)
	t.Cleanup(adapter.Close)
	hnstest.Run(t, func(*testing.T) (hns.Client, hnstest.Fixture) { return adapter, fixture })
	require.NoError(t, adapter.Healthy())
}
