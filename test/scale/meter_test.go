package scale

import (
	"context"
	"encoding/json"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/test/hnsfault"
	"github.com/winnpm/winnpm/test/process"
	"github.com/winnpm/winnpm/tool/hnssim"
)

// start is where every fake clock begins.
var start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// meter is the simulator with a meter. It counts every call with its bytes, and lets fake
// time pass for each call of the DLLs. What the simulator and the meter themselves use is
// counted apart, so that it can be subtracted.
type meter struct {
	sim     *hnsfault.Sim
	latency time.Duration // of each call of the DLLs; changed between transactions only

	mu    sync.Mutex // guards following
	now   time.Time
	calls map[string]int
	dll   int // calls of the DLLs
	sent  int
	read  int
	used  usage
	took  time.Duration // by the clock of the wall
	// blocked is dll when the first block was on an endpoint, and sets how many
	// requests for sets there had been; 0: none is.
	blocked, sets int
	seen          func(what string, at time.Time) // told of every read that is over; may be nil
}

func newMeter() *meter {
	m := &meter{now: start, calls: map[string]int{}}
	m.sim = hnsfault.New(hnsfault.Options{Foreign: hnssim.DefaultForeign()})
	return m
}

// clock reads the fake clock.
func (m *meter) clock() time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.now
}

// pass moves the fake clock.
func (m *meter) pass(d time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.now = m.now.Add(d)
}

// counts is what was asked of HNS.
type counts struct {
	calls      map[string]int
	dll        int // calls of the DLLs
	sent, read int // bytes
}

// requests returns the number of all calls.
func (c counts) requests() int {
	n := 0
	for _, calls := range c.calls {
		n += calls
	}
	return n
}

// take returns what was counted, and begins anew.
func (m *meter) take() (counts, usage) {
	m.mu.Lock()
	defer m.mu.Unlock()
	out, used := counts{m.calls, m.dll, m.sent, m.read}, m.used
	m.calls, m.dll, m.sent, m.read, m.used, m.took = map[string]int{}, 0, 0, 0, usage{}, 0
	m.blocked, m.sets = 0, 0
	m.sim.ResetCalls() // it remembers what it was sent
	return out, used
}

// call makes one call. do returns the documents that were sent and read.
func (m *meter) call(ctx context.Context, op string, do func(context.Context) (sent, read any)) {
	began, beganCPU := time.Now(), process.CPU()
	used := usageOf(func() {
		before := m.sim.DLLCalls()
		sent, read := do(ctx)
		m.mu.Lock()
		defer m.mu.Unlock()
		m.calls[op]++
		m.sent += wireBytes(sent)
		m.read += wireBytes(read)
		m.dllLocked(m.sim.DLLCalls() - before)
	})
	m.mu.Lock()
	defer m.mu.Unlock()
	used.cpu = process.CPU() - beganCPU
	m.used = m.used.plus(used)
	m.took += time.Since(began)
}

// dllLocked takes calls of the DLLs. m.mu must be held.
func (m *meter) dllLocked(n int) {
	m.dll += n
	m.now = m.now.Add(time.Duration(n) * m.latency)
}

// saw tells of a read that is over.
func (m *meter) saw(what string) {
	if m.seen != nil {
		m.seen(what, m.clock())
	}
}

// wrote takes a write of rules that was done.
func (m *meter) wrote(acls []hns.ACL) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.blocked > 0 || !slices.ContainsFunc(acls, func(a hns.ACL) bool { return a.Priority == hns.PriorityBlock }) {
		return
	}
	m.blocked = m.dll
	for _, verb := range []hns.Verb{hns.Add, hns.Update, hns.Remove} {
		m.sets += m.calls[hns.OpSets(verb)]
	}
}

// ----- on the wire: what pkg/hns/hcsadapter sends and gets, as far as it is read -----

type modifyRequest struct {
	ResourceType string
	RequestType  hns.Verb
	Settings     struct{ Policies []hns.EndpointPolicy }
}

type setSettings struct {
	ID     string `json:"Id"`
	Name   string
	Type   hns.SetType `json:"PolicyType"`
	Values string
}

type networkDocument struct {
	ID, Name string
	Policies []hns.EndpointPolicy
}

type endpointDocument struct {
	ID               string
	IPConfigurations []addressDocument `json:"IpConfigurations"`
	Policies         []hns.EndpointPolicy
}

type addressDocument struct {
	IPAddress netip.Addr `json:"IpAddress"`
}

func modify(verb hns.Verb, policies []hns.EndpointPolicy) modifyRequest {
	r := modifyRequest{ResourceType: "Policy", RequestType: verb}
	r.Settings.Policies = policies
	return r
}

