package recorder

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"

	"sigs.k8s.io/network-policy-api/apis/v1alpha2"

	"github.com/winnpm/winnpm/pkg/dataplane"
	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/pkg/state"
)

// maxKept is the number of values of a set, or of policies of an endpoint, from
// which on they are left out.
const maxKept = 256

// About how much memory things take, without their texts.
const (
	stepBytes     = 512
	callBytes     = 320
	eventBytes    = 160
	podBytes      = 256
	labelBytes    = 64
	policyBytes   = 512
	specFactor    = 4 // of a spec in memory to the same as protobuf
	clusterFactor = 2 // of a ClusterNetworkPolicy in memory to the same as JSON
	setBytes      = 160
	valueBytes    = 32
	aclBytes      = 320
	settingsBytes = 48
	endpointBytes = 192
	warningBytes  = 256
	errorBytes    = 256
)

func reportBytes(r state.Report) int {
	return stepBytes + errorBytes*len(r.Errors) + errorBytes*len(r.Repairs) + 128*len(r.NewEndpoints) + 128*len(r.Starts) + len(r.Plan)
}

// eventsOf returns the objects of a transaction in order, and about what they
// take. The dataplane never changes what it was given, so they are shared.
func eventsOf(tx *dataplane.Transaction) ([]Event, int) {
	events := make([]Event, 0, tx.Len())
	size := 0
	add := func(e Event, deleted bool, bytes int) {
		e.Operation = Set
		if deleted {
			e.Operation = Delete
		}
		events = append(events, e)
		size += eventBytes + len(e.Object) + bytes
	}
	for name, ns := range tx.Namespaces() {
		n := 0
		if ns != nil {
			n = labelsBytes(ns.Labels)
		}
		add(Event{Kind: KindNamespace, Object: name, Namespace: ns}, ns == nil, n)
	}
	if addrs, said := tx.NodeAddrs(); said {
		add(Event{Kind: KindNode, NodeAddrs: addrs}, false, valueBytes*len(addrs))
	}
	for key, p := range tx.Pods() {
		n := 0
		if p != nil {
			n = podBytes + labelsBytes(p.Labels) + valueBytes*len(p.Ports)
		}
		add(Event{Kind: KindPod, Object: key.String(), Pod: p, Finished: tx.FinishedPod(key)}, p == nil, n)
	}
	for key, np := range tx.Policies() {
		e, n := Event{Kind: KindPolicy, Object: key.String()}, 0
		if np != nil {
			e.Policy = &Policy{Namespace: np.Namespace, Name: np.Name, UID: string(np.UID), Spec: np.Spec}
			n = policyBytes + specFactor*np.Spec.Size()
		}
		add(e, np == nil, n)
	}
	for name, cnp := range tx.ClusterPolicies() {
		e, n := Event{Kind: KindClusterPolicy, Object: name}, 0
		if cnp != nil {
			e.ClusterPolicy = &ClusterPolicy{Name: cnp.Name, UID: string(cnp.UID), Spec: cnp.Spec}
			n = policyBytes + clusterFactor*textOf(cnp.Spec)
		}
		add(e, cnp == nil, n)
	}
	for name, node := range tx.Nodes() {
		n := 0
		if node != nil {
			n = labelsBytes(node.Labels) + valueBytes*len(node.Addrs)
		}
		add(Event{Kind: KindClusterNode, Object: name, ClusterNode: node}, node == nil, n)
	}
	slices.SortFunc(events, func(a, b Event) int { return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Object, b.Object)) })
	return events, size
}

// textOf returns the size of a spec as JSON. Whoever writes such policies is no tenant, so
// there are few of them.
func textOf(spec v1alpha2.ClusterNetworkPolicySpec) int {
	text, err := json.Marshal(spec)
	if err != nil { // a spec is strings and numbers
		return 0
	}
	return len(text)
}

