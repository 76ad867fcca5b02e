package hcsadapter

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/winnpm/winnpm/pkg/hns"
)

// What a read says when HNS answered and there is nothing.
var (
	errNoNetwork  = errors.New("HNS has no network of this name")
	errNoEndpoint = errors.New("HNS has no endpoint of this ID")
)

// networkID returns the ID of our network. cached: it is not from a read that
// was made now.
func (a *Adapter) networkID(ctx context.Context) (id string, cached bool, err error) {
	a.mu.Lock()
	id = a.id
	a.mu.Unlock()
	if id != "" {
		return id, true, nil
	}
	n, err := a.findNetwork(ctx)
	return n.id, false, err
}

// findNetwork reads our network, and its ID anew: a network that was deleted
// and made again has another one.
func (a *Adapter) findNetwork(ctx context.Context) (network, error) {
	found, err := call(ctx, a.worker, hns.OpNetworkGet, func() ([]network, error) {
		return a.service.networks(filter("Name", a.network))
	})
	if err != nil {
		a.forgetNetwork(err)
		return network{}, err
	}
	for _, n := range found {
		if n.name == a.network {
			a.setID(n.id)
			return n, nil
		}
	}
	a.setID("")
	return network{}, errNoNetwork
}

// forgetNetwork forgets the ID of our network when an error says that the
// network of this ID is no more.
func (a *Adapter) forgetNetwork(err error) {
	if codeOf(err) == codeNetworkNotFound {
		a.setID("")
	}
}

func (a *Adapter) setID(id string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.id = id
}

// findEndpoints reads the endpoints that match a filter. hcn fails whole when
// one vanishes between its listing and its reading: that is tried again.
func (a *Adapter) findEndpoints(ctx context.Context, op, filter string) ([]endpoint, error) {
	var last error
	for range attempts {
		found, err := call(ctx, a.worker, op, func() ([]endpoint, error) { return a.service.endpoints(filter) })
		if !vanished(err) {
			a.forgetNetwork(err)
			return found, err
		}
		last = err
	}
	return nil, fmt.Errorf("an endpoint vanished in each of %d reads: %w", attempts, last)
}

// findEndpoint reads one endpoint, in whatever state it is.
func (a *Adapter) findEndpoint(ctx context.Context, id string) (endpoint, error) {
	found, err := a.findEndpoints(ctx, hns.OpEndpointGet, filter("ID", id))
	if vanished(err) { // and nothing else: HNS knows its ID and says that it is gone
		return endpoint{}, fmt.Errorf("%w: %w", errNoEndpoint, err)
	}
	if err != nil {
		return endpoint{}, err
	}
	for _, e := range found {
		if strings.EqualFold(e.id, id) {
			return e, nil
		}
	}
	return endpoint{}, errNoEndpoint
}
