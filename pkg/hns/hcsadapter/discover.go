package hcsadapter

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/winnpm/winnpm/pkg/hns"
)

// usualNetwork is the name of the network that most nodes have. It is tried first if no network is
// named. If it exists, it is the only network, and needs no more calls than a named one.
const usualNetwork = "azure"

// podNetworks are the types of networks on which CNIs put pods: azure-vnet, win-bridge, flannel,
// Calico and vpc-shared-eni make L2Bridge or L2Tunnel networks; win-overlay, flannel and Calico
// Overlay make Overlay networks. The other types of hcsshim's NetworkType are for containers
// outside Kubernetes (NAT, ICS, Transparent) and for virtual machines (Private, Internal).
var podNetworks = []string{"l2bridge", "l2tunnel", "overlay"}

// errNoPodNetwork says that HNS answered and has no network of pods.
var errNoPodNetwork = fmt.Errorf("%w that pods have: none of type L2Bridge, L2Tunnel or Overlay has an endpoint of a pod of this node", errNoNetwork)

// discover returns the sorted names of the networks of this node's pods, at least one. These are
// the networks of a type that CNIs use which known accepts, or which have an endpoint of this node
// that counts accepts. A CNI may leave other networks of these types without endpoints, to keep the
// switch of the node alive, and containers outside Kubernetes may have their own.
func (a *Adapter) discover(ctx context.Context, known func(network) bool, counts func(endpoint) bool) ([]string, error) {
	all, err := call(ctx, a.worker, hns.OpNetworkGet, func() ([]network, error) {
		return a.service.networks("", func(n network) bool { return slices.Contains(podNetworks, strings.ToLower(n.Type)) })
	})
	if err != nil {
		return nil, err
	}
	var names []string
	for _, n := range all {
		has := known(n)
		if !has {
			if has, err = a.hasEndpoint(ctx, n.ID, counts); err != nil {
				return nil, err
			}
		}
		if has {
			names = append(names, n.Name)
		}
	}
	if len(names) == 0 {
		return nil, errNoPodNetwork
	}
	slices.Sort(names)
	return names, nil
}

// hasEndpoint reports whether a network has an endpoint of this node that counts accepts. The
// filter of the enumeration is undocumented, so an endpoint counts only if a read shows it in the
// network. An endpoint that cannot be read does not count.
func (a *Adapter) hasEndpoint(ctx context.Context, network string, counts func(endpoint) bool) (bool, error) {
	ids, err := a.endpointIDs(ctx, hns.OpEndpointIDs, filter("VirtualNetwork", network))
	if err != nil {
		return false, err
	}
	for _, id := range ids {
		e, err := a.findEndpoint(ctx, id)
		switch {
		case err != nil && errors.Is(unknown(err), hns.ErrUnavailable): // other reads would fail too
			return false, err
		case err == nil && !e.remote() && strings.EqualFold(e.HostComputeNetwork, network) && counts(e):
			return true, nil
		}
	}
	return false, nil
}
