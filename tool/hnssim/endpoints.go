package hnssim

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/netip"
	"slices"

	"github.com/winnpm/winnpm/pkg/hns"
)

// EndpointState is the state of an endpoint (hcsshim HNSEndpoint.State).
type EndpointState uint8

// The states of HNS.
const (
	Uninitialized EndpointState = iota
	Created
	Attached        // L1VH and Hyper-V pods
	AttachedSharing // process isolated pods
	Detached
	Degraded
	Destroyed
)

var stateNames = [...]string{"Uninitialized", "Created", "Attached", "AttachedSharing", "Detached", "Degraded", "Destroyed"}

// String returns the name that HNS uses.
func (s EndpointState) String() string {
	if int(s) < len(stateNames) {
		return stateNames[s]
	}
	return fmt.Sprintf("EndpointState(%d)", s)
}

func (s EndpointState) attached() bool { return s == Attached || s == AttachedSharing }

// SimEndpoint describes an endpoint: one that the CNI creates, or a copy of a simulated one.
type SimEndpoint struct {
	ID       string // not empty
	Addrs    []netip.Addr
	Netns    string               // GUID of the HNS namespace that it is in, or empty
	State    EndpointState        // 0 in CreateEndpoint: AttachedSharing
	Remote   bool                 // an endpoint of kube-proxy for a pod on another node
	Network  string               // empty in CreateEndpoint: ours
	Policies []hns.EndpointPolicy // as read back; nil in CreateEndpoint: Options.Foreign
}

// endpoint is one endpoint of the node.
type endpoint struct {
	SimEndpoint          // without Policies
	policies    []policy // changed by setPolicies only
}

// setPolicies replaces the policies and updates the reference counts of sets.
func (e *endpoint) setPolicies(next []policy) {
	for _, p := range next {
		p.count(+1)
	}
	for _, p := range e.policies {
		p.count(-1)
	}
	e.policies = next
}

// count adds n to the reference count of every set that the policy names.
func (p policy) count(n int) {
	if p.rule == nil {
		return
	}
	for _, at := range p.rule.sets {
		at.acls += n
	}
}

// read returns the endpoint's policies as HNS returns them.
func (e *endpoint) read() []hns.EndpointPolicy {
	out := make([]hns.EndpointPolicy, len(e.policies))
	for i, p := range e.policies {
		out[i] = p.read
	}
	return clonePolicies(out)
}

// CreateEndpoint creates an endpoint, as the CNI does.
func (s *Sim) CreateEndpoint(n SimEndpoint) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	policies := n.Policies
	if policies == nil {
		policies = s.foreign
	}
	n.Addrs, n.Policies = slices.Clone(n.Addrs), nil
	n.State, n.Network = cmp.Or(n.State, AttachedSharing), cmp.Or(n.Network, s.network)
	e := &endpoint{SimEndpoint: n}
	switch {
	case n.ID == "":
		return fmt.Errorf("hnssim: create an endpoint without ID: %w", hns.ErrInvalid)
	case s.endpoints[n.ID] != nil:
		return fmt.Errorf("hnssim: create endpoint %s: %w", n.ID, hns.ErrAlreadyExists)
	case slices.Contains(n.Addrs, netip.Addr{}):
		return fmt.Errorf("hnssim: create endpoint %s with a zero address: %w", n.ID, hns.ErrInvalid)
	}
	next, r := s.readPolicies(e, policies)
	if r != nil {
		return fmt.Errorf("hnssim: create endpoint %s: %w", n.ID, r)
	}
	e.setPolicies(next)
	s.endpoints[n.ID] = e
	s.wrote("CreateEndpoint", n.ID)
	return nil
}

// DeleteEndpoint deletes an endpoint with its policies.
func (s *Sim) DeleteEndpoint(id string) error {
	return s.change("DeleteEndpoint", id, func(e *endpoint) *refused {
		e.setPolicies(nil)
		delete(s.endpoints, e.ID)
		return nil
	})
}

// SetState moves an endpoint to another state.
func (s *Sim) SetState(id string, state EndpointState) error {
	return s.change("SetState", id, func(e *endpoint) *refused {
		e.State = state
		return nil
	})
}

// SetNetns puts an endpoint into an HNS namespace, as the CNI does; "" takes it out.
func (s *Sim) SetNetns(id, netns string) error {
	return s.change("SetNetns", id, func(e *endpoint) *refused {
		e.Netns = netns
		return nil
	})
}

// SetPolicies replaces all policies of an endpoint in any state, on behalf of another program of the node.
func (s *Sim) SetPolicies(id string, policies []hns.EndpointPolicy) error {
	return s.change("SetPolicies", id, func(e *endpoint) *refused {
		next, r := s.readPolicies(e, policies)
		if r == nil {
			e.setPolicies(next)
		}
		return r
	})
}

// change changes an endpoint on behalf of another program of the node; op is the name of the calling method.
func (s *Sim) change(op, id string, do func(*endpoint) *refused) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.endpoints[id]
	if e == nil {
		return fmt.Errorf("hnssim: change an endpoint: %w", endpointMissing.of(id))
	}
	if r := do(e); r != nil {
		return fmt.Errorf("hnssim: change endpoint %s: %w", id, r)
	}
	s.wrote(op, id)
	return nil
}

// Endpoints returns all endpoints of the node, sorted by ID.
func (s *Sim) Endpoints() []SimEndpoint {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []SimEndpoint
	for _, id := range slices.Sorted(maps.Keys(s.endpoints)) {
		out = append(out, s.endpoints[id].view())
	}
	return out
}

