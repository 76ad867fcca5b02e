package hcsadapter

import (
	"context"
	"errors"
	"strings"

	"github.com/winnpm/winnpm/pkg/hns"
)

// podStates are those of the endpoints that pods have: 3, or 2 on L1VH nodes and
// while they come up. State cannot be read, only asked for.
var podStates = []int{2, 3}

// EndpointIDs implements hns.Client. The endpoints of other networks are among them: which
// filters HNS heeds together is not documented, and each of them is read once.
func (a *Adapter) EndpointIDs(ctx context.Context) ([]string, error) {
	ids, err := a.attached(ctx)
	if err != nil {
		return nil, &hns.OpError{Op: hns.OpEndpointIDs, Kind: hns.KindNetwork, ID: a.network, Code: codeOf(err), Err: unknown(err)}
	}
	return ids, nil
}

// stateCreated is that of an endpoint which nothing uses yet.
const stateCreated = 1

// NewEndpointIDs implements hns.Client. They are of any network.
func (a *Adapter) NewEndpointIDs(ctx context.Context) ([]string, error) {
	ids, err := a.endpointIDs(ctx, hns.OpEndpointNew, filter("State", stateCreated))
	if err != nil {
		return nil, &hns.OpError{Op: hns.OpEndpointNew, Kind: hns.KindNetwork, ID: a.network, Code: codeOf(err), Err: unknown(err)}
	}
	return ids, nil
}

// attached returns the GUIDs of the endpoints that pods may have, of every network. It fails while
// it is not known which network is ours: then no endpoint can be read either.
func (a *Adapter) attached(ctx context.Context) ([]string, error) {
	if _, _, err := a.networkID(ctx); err != nil {
		return nil, unread(err)
	}
	var lists [][]string
	for _, state := range podStates {
		ids, err := a.endpointIDs(ctx, hns.OpEndpointIDs, filter("State", state))
		if err != nil {
			return nil, err
		}
		lists = append(lists, ids)
	}
	return merged(lists), nil
}

// merged returns each GUID once: endpoints come up from 2 to 3, and one that does
// so meanwhile is in both answers.
func merged(lists [][]string) []string {
	var all []string
	seen := map[string]bool{}
	for _, ids := range lists {
		for _, id := range ids {
			if key := strings.ToLower(id); !seen[key] {
				seen[key] = true
				all = append(all, id)
			}
		}
	}
	return all
}

// answered reports whether an error is an answer of HNS: whoever asks something
// else then gets another one.
func answered(err error) bool { return errors.Is(unknown(err), hns.ErrUnlisted) }
