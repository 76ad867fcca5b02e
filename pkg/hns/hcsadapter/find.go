package hcsadapter

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/winnpm/winnpm/pkg/hns"
)

// What a read says when HNS answered and there is nothing.
var (
	errNoNetwork  = errors.New("HNS has no network of this name")
	errNoEndpoint = errors.New("HNS has no endpoint of this ID")
)

// networkID returns the ID of our network, as last read.
func (a *Adapter) networkID(ctx context.Context) (string, error) {
	a.mu.Lock()
	id := a.id
	a.mu.Unlock()
	if id != "" {
		return id, nil
	}
	n, err := a.findNetwork(ctx)
	return n.ID, err
}

// findNetwork reads our network, and its ID anew: a network that was deleted
// and made again has another one.
func (a *Adapter) findNetwork(ctx context.Context) (network, error) {
	n, err := call(ctx, a.worker, hns.OpNetworkGet, func() (*network, error) {
		return a.service.network(filter("Name", a.network), a.network)
	})
	switch {
	case err != nil:
		a.forgetNetwork(err)
		return network{}, err
	case n == nil:
		a.setID("")
		return network{}, errNoNetwork
	}
	a.setID(n.ID)
	return *n, nil
}

// forgetNetwork forgets the ID of our network when an error says that the
// network of this ID is no more.
func (a *Adapter) forgetNetwork(err error) {
	if codeOf(err) == codeNetworkNotFound {
		a.setID("")
	}
}

// setID sets the ID of our network, "" when it is not known. What was seen to be foreign
// is so while ours is the one it is.
func (a *Adapter) setID(id string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if id != a.id {
		a.id, a.foreign = id, map[string]bool{}
	}
}

// checkLocal returns ErrElsewhere for an endpoint that is remote or of another
// network. ErrUnavailable: which network is ours cannot be read. One without a network
// is being made, and a failure of its own.
func (a *Adapter) checkLocal(ctx context.Context, e endpoint) error {
	if e.remote() {
		return fmt.Errorf("%w: it is remote", hns.ErrElsewhere)
	}
	if e.HostComputeNetwork == "" {
		return &failure{err: fmt.Errorf("HNS shows endpoint %s without a network", e.ID)}
	}
	its := strings.ToLower(e.HostComputeNetwork)
	a.mu.Lock()
	ours, foreign := a.id, a.foreign[its]
	a.mu.Unlock()
	if !strings.EqualFold(its, ours) && !foreign { // there may be another one by now
		n, err := a.findNetwork(ctx)
		if err != nil {
			return unread(err)
		}
		ours = n.ID
	}
	if strings.EqualFold(its, ours) {
		return nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.foreign[its] = true
	return fmt.Errorf("%w: it is of network %s", hns.ErrElsewhere, e.HostComputeNetwork)
}

// endpointIDs returns the GUIDs of the endpoints that match a filter, for an
// operation.
func (a *Adapter) endpointIDs(ctx context.Context, op, filter string) ([]string, error) {
	ids, err := call(ctx, a.worker, op, func() ([]string, error) {
		return a.service.ids(kindEndpoint, filter)
	})
	a.forgetNetwork(err)
	return ids, err
}

// findEndpoint reads one endpoint, in whatever state it is. errNoEndpoint: HNS
// does not find it and does not list it. The code of one call is not enough, as
// one of them speaks of anything. What is listed is looked for again, and is none
// either when no attempt finds it: nothing could be read or written of it.
func (a *Adapter) findEndpoint(ctx context.Context, id string) (endpoint, error) {
	hold := a.holdOf(id)
	var last error
	for range attempts {
		e, err := call(ctx, a.worker, hns.OpEndpointGet, func() (endpoint, error) {
			return a.service.endpoint(id, hold)
		})
		if !vanished(err) {
			return e, err
		}
		last = err
		listed, err := a.endpointIDs(ctx, hns.OpEndpointGet, filter("ID", id))
		switch {
		case vanished(err): // it may be of anything, and is no list
		case err != nil:
			return endpoint{}, err
		case !slices.ContainsFunc(listed, func(other string) bool { return strings.EqualFold(other, id) }):
			return endpoint{}, fmt.Errorf("%w: %w", errNoEndpoint, last)
		}
	}
	return endpoint{}, fmt.Errorf("%w: %w", errNoEndpoint, last)
}
