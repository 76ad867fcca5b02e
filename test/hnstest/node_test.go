package hnstest_test

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/test/hnsfault"
	"github.com/winnpm/winnpm/test/hnstest"
	"github.com/winnpm/winnpm/test/hnstest/onsim"
	"github.com/winnpm/winnpm/tool/hnssim"
)

// TestNodes: the suite passes on what a node may be like, and asks all of it.
func TestNodes(t *testing.T) {
	t.Parallel()
	rule := hns.EndpointPolicy{Type: "ACL", Settings: []byte(`{"Action":"Block","Direction":"Out","Priority":199,"RemoteAddresses":"168.63.129.16/32"}`)}
	for name, like := range map[string]hnsfault.Personality{
		"puts policies of its own on endpoints": {Foreign: append(hnssim.DefaultForeign(), hns.EndpointPolicy{Type: "PortName", Settings: []byte(`{"Name":"x"}`)})},
		"shows everything in another order":     {Show: hnsfault.Shuffle(7)},
		"both":                                  {Show: hnsfault.Shuffle(8), Foreign: []hns.EndpointPolicy{rule}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for range 5 {
				report := hnstest.Run(t, func(*testing.T) (hns.Client, hnstest.Fixture) {
					sim := hnsfault.New(hnsfault.Options{Personality: like})
					return sim, &onsim.CNI{Sim: sim}
				})
				require.Empty(t, report.Skipped)
			}
		})
	}
	t.Run("has policies that stay", func(t *testing.T) {
		t.Parallel()
		report := hnstest.Run(t, func(*testing.T) (hns.Client, hnstest.Fixture) {
			sim := hnsfault.New(hnsfault.Options{})
			return &sticky{sim}, &onsim.CNI{Sim: sim}
		})
		require.Empty(t, report.Skipped)
	})
}

// TestNodesThatCannot: what a node does not make is not asked of it, and the report has each with
// what HNS said. Everything else is.
func TestNodesThatCannot(t *testing.T) {
	t.Parallel()
	no := errors.New("0x803b0013 HCN_E_PORT_ALREADY_EXISTS")
	for name, tt := range map[string]struct {
		refuses func(sim *hnsfault.Sim, e hnstest.Endpoint) bool
		want    []string
	}{
		"a second endpoint with an address": {
			func(sim *hnsfault.Sim, e hnstest.Endpoint) bool {
				return slices.ContainsFunc(sim.Endpoints(), func(other hnssim.EndpointView) bool {
					return slices.ContainsFunc(e.Addrs, func(a netip.Addr) bool { return slices.Contains(other.Addrs, a) })
				})
			},
			[]string{"/two_endpoints_may_have_one_address: this HNS makes no second endpoint with an address that one has: " + no.Error()},
		},
		"two addresses": {
			func(_ *hnsfault.Sim, e hnstest.Endpoint) bool { return len(e.Addrs) > 1 },
			[]string{"/every_address_of_an_endpoint_is_read: this HNS makes no endpoint with two addresses: " + no.Error()},
		},
		"remote, or loose": {
			func(_ *hnsfault.Sim, e hnstest.Endpoint) bool { return e.Remote || e.Detached },
			[]string{
				"/only_attached_endpoints_are_enumerated: this HNS makes no endpoint that is attached to nothing: " + no.Error(),
				"/an_endpoint_that_is_not_attached_takes_no_rules: this HNS makes no endpoint that is attached to nothing: " + no.Error(),
				"/an_endpoint_of_another_node_is_told_apart: this HNS makes no endpoint of another node: " + no.Error(),
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			report := hnstest.Run(t, func(*testing.T) (hns.Client, hnstest.Fixture) {
				sim := hnsfault.New(hnsfault.Options{})
				return sim, &onsim.CNI{Sim: sim, Refuses: func(e hnstest.Endpoint) error {
					if tt.refuses(sim, e) {
						return no
					}
					return nil
				}}
			})
			var want []string
			for _, line := range tt.want {
				want = append(want, t.Name()+line)
				require.Contains(t, report.String(), "\n  "+t.Name()+line)
			}
			require.ElementsMatch(t, want, report.Skipped)
		})
	}
}

// sticky is an HNS that shows a policy of its own on each endpoint, first, whatever is written.
type sticky struct{ hns.Client }

var stuck = hns.EndpointPolicy{Type: "EncapOverhead", Settings: []byte(`{"Overhead":50}`)}

// GetEndpoint implements hns.Client.
func (s *sticky) GetEndpoint(ctx context.Context, id string) (hns.Endpoint, error) {
	e, err := s.Client.GetEndpoint(ctx, id)
	if err == nil {
		e.Policies = append([]hns.EndpointPolicy{{Type: stuck.Type, Settings: slices.Clone(stuck.Settings)}}, e.Policies...)
	}
	return e, err
}

// ReplacePolicies implements hns.Client.
func (s *sticky) ReplacePolicies(ctx context.Context, id string, policies []hns.EndpointPolicy) error {
	return s.Client.ReplacePolicies(ctx, id, slices.DeleteFunc(slices.Clone(policies), func(p hns.EndpointPolicy) bool { return p.Type == stuck.Type }))
}