// AllEndpointIDs returns the GUIDs of all endpoints of the node, sorted. It does not count as a call.
func (s *Sim) AllEndpointIDs() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Sorted(maps.Keys(s.endpoints))
}

// Endpoint returns one endpoint of the node, and false if it does not exist.
func (s *Sim) Endpoint(id string) (SimEndpoint, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.endpoints[id]
	if e == nil {
		return SimEndpoint{}, false
	}
	return e.view(), true
}

// view returns a copy of the endpoint; Sim.mu must be held.
func (e *endpoint) view() SimEndpoint {
	out := e.SimEndpoint
	out.Addrs, out.Policies = slices.Clone(e.Addrs), e.read()
	return out
}

// EndpointIDs implements hns.Client.
func (s *Sim) EndpointIDs(ctx context.Context) ([]string, error) {
	return s.enumerate(ctx, hns.OpEndpointIDs, EndpointState.attached)
}

// NewEndpointIDs implements hns.Client.
func (s *Sim) NewEndpointIDs(ctx context.Context) ([]string, error) {
	return s.enumerate(ctx, hns.OpEndpointNew, func(is EndpointState) bool { return is == Created })
}

func (s *Sim) enumerate(ctx context.Context, op string, in func(EndpointState) bool) ([]string, error) {
	var out []string
	err := s.call(ctx, Call{Op: op, Target: s.network}, func(Call, bool) error {
		out = nil // a hook may ask first whether the request would be refused
		for _, id := range slices.Sorted(maps.Keys(s.endpoints)) {
			if e := s.endpoints[id]; in(e.State) && e.Network == s.network {
				out = append(out, id)
			}
		}
		return nil
	})
	return s.shown(op, hns.Result{IDs: out, Err: err}).IDs, err
}

// GetEndpoint implements hns.Client.
func (s *Sim) GetEndpoint(ctx context.Context, id string) (hns.Endpoint, error) {
	var out hns.Endpoint
	err := s.call(ctx, Call{Op: hns.OpEndpointGet, Target: id}, func(c Call, _ bool) error {
		e := s.endpoints[c.Target]
		switch {
		case e == nil:
			return endpointMissing.of(id).in(c)
		case e.Remote || e.Network != s.network:
			return &hns.OpError{Op: hns.OpEndpointGet, Kind: hns.KindEndpoint, ID: id, Err: hns.ErrElsewhere}
		}
		out = hns.Endpoint{ID: e.ID, Addrs: slices.Clone(e.Addrs), Netns: e.Netns, Policies: e.read()}
		return nil
	})
	return s.shown(hns.OpEndpointGet, hns.Result{Endpoint: out, Err: err}).Endpoint, err
}

// AddACLs implements hns.Client.
func (s *Sim) AddACLs(ctx context.Context, id string, acls []hns.ACL) error {
	return s.call(ctx, Call{Op: hns.OpACLAdd, Target: id, ACLs: slices.Clone(acls)}, func(c Call, dry bool) error {
		e, r := s.writable(c.Target)
		if r == nil && len(c.ACLs) == 0 {
			r = emptyRequest.of(string(hns.Add))
		}
		added := make([]policy, len(c.ACLs))
		for i := 0; r == nil && i < len(added); i++ {
			added[i], r = s.readPolicy(e, hns.NewACLPolicy(c.ACLs[i]))
		}
		if r != nil {
			return r.in(c)
		}
		if !dry {
			e.setPolicies(slices.Concat(e.policies, added))
			s.wrote(hns.OpACLAdd, c.Target)
		}
		return nil
	})
}

// ReplacePolicies implements hns.Client.
func (s *Sim) ReplacePolicies(ctx context.Context, id string, policies []hns.EndpointPolicy) error {
	c := Call{Op: hns.OpACLUpdate, Target: id, Policies: clonePolicies(policies)}
	return s.call(ctx, c, func(c Call, dry bool) error {
		e, r := s.writable(c.Target)
		var next []policy
		if r == nil {
			next, r = s.readPolicies(e, c.Policies)
		}
		if r != nil {
			return r.in(c)
		}
		if !dry {
			e.setPolicies(next)
			s.wrote(hns.OpACLUpdate, c.Target)
		}
		return nil
	})
}

// Hold implements hns.Client. The simulator has no handles.
func (s *Sim) Hold(context.Context, string) func() { return func() {} }

// writable finds the endpoint of a write; s.mu must be held.
func (s *Sim) writable(id string) (*endpoint, *refused) {
	e := s.endpoints[id]
	switch {
	case e == nil:
		return nil, endpointMissing.of(id)
	case e.Remote:
		return nil, endpointRemote.of(id)
	case !e.State.attached() && (!s.hooks.Early || e.State != Created):
		return nil, endpointNotAttached.of(fmt.Sprintf("%s is %v", id, e.State))
	}
	return e, nil
}

// readPolicies checks policies for an endpoint; s.mu must be held. The result does not alias the input.
func (s *Sim) readPolicies(e *endpoint, policies []hns.EndpointPolicy) ([]policy, *refused) {
	out := make([]policy, len(policies))
	for i, p := range policies {
		var r *refused
		if out[i], r = s.readPolicy(e, p); r != nil {
			return nil, r
		}
	}
	return out, nil
}

// lookup finds the sets of the endpoint's network; s.mu must be held while the
// result is used.
func (s *Sim) lookup(e *endpoint) lookup {
	return func(id string) *set {
		if e.Network != s.network {
			return nil
		}
		return s.sets[id]
	}
}
