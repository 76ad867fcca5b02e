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

// Client is the hns.Client of a Windows node, with what only the real one tells.
type Client interface {
	hns.Client
	Healthy() error
	// OnlyOf has networks count from now on by the endpoints with an address of which is
	// says that a pod of this node has it. It may be called during any other call.
	OnlyOf(is func(netip.Addr) bool)
	Close()
}

var (
	_ Client = (*Adapter)(nil)
	_ Client = (*Found)(nil)
)

// How often networks are looked for beside those that are known, as a CNI may make another
// one at any time: with a list of the endpoints, and while a pod that starts looks for its
// own. Whoever starts pods costs no more than that.
const (
	seldomLook = 10 * time.Second
	oftenLook  = time.Second
)

// Found is the client of all networks that pods of the node have, where none is named. Of
// most nodes that is one, and then Found is its Adapter. Of several each has every set, as a
// rule sees those of its own network alone: a set that they do not agree on is shown as
// nobody wants it, so that it is written again.
type Found struct {
	library library
	worker  *worker
	now     func() time.Time
	node    *Adapter // of "azure", which may not be there; asks also for what is of no network

	mu     sync.Mutex // guards following; held for no call
	on     []*member  // in the order of their names; none: not found
	where  map[string]*member
	looked time.Time             // when networks were last looked for
	isPod  func(netip.Addr) bool // nil: every endpoint of this node counts

	sets sync.Mutex // held for a read or a write of sets, so that member.sets follows their order
}

// member is one of the networks.
type member struct {
	*Adapter
	sets map[string]bool // Ids of those that it has, as last read or written; guarded by Found.sets
}

func newFound(o Options, l library) *Found {
	w := newWorker(cmp.Or(o.Deadline, defaultDeadline))
	return &Found{library: l, worker: w, now: o.Now, node: adapterOf(usualNetwork, l, w), where: map[string]*member{}}
}

// Healthy is Adapter.Healthy.
func (f *Found) Healthy() error { return f.node.Healthy() }

// Close is Adapter.Close.
func (f *Found) Close() { f.node.Close() }

// OnlyOf implements Client. Networks that are known have to show that they count.
func (f *Found) OnlyOf(is func(netip.Addr) bool) {
	f.mu.Lock()
	f.isPod = is
	f.mu.Unlock()
	f.set(nil)
}

// Network implements hns.Client. The sets are those that all networks have alike; the name
// and the ID are those of all of them.
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

// look finds the networks of the pods. One that was found stays while it is there, with pods
// or without. Where nobody says which addresses are those of pods, a network with sets of
// ours counts too: whoever takes them away looks for it.
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

// lookAnew looks for networks beside those that are known, unless it was done lately. What
// fails is asked again by the next call that needs a network. It reports whether it found others.
func (f *Found) lookAnew(ctx context.Context, pause time.Duration) bool {
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

// set takes networks in place of those before, and forgets which endpoints were read in others.
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

// members returns the networks, which are found if they were not.
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
	f.lookAnew(ctx, seldomLook)
	on, err := f.members(ctx)
	if err != nil {
		return nil, unavailableOf(hns.OpEndpointIDs, hns.KindNetwork, "", err)
	}
	return on[0].EndpointIDs(ctx) // they are of any network
}

// NewEndpointIDs implements hns.Client. They are of any network, and need none. Whoever asks
// looks for the endpoint of a pod, which may be on a network that nobody knows.
func (f *Found) NewEndpointIDs(ctx context.Context) ([]string, error) {
	f.lookAnew(ctx, oftenLook)
	return f.node.NewEndpointIDs(ctx)
}

// GetEndpoint implements hns.Client. It is elsewhere when it is so for each network, also for one
// that a CNI has made since networks were looked for.
func (f *Found) GetEndpoint(ctx context.Context, id string) (hns.Endpoint, error) {
	e, err := f.getEndpoint(ctx, id)
	if errors.Is(err, hns.ErrElsewhere) && f.lookAnew(ctx, oftenLook) {
		return f.getEndpoint(ctx, id)
	}
	return e, err
}

func (f *Found) getEndpoint(ctx context.Context, id string) (hns.Endpoint, error) {
	on, err := f.members(ctx)
	if err != nil {
		return hns.Endpoint{}, unavailableOf(hns.OpEndpointGet, hns.KindEndpoint, id, err)
	}
	if m := f.of(id); m != nil { // where it was last
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

// of returns the network in which an endpoint was read last; nil: none.
func (f *Found) of(id string) *member {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.where[strings.ToLower(id)]
}

// owner returns the client of an endpoint. Nobody writes to one that was not read.
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

// unavailableOf returns the error of a call that could not begin, as no network is known.
func unavailableOf(op, kind, id string, err error) error {
	return &hns.OpError{Op: op, Kind: kind, ID: id, Code: codeOf(err), Err: unread(err)}
}
