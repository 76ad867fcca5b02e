package hcsadapter

import (
	"cmp"
	"context"
	"errors"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/winnpm/winnpm/pkg/hns"
)

// Client is the hns.Client of a Windows node, with methods that only the client of a real HNS has.
type Client interface {
	hns.Client
	// Healthy returns an error while a call to HNS is past its deadline. It never waits.
	Healthy() error
	// OnlyOf selects the networks by a function that reports whether a pod of this node has an
	// address: from now on a network counts if it has an endpoint with the address of a pod. OnlyOf may
	// be called during any other call.
	OnlyOf(is func(netip.Addr) bool)
	// Close ends the client. It does not wait for a call in progress.
	Close()
}

var (
	_ Client = (*Adapter)(nil)
	_ Client = (*Found)(nil)
)

// A CNI may make another network at any time, so Found looks for networks again: every seldomLook
// when endpoints are enumerated, and every oftenLook while the endpoint of a starting pod is looked
// for. A tenant who starts pods cannot cause more looks than that.
const (
	seldomLook = 10 * time.Second
	oftenLook  = time.Second
)

// Found is the client of all networks that have pods of the node, if no network is named. Most
// nodes have one such network, and Found acts as its Adapter. With several networks, Found writes
// every set to each of them, because a rule can use only sets of its own network. If the networks
// disagree on a set, Found shows it with a value that is never desired, so that the set is written
// again.
type Found struct {
	library library
	worker  *worker
	now     func() time.Time
	node    *Adapter // of usualNetwork, which may not exist; also makes calls that concern no single network

	mu     sync.Mutex            // guards the fields below; not held during calls
	on     []*member             // the networks, sorted by name; empty until they are found
	where  map[string]*member    // by the lower-case ID of an endpoint: the network in which it was last read
	looked time.Time             // when networks were last looked for
	isPod  func(netip.Addr) bool // nil: every endpoint of this node counts

	sets sync.Mutex // held during each read or write of sets, so that member.sets is updated in the same order
}

// member is one of the networks.
type member struct {
	*Adapter
	sets map[string]bool // Ids of the sets in the network, as last read or written; guarded by Found.sets
}

func newFound(o Options, l library) *Found {
	w := newWorker(cmp.Or(o.Deadline, defaultDeadline))
	return &Found{library: l, worker: w, now: o.Now, node: adapterOf(usualNetwork, l, w), where: map[string]*member{}}
}

// Healthy is Adapter.Healthy.
func (f *Found) Healthy() error { return f.node.Healthy() }

// Close is Adapter.Close.
func (f *Found) Close() { f.node.Close() }

// OnlyOf implements Client. It forgets the known networks, so that the new condition applies to
// them too.
func (f *Found) OnlyOf(is func(netip.Addr) bool) {
	f.mu.Lock()
	f.isPod = is
	f.mu.Unlock()
	f.set(nil)
}

// Network implements hns.Client. It returns the merged sets of all networks; its name and ID
// consist of the names and IDs of all of them.
func (f *Found) Network(ctx context.Context) (hns.Network, error) {
	f.mu.Lock()
	known := f.on
	f.mu.Unlock()
	if len(known) > 0 {
		n, err := f.read(ctx, known)
		if !errors.Is(err, hns.ErrNotFound) {
			return n, err
		}
	}
	usual := &member{Adapter: f.node}
	n, err := f.read(ctx, []*member{usual})
	if err == nil {
		f.set([]*member{usual})
	}
	if !errors.Is(err, hns.ErrNotFound) {
		return n, err
	}
	on, err := f.look(ctx)
	switch {
	case errors.Is(err, errNoNetwork):
		return hns.Network{}, &hns.OpError{Op: hns.OpNetworkGet, Kind: hns.KindNetwork, ID: "of the pods", Err: as(hns.ErrNotFound, err)}
	case err != nil:
		return hns.Network{}, &hns.OpError{Op: hns.OpNetworkGet, Kind: hns.KindNetwork, ID: "of the pods", Code: codeOf(err), Err: unknown(err)}
	}
	return f.read(ctx, on)
}

// look finds the networks of the pods. A network that was found before remains while it exists,
// with or without pods. Without isPod, a network with our sets also counts, because an uninstall
// has to remove them.
func (f *Found) look(ctx context.Context) ([]*member, error) {
	f.mu.Lock()
	before, isPod := f.on, f.isPod
	f.looked = f.now()
	f.mu.Unlock()
	known := func(n network) bool {
		return isPod == nil && n.hasOurs() || slices.ContainsFunc(before, func(m *member) bool { return m.network == n.Name })
	}
	names, err := f.node.discover(ctx, known, func(e endpoint) bool { return isPod == nil || e.has(isPod) })
	if errors.Is(err, errNoNetwork) {
		f.set(nil)
	}
	if err != nil {
		return nil, err
	}
	on := make([]*member, len(names))
	for i, name := range names {
		if at := slices.IndexFunc(before, func(m *member) bool { return m.network == name }); at >= 0 {
			on[i] = before[at]
		} else {
			on[i] = &member{Adapter: adapterOf(name, f.library, f.worker)}
		}
	}
	f.set(on)
	return on, nil
}

