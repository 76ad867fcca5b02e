package hcsadapter

import (
	"cmp"
	"context"
	"errors"
	"net/netip"
	"sync"
	"time"

	"github.com/winnpm/winnpm/pkg/hns"
)

// defaultDeadline is for Options that say nothing: calls of 65 s were seen on
// healthy nodes.
const defaultDeadline = 2 * time.Minute

// attempts is the number of reads of an endpoint that HNS lists and does not find.
const attempts = 5

// Options says which network of this node is ours.
type Options struct {
	// Network is its name, in the case that HNS has; "" is for Found.
	Network string
	// Deadline is that of one read of an object, one enumeration or one write,
	// from its start; 0: 2 minutes.
	Deadline time.Duration
	// Now is the clock of Found. An Adapter needs none.
	Now func() time.Time
}

// Adapter is the hns.Client of a Windows node. It is safe for concurrent use;
// calls to HNS are made one at a time. A process needs one and only one.
type Adapter struct {
	network string // name
	service service
	worker  *worker

	mu      sync.Mutex       // guards following
	id      string           // of the network, as last read; empty: not known
	foreign map[string]bool  // IDs, in small letters, of networks that were seen not to be it
	holds   map[string]*held // by the endpoint's ID in small letters
}

var _ hns.Client = (*Adapter)(nil)

func newAdapter(o Options, l library) *Adapter {
	return adapterOf(o.Network, l, newWorker(cmp.Or(o.Deadline, defaultDeadline)))
}

// adapterOf returns the adapter of a network, on a worker that others may use too.
func adapterOf(network string, l library, w *worker) *Adapter {
	return &Adapter{
		network: network,
		service: service{l},
		worker:  w,
		foreign: map[string]bool{},
		holds:   map[string]*held{},
	}
}

// Healthy returns an error while a call to HNS is past its deadline, which says
// which call and since when. It never waits.
func (a *Adapter) Healthy() error { return a.worker.health() }

// Close ends the adapter: calls that have not begun fail with ErrUnavailable,
// and the worker ends when it has no call. It does not wait, and may be called
// more than once.
func (a *Adapter) Close() { a.worker.shut() }

// OnlyOf implements Client. The name decides.
func (a *Adapter) OnlyOf(func(netip.Addr) bool) {}

// Network implements hns.Client.
func (a *Adapter) Network(ctx context.Context) (hns.Network, error) {
	n, err := a.findNetwork(ctx)
	if err == nil {
		return n.decode(), nil
	}
	class := unknown(err)
	switch code := codeOf(err); {
	case errors.Is(err, errNoNetwork), code == codeNetworkNotFound, code == codeElementNotFound:
		class = as(hns.ErrNotFound, err)
	}
	return hns.Network{}, &hns.OpError{Op: hns.OpNetworkGet, Kind: hns.KindNetwork, ID: a.network, Code: codeOf(err), Err: class}
}

// GetEndpoint implements hns.Client.
func (a *Adapter) GetEndpoint(ctx context.Context, id string) (hns.Endpoint, error) {
	e, err := a.findEndpoint(ctx, id)
	if err == nil {
		err = a.checkLocal(ctx, e)
	}
	var class error
	switch {
	case err == nil:
		return e.decode(), nil
	case errors.Is(err, errNoEndpoint):
		class = as(hns.ErrNotFound, err)
	case errors.Is(err, hns.ErrElsewhere):
		class = err
	default:
		class = unknown(err)
	}
	return hns.Endpoint{}, &hns.OpError{Op: hns.OpEndpointGet, Kind: hns.KindEndpoint, ID: id, Code: codeOf(err), Err: class}
}
