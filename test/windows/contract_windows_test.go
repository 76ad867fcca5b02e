package windows

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/pkg/hns/hcsadapter"
	"github.com/winnpm/winnpm/pkg/hns/hcsadapter/shim"
	"github.com/winnpm/winnpm/pkg/hns/hnstest"
)

// TestContract is the one suite in its second home, whichever HNS is below.
func TestContract(t *testing.T) { contract(t, nil) }

// TestContractHcsshim is the same with HNSBinding: hcsshim. It leaves handles open.
func TestContractHcsshim(t *testing.T) { contract(t, shim.New()) }

// contract runs the suite on a binding of HNS; nil: our own.
func contract(t *testing.T, calls hcsadapter.Calls) {
	t.Helper()
	fixture := newCNI(t)
	adapter, err := hcsadapter.New(hcsadapter.Options{Network: networkName, Calls: calls})
	require.NoError(t, err)
	t.Cleanup(adapter.Close)
	hnstest.Run(t, func(*testing.T) (hns.Client, hnstest.Fixture) { return adapter, fixture })
	require.NoError(t, adapter.Healthy())
}