// lookAgain looks for more networks, unless that was done less than pause ago. It reports whether
// the networks changed. It drops errors: the next call that needs a network meets them again.
func (f *Found) lookAgain(ctx context.Context, pause time.Duration) bool {
	f.mu.Lock()
	before := f.on
	due := f.isPod != nil && len(f.on) > 0 && f.on[0].network != usualNetwork && f.now().Sub(f.looked) >= pause
	f.mu.Unlock()
	if !due {
		return false
	}
	on, err := f.look(ctx)
	return err == nil && !slices.Equal(on, before)
}

// set replaces the networks. It forgets the endpoints of networks that are not among them.
func (f *Found) set(on []*member) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.on = on
	for id, m := range f.where {
		if !slices.Contains(on, m) {
			delete(f.where, id)
		}
	}
}

// members returns the networks. It looks for them if none was found yet.
func (f *Found) members(ctx context.Context) ([]*member, error) {
	f.mu.Lock()
	on := f.on
	f.mu.Unlock()
	if len(on) > 0 {
		return on, nil
	}
	if _, err := f.Network(ctx); err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.on) == 0 { // OnlyOf has just forgotten them
		return nil, errors.New("which networks count is being found out")
	}
	return f.on, nil
}

// EndpointIDs implements hns.Client.
func (f *Found) EndpointIDs(ctx context.Context) ([]string, error) {
	f.lookAgain(ctx, seldomLook)
	on, err := f.members(ctx)
	if err != nil {
		return nil, unavailableOf(hns.OpEndpointIDs, hns.KindNetwork, "", err)
	}
	return on[0].EndpointIDs(ctx) // returns endpoints of every network
}

// NewEndpointIDs implements hns.Client. It needs no network, and returns endpoints of every
// network. Its caller looks for the endpoint of a starting pod, which may be on a new network.
func (f *Found) NewEndpointIDs(ctx context.Context) ([]string, error) {
	f.lookAgain(ctx, oftenLook)
	return f.node.NewEndpointIDs(ctx)
}

// GetEndpoint implements hns.Client. It returns ErrElsewhere if no network has the endpoint, after
// a look for networks that a CNI may have made in the meantime.
func (f *Found) GetEndpoint(ctx context.Context, id string) (hns.Endpoint, error) {
	e, err := f.getEndpoint(ctx, id)
	if errors.Is(err, hns.ErrElsewhere) && f.lookAgain(ctx, oftenLook) {
		return f.getEndpoint(ctx, id)
	}
	return e, err
}

func (f *Found) getEndpoint(ctx context.Context, id string) (hns.Endpoint, error) {
	on, err := f.members(ctx)
	if err != nil {
		return hns.Endpoint{}, unavailableOf(hns.OpEndpointGet, hns.KindEndpoint, id, err)
	}
	if m := f.of(id); m != nil { // try its last known network first
		on = append([]*member{m}, slices.DeleteFunc(slices.Clone(on), func(o *member) bool { return o == m })...)
	}
	var e hns.Endpoint
	for _, m := range on {
		e, err = m.GetEndpoint(ctx, id)
		if errors.Is(err, hns.ErrElsewhere) {
			continue
		}
		f.mu.Lock()
		if delete(f.where, strings.ToLower(id)); err == nil {
			f.where[strings.ToLower(id)] = m
		}
		f.mu.Unlock()
		return e, err
	}
	return e, err
}

// of returns the network in which an endpoint was last read, or nil.
func (f *Found) of(id string) *member {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.where[strings.ToLower(id)]
}

// owner returns the client of an endpoint. An endpoint that was not read is not written, so any
// client will do for it.
func (f *Found) owner(id string) *Adapter {
	if m := f.of(id); m != nil {
		return m.Adapter
	}
	return f.node
}

// Hold implements hns.Client.
func (f *Found) Hold(ctx context.Context, id string) (release func()) {
	return f.owner(id).Hold(ctx, id)
}

// AddACLs implements hns.Client.
func (f *Found) AddACLs(ctx context.Context, id string, acls []hns.ACL) error {
	return f.owner(id).AddACLs(ctx, id, acls)
}

// ReplacePolicies implements hns.Client.
func (f *Found) ReplacePolicies(ctx context.Context, id string, list []hns.EndpointPolicy) error {
	return f.owner(id).ReplacePolicies(ctx, id, list)
}

// unavailableOf returns the error of a call that was not made because no network is known.
func unavailableOf(op, kind, id string, err error) error {
	return &hns.OpError{Op: op, Kind: kind, ID: id, Code: codeOf(err), Err: unread(err)}
}