func labelsBytes(labels map[string]string) int {
	n := 0
	for k, v := range labels {
		n += labelBytes + len(k) + len(v)
	}
	return n
}

// newError returns what is kept of an error, nil for none.
func newError(err error) *Error {
	if err == nil {
		return nil
	}
	e := &Error{Message: fmt.Sprintf("%.1000s", err.Error())}
	for _, class := range []error{
		hns.ErrNotFound, hns.ErrAlreadyExists, hns.ErrInUse, hns.ErrConflict, hns.ErrInvalid, hns.ErrElsewhere, hns.ErrUnlisted, hns.ErrUnavailable,
	} {
		if errors.Is(err, class) {
			e.Class = class.Error()
			break
		}
	}
	if op := (*hns.OpError)(nil); errors.As(err, &op) {
		e.Op, e.Kind, e.ID, e.Code = op.Op, op.Kind, op.ID, op.Code
	}
	return e
}

// keepSets fills in what is sent. It returns about what it takes.
func (c *Call) keepSets(sets []hns.SetPolicy) int {
	size := 0
	c.Count = len(sets)
	c.Sets = make([]SetValue, len(sets))
	for i, s := range sets {
		v := newSetValue(s)
		c.Sets[i] = v
		c.Cut = c.Cut || v.Values == nil
		size += v.size()
	}
	return size
}

func (c *Call) keepACLs(acls []hns.ACL) int {
	c.Count = len(acls)
	if len(acls) > maxKept {
		policies := make([]hns.EndpointPolicy, len(acls))
		for i, a := range acls {
			policies[i] = hns.NewACLPolicy(a)
		}
		c.Cut, c.Digest = true, digestPolicies(policies)
		return 0
	}
	c.ACLs = slices.Clone(acls)
	size := aclBytes * len(acls)
	for _, a := range acls {
		size += len(a.LocalAddresses) + len(a.RemoteAddresses)
	}
	return size
}

func (c *Call) keepPolicies(policies []hns.EndpointPolicy) int {
	c.Count = len(policies)
	kept, size := clonePolicies(policies)
	if kept == nil {
		c.Cut, c.Digest = true, digestPolicies(policies)
	}
	c.Policies = kept
	return size
}

// clonePolicies returns a copy, and about what it takes; nil when it would be
// too long, or when it could not be written as JSON.
func clonePolicies(policies []hns.EndpointPolicy) ([]hns.EndpointPolicy, int) {
	if len(policies) > maxKept {
		return nil, 0
	}
	out, size := make([]hns.EndpointPolicy, len(policies)), 0
	for i, p := range policies {
		if !json.Valid(p.Settings) {
			return nil, 0
		}
		out[i] = hns.EndpointPolicy{Type: p.Type, Settings: bytes.Clone(p.Settings)}
		size += settingsBytes + len(p.Settings)
	}
	return out, size
}

// digestPolicies is a digest of policies in their order.
func digestPolicies(policies []hns.EndpointPolicy) string {
	texts := make([]string, len(policies))
	for i, p := range policies {
		texts[i] = p.Type + " " + string(p.Settings)
	}
	return digest(texts)
}

func newSetValue(s hns.SetPolicy) SetValue {
	v := SetValue{ID: s.ID, Name: s.Name, Type: s.Type, Count: len(s.Values)}
	if v.Count > maxKept {
		v.Digest = digestValues(s.Values)
		return v
	}
	v.Values = append([]string{}, s.Values...)
	return v
}

// digestValues is a digest of values in any order.
func digestValues(values []string) string {
	if !slices.IsSorted(values) {
		values = slices.Sorted(slices.Values(values))
	}
	return digest(values)
}