func setDocuments(sets []hns.SetPolicy) []hns.EndpointPolicy {
	out := make([]hns.EndpointPolicy, len(sets))
	for i, s := range sets {
		out[i] = hns.EndpointPolicy{Type: "SetPolicy", Settings: marshal(setSettings{s.ID, s.Name, s.Type, strings.Join(s.Values, ",")})}
	}
	return out
}

func endpointDocuments(eps ...hns.Endpoint) []endpointDocument {
	out := make([]endpointDocument, len(eps))
	for i, e := range eps {
		out[i] = endpointDocument{ID: e.ID, Policies: e.Policies}
		for _, a := range e.Addrs {
			out[i].IPConfigurations = append(out[i].IPConfigurations, addressDocument{a})
		}
	}
	return out
}

func marshal(v any) []byte {
	out, err := json.Marshal(v)
	if err != nil {
		panic("BUG: a document always encodes: " + err.Error())
	}
	return out
}

// wireBytes returns the length of a document, 0 of nil.
func wireBytes(v any) int {
	if v == nil {
		return 0
	}
	return len(marshal(v))
}

// ----- hns.Client -----

// Network implements hns.Client.
func (m *meter) Network(ctx context.Context) (n hns.Network, err error) {
	m.call(ctx, hns.OpNetworkGet, func(ctx context.Context) (sent, read any) {
		n, err = m.sim.Network(ctx)
		return nil, networkDocument{n.ID, n.Name, setDocuments(n.Sets)}
	})
	m.saw(hns.OpNetworkGet)
	return n, err
}

// EndpointIDs implements hns.Client.
func (m *meter) EndpointIDs(ctx context.Context) (ids []string, err error) {
	m.call(ctx, hns.OpEndpointIDs, func(ctx context.Context) (sent, read any) {
		ids, err = m.sim.EndpointIDs(ctx)
		return nil, ids
	})
	m.saw(hns.OpEndpointIDs)
	return ids, err
}

// NewEndpointIDs implements hns.Client.
func (m *meter) NewEndpointIDs(ctx context.Context) (ids []string, err error) {
	m.call(ctx, hns.OpEndpointNew, func(ctx context.Context) (sent, read any) {
		ids, err = m.sim.NewEndpointIDs(ctx)
		return nil, ids
	})
	return ids, err
}

// Hold implements hns.Client.
func (m *meter) Hold(ctx context.Context, endpoint string) func() {
	release := m.sim.Hold(ctx, endpoint)
	return func() {
		before := m.sim.DLLCalls()
		release()
		m.mu.Lock()
		defer m.mu.Unlock()
		m.dllLocked(m.sim.DLLCalls() - before)
	}
}

// GetEndpoint implements hns.Client.
func (m *meter) GetEndpoint(ctx context.Context, id string) (e hns.Endpoint, err error) {
	m.call(ctx, hns.OpEndpointGet, func(ctx context.Context) (sent, read any) {
		e, err = m.sim.GetEndpoint(ctx, id)
		return nil, endpointDocuments(e)[0]
	})
	m.saw(id)
	return e, err
}

// ModifySets implements hns.Client.
func (m *meter) ModifySets(ctx context.Context, verb hns.Verb, sets []hns.SetPolicy) (err error) {
	m.call(ctx, hns.OpSets(verb), func(ctx context.Context) (sent, read any) {
		err = m.sim.ModifySets(ctx, verb, sets)
		return modify(verb, setDocuments(sets)), nil
	})
	return err
}

// AddACLs implements hns.Client.
func (m *meter) AddACLs(ctx context.Context, endpoint string, acls []hns.ACL) (err error) {
	m.call(ctx, hns.OpACLAdd, func(ctx context.Context) (sent, read any) {
		err = m.sim.AddACLs(ctx, endpoint, acls)
		policies := make([]hns.EndpointPolicy, len(acls))
		for i, a := range acls {
			policies[i] = hns.NewACLPolicy(a)
		}
		return modify(hns.Add, policies), nil
	})
	m.wrote(acls)
	return err
}

// ReplacePolicies implements hns.Client.
func (m *meter) ReplacePolicies(ctx context.Context, endpoint string, policies []hns.EndpointPolicy) (err error) {
	m.call(ctx, hns.OpACLUpdate, func(ctx context.Context) (sent, read any) {
		err = m.sim.ReplacePolicies(ctx, endpoint, policies)
		return modify(hns.Update, policies), nil
	})
	ours, _ := hns.Endpoint{Policies: policies}.Split()
	m.wrote(ours)
	return err
}
