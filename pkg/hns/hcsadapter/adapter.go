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

// defaultDeadline is used if Options have no deadline: calls of 65 s were seen on healthy nodes.
const defaultDeadline = 2 * time.Minute

// attempts is how often an endpoint is read that HNS lists and does not find.
const attempts = 5

// Options say which network of this node the client uses.
type Options struct {
	// Network is its name, in the letter case of HNS; "" is for Found.
	Network string
	// Deadline is the time limit of one call to HNS: a read of an object, an enumeration or a
	// write. 0 means 2 minutes.
	Deadline time.Duration
	// Now is the clock of Found. An Adapter does not use it.
	Now func() time.Time
}

// Adapter is the hns.Client of one network of a Windows node. It is safe for concurrent use. All
// Adapters of a process must share a worker, which makes one call to HNS at a time.
type Adapter struct {
	network string // name
	service service
	worker  *worker

	mu      sync.Mutex       // guards the fields below
	id      string           // of the network, as last read; empty if unknown
	foreign map[string]bool  // lower-case IDs of networks that are known to be others
	holds   map[string]*held // by the lower-case ID of the endpoint
}

var _ hns.Client = (*Adapter)(nil)

func newAdapter(o Options, l library) *Adapter {
	return adapterOf(o.Network, l, newWorker(cmp.Or(o.Deadline, defaultDeadline)))
}

// adapterOf returns the adapter of a network. Several adapters may share a worker.
func adapterOf(network string, l library, w *worker) *Adapter {
	return &Adapter{
		network: network,
		service: service{l},
		worker:  w,
		foreign: map[string]bool{},
		holds:   map[string]*held{},
	}
}

// Healthy returns an error while a call to HNS is past its deadline. The error names the call and
// its time. Healthy never waits.
func (a *Adapter) Healthy() error { return a.worker.health() }

// Close ends the adapter: calls that have not begun fail with ErrUnavailable, and the worker ends
// after its current call. Close does not wait, and may be called more than once.
func (a *Adapter) Close() { a.worker.shut() }

// OnlyOf implements Client. It has no effect, because the network is selected by name.
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
