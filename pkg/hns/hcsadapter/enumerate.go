package hcsadapter

import (
	"context"
	"slices"
	"strings"

	"github.com/winnpm/winnpm/pkg/hns"
)

// podStates are the states of pods' endpoints: 3, or 2 on L1VH nodes and while they come up. HNS
// does not show the state, it can only be filtered by.
var podStates = []int{2, 3}

// EndpointIDs implements hns.Client. The result includes endpoints of other networks: which filters
// HNS combines is not documented, and each of these endpoints is read only once. EndpointIDs fails
// while the ID of our network is unknown, because no endpoint can be read then either.
func (a *Adapter) EndpointIDs(ctx context.Context) ([]string, error) {
	if _, err := a.networkID(ctx); err != nil {
		return nil, a.notListed(hns.OpEndpointIDs, unread(err))
	}
	var all []string
	for _, state := range podStates {
		ids, err := a.endpointIDs(ctx, hns.OpEndpointIDs, filter("State", state))
		if err != nil {
			return nil, a.notListed(hns.OpEndpointIDs, err)
		}
		all = append(all, ids...)
	}
	// An endpoint that goes from state 2 to 3 between the calls is in both answers.
	slices.SortFunc(all, func(a, b string) int { return strings.Compare(strings.ToLower(a), strings.ToLower(b)) })
	return slices.CompactFunc(all, strings.EqualFold), nil
}

// stateCreated is the state of an endpoint that nothing uses yet.
const stateCreated = 1

// NewEndpointIDs implements hns.Client. The result includes endpoints of every network.
func (a *Adapter) NewEndpointIDs(ctx context.Context) ([]string, error) {
	ids, err := a.endpointIDs(ctx, hns.OpEndpointNew, filter("State", stateCreated))
	if err != nil {
		return nil, a.notListed(hns.OpEndpointNew, err)
	}
	return ids, nil
}

// notListed returns the error of an enumeration.
func (a *Adapter) notListed(op string, err error) error {
	return &hns.OpError{Op: op, Kind: hns.KindNetwork, ID: a.network, Code: codeOf(err), Err: unknown(err)}
}
