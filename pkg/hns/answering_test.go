package hns_test

import (
	"context"
	"errors"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/winnpm/winnpm/pkg/hns"
)

// TestAnsweringIsTheInverseOfAsking: every request comes as it was made, and its result as
// it was given; neither shares what the other side may change.
func TestAnsweringIsTheInverseOfAsking(t *testing.T) {
	refused := errors.New("refused")
	sets, acls, policies := []hns.SetPolicy{{ID: "s", Values: []string{"10.0.0.1"}}}, []hns.ACL{{ID: "a"}}, []hns.EndpointPolicy{{Type: "ACL"}}
	given := map[string]hns.Result{
		hns.OpNetworkGet:    {Network: hns.Network{ID: "n", Sets: []hns.SetPolicy{{ID: "s", Values: []string{"10.0.0.1"}}}}},
		hns.OpEndpointIDs:   {IDs: []string{"ep"}},
		hns.OpEndpointNew:   {IDs: []string{"new"}},
		hns.OpEndpointGet:   {Endpoint: hns.Endpoint{ID: "ep", Addrs: []netip.Addr{netip.MustParseAddr("10.0.0.1")}}},
		hns.OpSets(hns.Add): {Err: refused},
		hns.OpACLAdd:        {Err: refused},
		hns.OpACLUpdate:     {},
	}
	requests := []hns.Request{
		{Op: hns.OpNetworkGet}, {Op: hns.OpEndpointIDs}, {Op: hns.OpEndpointNew}, {Op: hns.OpEndpointGet, Endpoint: "ep"},
		{Op: hns.OpSets(hns.Add), Sets: sets}, {Op: hns.OpACLAdd, Endpoint: "ep", ACLs: acls}, {Op: hns.OpACLUpdate, Endpoint: "ep", Policies: policies},
	}
	var got []hns.Request
	ask := hns.Asking(t.Context(), hns.Answering(func(_ context.Context, r hns.Request) hns.Result {
		got = append(got, r)
		return given[r.Op]
	}))
	for i, r := range requests {
		res := ask(r)
		require.Equal(t, r, got[i])
		require.Equal(t, given[r.Op], res)
		if len(res.Network.Sets) > 0 {
			res.Network.Sets[0].Values[0] = "changed"
		}
		if len(res.IDs) > 0 {
			res.IDs[0] = "changed"
		}
	}
	require.Equal(t, "10.0.0.1", given[hns.OpNetworkGet].Network.Sets[0].Values[0])
	require.Equal(t, "ep", given[hns.OpEndpointIDs].IDs[0])
	sets[0].Values[0], acls[0].ID = "changed", "changed"
	require.Equal(t, "10.0.0.1", got[4].Sets[0].Values[0])
	require.Equal(t, "a", got[5].ACLs[0].ID)
}
