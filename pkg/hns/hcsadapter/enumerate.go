package hcsadapter

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/winnpm/winnpm/pkg/hns"
)

// podStates are those of the endpoints that pods have: 3, or 2 on L1VH nodes and
// while they come up. State cannot be read, only asked for.
var podStates = []int{2, 3}

// EndpointIDs implements hns.Client. The endpoints of other networks are among them: which
// filters HNS heeds together is not documented, and each of them is read once. It fails while
// it is not known which network is ours: then no endpoint can be read either.
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
	// Endpoints come up from 2 to 3, and one that does so meanwhile is in both answers.
	slices.SortFunc(all, func(a, b string) int { return strings.Compare(strings.ToLower(a), strings.ToLower(b)) })
	return slices.CompactFunc(all, strings.EqualFold), nil
}

// stateCreated is that of an endpoint which nothing uses yet.
const stateCreated = 1

// NewEndpointIDs implements hns.Client. They are of any network.
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

// answered reports whether an error is an answer of HNS: whoever asks something
// else then gets another one.
func answered(err error) bool { return errors.Is(unknown(err), hns.ErrUnlisted) }
