package hcsadapter

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/winnpm/winnpm/pkg/hns"
)

// Errors of a read to which HNS answered that there is no such object.
var (
	errNoNetwork  = errors.New("HNS has no network of this name")
	errNoEndpoint = errors.New("HNS has no endpoint of this ID")
)

// networkID returns the last known ID of our network. It reads the network if the ID is unknown.
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

// findNetwork reads our network and updates its ID, which changes when the network is deleted and
// created again.
func (a *Adapter) findNetwork(ctx context.Context) (network, error) {
	found, err := call(ctx, a.worker, hns.OpNetworkGet, func() ([]network, error) {
		return a.service.networks(filter("Name", a.network), func(n network) bool { return n.Name == a.network })
	})
	switch {
	case err != nil:
		a.forgetNetwork(err)
		return network{}, err
	case len(found) == 0:
		a.setID("")
		return network{}, errNoNetwork
	}
	a.setID(found[0].ID)
	return found[0], nil
}

// forgetNetwork forgets the ID of our network if an error says that there is no network with this
// ID any more.
func (a *Adapter) forgetNetwork(err error) {
	if codeOf(err) == codeNetworkNotFound {
		a.setID("")
	}
}

// setID sets the ID of our network, "" if it is unknown. When the ID changes, it forgets which
// networks are foreign.
func (a *Adapter) setID(id string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if id != a.id {
		a.id, a.foreign = id, map[string]bool{}
	}
}

// checkLocal returns ErrElsewhere for an endpoint that is remote or of another network, and
// ErrUnavailable if our network cannot be read. An endpoint without a network is still being
// created; that is a failure of its own.
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
	if !strings.EqualFold(its, ours) && !foreign { // our network may have been created again
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

// endpointIDs returns the GUIDs of the endpoints that match a filter. op names the call in the
// error of Healthy.
func (a *Adapter) endpointIDs(ctx context.Context, op, filter string) ([]string, error) {
	ids, err := call(ctx, a.worker, op, func() ([]string, error) {
		return a.service.ids(kindEndpoint, filter)
	})
	a.forgetNetwork(err)
	return ids, err
}

// findEndpoint reads one endpoint in any state. It returns errNoEndpoint if HNS neither finds nor
// lists the endpoint. The code of the read alone does not decide, because "element not found" may
// be about any object. If HNS lists the endpoint, findEndpoint reads it again, and returns
// errNoEndpoint if all attempts fail, because then the endpoint can neither be read nor written.
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
		case vanished(err): // may be about any object, and tells nothing about the list
		case err != nil:
			return endpoint{}, err
		case !slices.ContainsFunc(listed, func(other string) bool { return strings.EqualFold(other, id) }):
			return endpoint{}, fmt.Errorf("%w: %w", errNoEndpoint, last)
		}
	}
	return endpoint{}, fmt.Errorf("%w: %w", errNoEndpoint, last)
}