func digest(texts []string) string {
	h := sha256.New()
	for _, text := range texts {
		_, _ = fmt.Fprintf(h, "%d:%s\n", len(text), text) // a hash takes everything
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}

func (v SetValue) size() int {
	return setBytes + len(v.ID) + len(v.Name) + textBytes(v.Values)
}

// is reports whether the value is that of a set.
func (v SetValue) is(s hns.SetPolicy) bool {
	return v.ID == s.ID && v.Name == s.Name && v.Type == s.Type && v.Count == len(s.Values) &&
		(v.Values != nil && slices.Equal(v.Values, s.Values) || v.Values == nil && v.Digest == digestValues(s.Values))
}

// is reports whether the value is that of an endpoint, byte for byte.
func (v EndpointValue) is(e hns.Endpoint) bool {
	if v.ID != e.ID || !slices.Equal(v.Addrs, e.Addrs) || v.Netns != e.Netns || v.Count != len(e.Policies) {
		return false
	}
	if v.Policies == nil {
		return v.Version == e.Version()
	}
	return slices.EqualFunc(v.Policies, e.Policies, hns.EndpointPolicy.Equal)
}

// seen has each set, each endpoint and the GUIDs as they were last read, so that
// what is read again and again is in memory once.
type seen struct {
	maxIDs    int        // of a list of endpoints that is kept
	mu        sync.Mutex // guards following; held for one of them at a time
	sets      map[string]SetValue
	endpoints map[string]EndpointValue
	ids       []string
}

func newSeen(maxIDs int) *seen {
	return &seen{maxIDs: maxIDs, sets: map[string]SetValue{}, endpoints: map[string]EndpointValue{}}
}

// keepNetwork fills in what was read.
func (s *seen) keepNetwork(c *Call, n hns.Network) (own, shared int) {
	c.Count = len(n.Sets)
	c.Network = &NetworkValue{ID: n.ID, Name: n.Name, Sets: make([]SetValue, len(n.Sets))}
	for i, p := range n.Sets {
		v, more := s.set(p)
		c.Network.Sets[i] = v
		c.Cut = c.Cut || v.Values == nil
		own, shared = own+setBytes, shared+more
	}
	return own, shared
}

func (s *seen) set(p hns.SetPolicy) (SetValue, int) {
	s.mu.Lock()
	was := s.sets[p.ID]
	s.mu.Unlock()
	if was.is(p) {
		return was, 0
	}
	v := newSetValue(p)
	s.mu.Lock()
	s.sets[p.ID] = v
	s.mu.Unlock()
	return v, v.size()
}

// keepIDs fills in what was read.
func (s *seen) keepIDs(c *Call, ids []string) (own, shared int) {
	c.Count = len(ids)
	if len(ids) > s.maxIDs {
		c.Cut, c.Digest = true, digestValues(ids)
		return 0, 0
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !slices.Equal(s.ids, ids) {
		s.ids = slices.Clone(ids)
		shared = textBytes(ids)
	}
	c.IDs = s.ids
	return 0, shared
}

// textBytes is about what texts take.
func textBytes(texts []string) int {
	size := 0
	for _, text := range texts {
		size += valueBytes + len(text)
	}
	return size
}

// keepEndpoint fills in what was read.
func (s *seen) keepEndpoint(c *Call, e hns.Endpoint) (own, shared int) {
	v, shared := s.endpoint(e)
	c.Count, c.Endpoints, c.Cut = 1, []EndpointValue{v}, v.Policies == nil
	return endpointBytes, shared
}

func (s *seen) endpoint(e hns.Endpoint) (EndpointValue, int) {
	s.mu.Lock()
	was := s.endpoints[e.ID]
	s.mu.Unlock()
	if was.ID != "" && was.is(e) {
		return was, 0
	}
	v := EndpointValue{ID: e.ID, Addrs: slices.Clone(e.Addrs), Netns: e.Netns, Count: len(e.Policies), Version: e.Version()}
	policies, size := clonePolicies(e.Policies)
	v.Policies = policies
	s.mu.Lock()
	s.endpoints[e.ID] = v
	s.mu.Unlock()
	return v, endpointBytes + size
}
