// Package hnssim is a strict simulator of the Windows Host Networking Service: an hns.Client with a packet
// tracer. It rejects the requests that HNS rejects, and silently accepts those that HNS silently accepts.
//
// If HNS is undocumented, the simulator is stricter: a request that it accepts should succeed on Windows,
// but not vice versa. It never fails at random; test/hnsfault injects faults through Hooks.
//
// All methods are safe for concurrent use, and no slice is shared with callers.
package hnssim

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sync"

	"github.com/winnpm/winnpm/pkg/hns"
)

// Options configure the simulated node.
type Options struct {
	// Network is the name of our network; empty means DefaultNetwork.
	Network string
	// ID is the GUID of our network; empty means a fixed one.
	ID string
	// Foreign are the policies that the CNI puts on every endpoint that is
	// created without policies of its own; see DefaultForeign.
	Foreign []hns.EndpointPolicy
}

// DefaultNetwork is the name of the network if Options.Network is empty.
const DefaultNetwork = "azure"

// networkID is the GUID of the network if Options.ID is empty.
const networkID = "5c1d0d2e-7a53-4d2b-9a60-0f6c9e0f1a11"

// Sim is one simulated node. It implements hns.Client. Its other methods act on behalf of other programs of
// the node, or return its state.
type Sim struct {
	network string
	id      string // of the network
	foreign []hns.EndpointPolicy

	mu        sync.Mutex // guards everything below
	sets      map[string]*set
	names     map[string]*set // by Name: HNS matches existing sets by it
	endpoints map[string]*endpoint
	shared    map[policyText]policy // parsed policies
	hooks     Hooks
	counts    map[string]int // of calls, by Op
	written   int            // bytes of the content of all requests
}

var _ hns.Client = (*Sim)(nil)

// New returns a node with an empty network and no endpoints.
func New(o Options) *Sim {
	return &Sim{
		network:   cmp.Or(o.Network, DefaultNetwork),
		id:        cmp.Or(o.ID, networkID),
		foreign:   clonePolicies(o.Foreign),
		sets:      map[string]*set{},
		names:     map[string]*set{},
		endpoints: map[string]*endpoint{},
		shared:    map[policyText]policy{},
		counts:    map[string]int{},
	}
}

// DefaultForeign returns the policies that azure-cni puts on an endpoint, as HNS returns them: the wire
// server is blocked, everything else is open (AgentBaker azurecnifunc.ps1:219-284; read-back as in
// azure-container-networking#1752).
func DefaultForeign() []hns.EndpointPolicy {
	texts := []string{
		`{"Action":"Block","Direction":"Out","Priority":200,"Protocols":"6","RemoteAddresses":"168.63.129.16/32","RemotePorts":"80","RuleType":"Switch","Scope":0,"Type":"ACL"}`,
		`{"Action":"Block","Direction":"Out","Priority":200,"Protocols":"6","RemoteAddresses":"168.63.129.16/32","RemotePorts":"32526","RuleType":"Switch","Scope":0,"Type":"ACL"}`,
		`{"Action":"Allow","Direction":"In","Priority":65500,"Protocols":"256","RuleType":"Switch","Scope":0,"Type":"ACL"}`,
		`{"Action":"Allow","Direction":"Out","Priority":65500,"Protocols":"256","RuleType":"Switch","Scope":0,"Type":"ACL"}`,
	}
	out := make([]hns.EndpointPolicy, len(texts))
	for i, text := range texts {
		out[i] = hns.EndpointPolicy{Type: hns.PolicyTypeACL, Settings: []byte(text)}
	}
	return out
}

// Network implements hns.Client.
func (s *Sim) Network(ctx context.Context) (hns.Network, error) {
	var out hns.Network
	err := s.call(ctx, Call{Op: hns.OpNetworkGet, Target: s.network}, func(Call, bool) error {
		out = hns.Network{ID: s.id, Name: s.network, Sets: s.setsLocked()}
		return nil
	})
	return s.shown(hns.OpNetworkGet, hns.Result{Network: out, Err: err}).Network, err
}

// Sets returns the sets of the network, sorted by name.
func (s *Sim) Sets() []hns.SetPolicy {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.setsLocked()
}

// setsLocked returns copies of all sets, sorted by name; s.mu must be held.
func (s *Sim) setsLocked() []hns.SetPolicy {
	out := make([]hns.SetPolicy, 0, len(s.sets))
	for _, name := range slices.Sorted(maps.Keys(s.names)) {
		out = append(out, cloneSet(s.names[name].SetPolicy))
	}
	return out
}

func cloneSet(p hns.SetPolicy) hns.SetPolicy {
	p.Values = slices.Clone(p.Values)
	return p
}

func cloneSets(in []hns.SetPolicy) []hns.SetPolicy {
	out := make([]hns.SetPolicy, len(in))
	for i, p := range in {
		out[i] = cloneSet(p)
	}
	return out
}

func clonePolicies(in []hns.EndpointPolicy) []hns.EndpointPolicy {
	out := make([]hns.EndpointPolicy, len(in))
	for i, p := range in {
		out[i] = hns.EndpointPolicy{Type: p.Type, Settings: slices.Clone(p.Settings)}
	}
	return out
}
