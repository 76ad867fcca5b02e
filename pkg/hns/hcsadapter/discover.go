package hcsadapter

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/winnpm/winnpm/pkg/hns"
)

// usualNetwork is looked for first where no network is named, as most nodes have it. It
// counts alone then, and costs what a named one does.
const usualNetwork = "azure"

// podNetworks are the types of networks on which CNIs put pods: azure-vnet, win-bridge,
// flannel, Calico and vpc-shared-eni make L2Bridge or L2Tunnel, and win-overlay, flannel and
// Calico Overlay. The others of hcsshim's NetworkType are those of containers that are no
// pods (NAT, ICS, Transparent) and of virtual machines (Private, Internal).
var podNetworks = []string{"l2bridge", "l2tunnel", "overlay"}

// errNoPodNetwork is what discovery says when HNS answered and there is nothing.
var errNoPodNetwork = fmt.Errorf("%w that pods have: none of type L2Bridge, L2Tunnel or Overlay has an endpoint of a pod of this node", errNoNetwork)

// discover returns the names of the networks of this node's pods, sorted, one at least: those
// of a type that CNIs use that are known to be of pods, or have an endpoint of this node that
// counts. A CNI may leave others of these types, to keep the switch of the node alive, and
// these have no endpoint; containers that are no pods may have their own.
func (a *Adapter) discover(ctx context.Context, known func(network) bool, counts func(endpoint) bool) ([]string, error) {
	all, err := call(ctx, a.worker, hns.OpNetworkGet, func() ([]network, error) {
		return a.service.networks(podNetworks)
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

// hasEndpoint reports whether a network has an endpoint of this node that counts. The filter
// is an observation: an endpoint counts when a read shows it in the network. One that cannot
// be read counts for nobody.
func (a *Adapter) hasEndpoint(ctx context.Context, network string, counts func(endpoint) bool) (bool, error) {
	ids, err := a.endpointIDs(ctx, hns.OpEndpointIDs, filter("VirtualNetwork", network))
	if err != nil {
		return false, err
	}
	for _, id := range ids {
		e, err := a.findEndpoint(ctx, id)
		switch {
		case err != nil && !answered(err) && !errors.Is(err, errNoEndpoint):
			return false, err
		case err == nil && !e.remote() && strings.EqualFold(e.HostComputeNetwork, network) && counts(e):
			return true, nil
		}
	}
	return false, nil
}

// networks returns the networks of some types, given in small letters.
func (s service) networks(types []string) ([]network, error) {
	ids, err := s.ids(kindNetwork, "")
	if err != nil {
		return nil, err
	}
	var out []network
	for _, id := range ids {
		var n network
		err := s.with(kindNetwork, id, func(h handle) error { return s.show(kindNetwork, h, &n) })
		if codeOf(err) == codeNetworkNotFound { // it is gone since
			continue
		}
		if err != nil {
			return nil, err
		}
		if slices.Contains(types, strings.ToLower(n.Type)) {
			out = append(out, n)
		}
	}
	return out, nil
}
