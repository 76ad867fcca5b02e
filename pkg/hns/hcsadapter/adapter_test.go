package hcsadapter

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/winnpm/winnpm/pkg/hns"
)

// TestAdapterHang: one HNS call hangs; nobody waits for it longer than the
// deadline, health fails, and everything is well when it returns.
func TestAdapterHang(t *testing.T) {
	for given, deadline := range map[time.Duration]time.Duration{0: 2 * time.Minute, time.Second: time.Second} {
		synctest.Test(t, func(t *testing.T) {
			a, s := onSim(t, Options{Deadline: given})
			release := make(chan struct{})
			f := newFaulty(s)
			f.before = func(call string) error {
				if strings.HasPrefix(call, "HcnModify") {
					<-release
				}
				return nil
			}
			a.service = service{f}
			require.NoError(t, a.Healthy())
			start := time.Now()
			err := a.ModifySets(t.Context(), hns.Add, []hns.SetPolicy{leaf})
			wantError(t, err, hns.ErrUnavailable, "SetPolicy/Add", hns.KindSet, leaf.ID, 0)
			require.Equal(t, deadline, time.Since(start))
			late := "service unavailable: the call SetPolicy/Add has not returned for " + deadline.String() + ", its deadline is " + deadline.String()
			require.EqualError(t, err, "hns SetPolicy/Add: set azure-npm-1: "+late)
			require.EqualError(t, a.Healthy(), late)

			_, err = a.EndpointIDs(t.Context())
			wantError(t, err, hns.ErrUnavailable, "Endpoint/Enumerate", hns.KindNetwork, "azure", 0)
			err = a.ModifySets(t.Context(), hns.Update, []hns.SetPolicy{leaf})
			require.ErrorIs(t, err, hns.ErrUnavailable)
			require.Equal(t, deadline, time.Since(start), "at once")

			close(release)
			synctest.Wait()
			require.NoError(t, a.Healthy())
			n := getNetwork(t, a)
			require.Len(t, n.Sets, 1, "what HNS was late with, it did")
			require.Equal(t, 1, s.sim.Counts()["SetPolicy/Add"]+s.sim.Counts()["SetPolicy/Update"])
		})
	}
}

// TestCodes: the codes that the adapter asks for are what their names say.
func TestCodes(t *testing.T) {
	for name, code := range map[string]uint32{
		"HCN_E_NETWORK_NOT_FOUND":  codeNetworkNotFound,
		"HCN_E_ENDPOINT_NOT_FOUND": codeEndpointNotFound,
		"HCN_E_POLICY_NOT_FOUND":   codePolicyNotFound,
		"ERROR_NOT_FOUND":          codeElementNotFound,
	} {
		require.Equal(t, name, hns.LookupCode(code).Name)
	}
}
