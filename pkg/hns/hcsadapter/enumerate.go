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

// EndpointIDs implements hns.Client. As long as narrow does not say that HNS heeds
// a filter for our network, the endpoints of others are among them.
func (a *Adapter) EndpointIDs(ctx context.Context) ([]string, error) {
	ids, err := a.enumerate(ctx)
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

func (a *Adapter) enumerate(ctx context.Context) ([]string, error) {
	network, cached, err := a.networkID(ctx)
	if err != nil {
		return nil, unread(err)
	}
	ids, err := a.enumerateOf(ctx, network)
	if err != nil || len(ids) > 0 || !cached {
		return ids, err
	}
	// Nothing is on the network that we know: there may be another one by now.
	n, err := a.findNetwork(ctx)
	switch {
	case err != nil:
		return nil, unread(err)
	case strings.EqualFold(n.ID, network):
		return nil, nil
	}
	return a.enumerateOf(ctx, n.ID)
}

// enumerateOf returns the GUIDs that pods of a network may have.
func (a *Adapter) enumerateOf(ctx context.Context, network string) ([]string, error) {
	a.mu.Lock()
	verdict, tells := a.narrow.verdict, a.narrow.tells()
	a.mu.Unlock()
	switch {
	case verdict == proven:
		ids, err := a.inStates(ctx, func(state int) string { return networkFilter(state, network) })
		if err == nil || !answered(err) {
			return merged(ids), err
		}
	case tells:
		return a.tryNarrow(ctx, network)
	}
	return a.attached(ctx)
}

// tryNarrow asks both filters and believes the one without the network. What the
// other one returns is an observation, and so is an error of it.
func (a *Adapter) tryNarrow(ctx context.Context, network string) ([]string, error) {
	var all, narrowed [][]string
	for _, state := range podStates {
		ids, err := a.endpointIDs(ctx, hns.OpEndpointIDs, filter("State", state))
		if err != nil {
			return nil, err
		}
		all = append(all, ids)
		if len(narrowed) < len(all)-1 {
			continue // it has failed once
		}
		switch ids, err := a.endpointIDs(ctx, hns.OpEndpointIDs, networkFilter(state, network)); {
		case err == nil:
			narrowed = append(narrowed, ids)
		case !answered(err):
			return nil, err
		}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if strings.EqualFold(network, a.observed) {
		a.narrow.listed(all, narrowed)
	}
	return merged(all), nil
}

// attached returns the GUIDs of the endpoints that pods may have, of every
// network.
func (a *Adapter) attached(ctx context.Context) ([]string, error) {
	ids, err := a.inStates(ctx, func(state int) string { return filter("State", state) })
	return merged(ids), err
}

// inStates enumerates the endpoints that match a filter, by state.
func (a *Adapter) inStates(ctx context.Context, filter func(state int) string) ([][]string, error) {
	var out [][]string
	for _, state := range podStates {
		ids, err := a.endpointIDs(ctx, hns.OpEndpointIDs, filter(state))
		if err != nil {
			return nil, err
		}
		out = append(out, ids)
	}
	return out, nil
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
