// Package hnstest has a table of tests of HNS (Questions). Each one has the assumption of WinNPM, its
// source, and the effect if it is wrong. Tests run them against the simulator, the Windows adapter,
// and clients that wrap these. test/windows/doctor runs them against the HNS of a node.
//
// HNS may show objects in any order, and may put its own policies on every endpoint. If HNS cannot
// create an object that a question needs, such as a second endpoint with the same address, the
// question is skipped, and the Report says so. With -test.v each test prints its requests, the code
// of each rejection, and the state that it read back.
package hnstest

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/winnpm/winnpm/pkg/hns"
)

// Endpoint describes an endpoint that a test needs.
type Endpoint struct {
	Addrs    []netip.Addr
	Detached bool // exists, but is not attached to a namespace
	Remote   bool // represents an endpoint of another node
	// Foreign are policies that the endpoint has from the start. HNS may show them in
	// another form.
	Foreign []hns.EndpointPolicy
}

// Fixture creates and deletes endpoints, as a CNI does.
type Fixture interface {
	// CreateEndpoint creates an endpoint in the client's network and returns its ID. It returns
	// the error of HNS if HNS cannot create it; then nothing is left behind.
	CreateEndpoint(t T, e Endpoint) (string, error)
	// DeleteEndpoint deletes an endpoint, which may be gone already.
	DeleteEndpoint(t T, id string)
}

// Elsewhere is an optional interface of a Fixture that has a second network.
type Elsewhere interface {
	// CreateElsewhere creates an endpoint in the second network.
	CreateElsewhere(t T, e Endpoint) (string, error)
}

// Others is an optional interface of a Fixture whose CNI puts its own policies on endpoints.
type Others interface {
	Others() []hns.EndpointPolicy
}

// T is the part of *testing.T that a question needs. The doctor implements it as well.
type T interface {
	require.TestingT
	Helper()
	Name() string
	Context() context.Context
	Logf(format string, args ...any)
	Skip(args ...any)
	Cleanup(func())
}

// Report is the result of a run, apart from failures.
type Report struct {
	// Skipped are the tests that could not run on this HNS, each with the reason.
	Skipped []string
}

// String returns the report as text.
func (r Report) String() string {
	if len(r.Skipped) == 0 {
		return "not asked of this HNS: nothing, it can all of it"
	}
	return fmt.Sprintf("not asked of this HNS: %d tests\n  %s", len(r.Skipped), strings.Join(r.Skipped, "\n  "))
}

// Run asks every question that a client and a fixture can answer, each as a subtest. newClient is
// called once per question. The clients may share one network, because every question removes the
// objects that it made. Run prints the report.
func Run(t *testing.T, newClient func(t *testing.T) (hns.Client, Fixture)) *Report {
	report := &Report{}
	for _, q := range Questions() {
		if q.Phase != ReadOnly && q.Phase != OwnNetwork {
			continue
		}
		t.Run(q.Name, func(t *testing.T) {
			client, fixture := newClient(t)
			q.Ask(t, client, fixture, report)
		})
	}
	t.Log(report)
	return report
}

// Ask asks the question. It fails t when the answer is not the expected one, and skips t when HNS
// does not make an object that the question is about.
func (q Question) Ask(t T, client hns.Client, fixture Fixture, report *Report) {
	b := &bench{T: t, ctx: t.Context(), client: transcript{client, t}, fixture: fixture, report: report}
	if q.Phase != ReadOnly {
		t.Cleanup(b.clean)
	}
	q.ask(b)
}

// bench has the objects that one test uses.
type bench struct {
	T
	ctx       context.Context
	client    hns.Client
	fixture   Fixture
	report    *Report
	endpoints []string
	defaults  []hns.EndpointPolicy // what HNS itself puts on endpoints, once learned is set
	learned   bool
}

// prefix marks the sets of the suite on a network that others use too.
const prefix = hns.SetIDPrefix + "hnstest-"

func leaf(name string, values ...string) hns.SetPolicy {
	return hns.SetPolicy{ID: prefix + name, Name: "hnstest-" + name, Type: hns.IPSet, Values: values}
}

func list(name string, members ...hns.SetPolicy) hns.SetPolicy {
	p := hns.SetPolicy{ID: prefix + name, Name: "hnstest-" + name, Type: hns.NestedIPSet}
	for _, m := range members {
		p.Values = append(p.Values, m.ID)
	}
	return p
}

// allowFrom returns a rule that lets traffic in from the pods in all the sets.
func allowFrom(name string, sets ...hns.SetPolicy) hns.ACL {
	ids := make([]string, len(sets))
	for i, p := range sets {
		ids[i] = p.ID
	}
	return hns.ACL{
		ID: hns.ACLIDPrefix + "hnstest." + name, Protocols: "6", Action: hns.Allow, Direction: hns.In,
		LocalAddresses: strings.Join(ids, ","), LocalPorts: "80", RuleType: hns.Switch, Priority: hns.PriorityAllow,
	}
}

// podAddr is the address of a test's first endpoint. Each further one has the next.
var podAddr = netip.MustParseAddr("10.90.0.4")

// addr returns an address that no endpoint of the test has.
func (b *bench) addr() netip.Addr {
	a := podAddr
	for range b.endpoints {
		a = a.Next()
	}
	return a
}

// others returns policies that endpoints have of others: those of the fixture's CNI, or a
// block.
func (b *bench) others() []hns.EndpointPolicy {
	if own, is := b.fixture.(Others); is && len(own.Others()) > 0 {
		return own.Others()
	}
	return []hns.EndpointPolicy{foreignBlock()}
}

// endpoint creates an attached endpoint, as every HNS makes one.
func (b *bench) endpoint(foreign ...hns.EndpointPolicy) string {
	b.Helper()
	id, err := b.make(Endpoint{Addrs: []netip.Addr{b.addr()}, Foreign: foreign})
	require.NoError(b, err)
	return id
}

// create creates an endpoint that not every HNS makes, and skips the test where it does not.
func (b *bench) create(what string, e Endpoint) string {
	b.Helper()
	id, err := b.make(e)
	if err != nil {
		b.skip(what, err)
	}
	return id
}

func (b *bench) make(e Endpoint) (string, error) {
	b.Helper()
	id, err := b.fixture.CreateEndpoint(b.T, e)
	if err == nil {
		b.endpoints = append(b.endpoints, id)
	}
	return id, err
}

// skip ends a test that needs what this HNS does not make.
func (b *bench) skip(what string, why error) {
	b.Helper()
	reason := fmt.Sprintf("this HNS makes no %s: %v", what, why)
	b.report.Skipped = append(b.report.Skipped, b.Name()+": "+reason)
	b.Skip(reason)
}

// modify sends a request that must succeed.
func (b *bench) modify(verb hns.Verb, sets ...hns.SetPolicy) {
	b.Helper()
	require.NoError(b, b.client.ModifySets(b.ctx, verb, sets))
}

// sets reads the suite's sets, by Id.
func (b *bench) sets() map[string]hns.SetPolicy {
	b.Helper()
	network, err := b.client.Network(b.ctx)
	require.NoError(b, err)
	out := map[string]hns.SetPolicy{}
	for _, p := range network.Sets {
		if strings.HasPrefix(p.ID, prefix) {
			out[p.ID] = p
		}
	}
	return out
}

// rules reads our rules on an endpoint and everybody else's policies.
func (b *bench) rules(endpoint string) ([]hns.ACL, []hns.EndpointPolicy) {
	b.Helper()
	e, err := b.client.GetEndpoint(b.ctx, endpoint)
	require.NoError(b, err)
	return e.Split()
}

// refused checks an error: its class, and what an OpError must tell.
func (b *bench) refused(err, class error, op, kind, id string) {
	b.Helper()
	require.ErrorIs(b, err, class)
	var refusal *hns.OpError
	require.ErrorAs(b, err, &refusal)
	require.Equal(b, op, refusal.Op)
	require.Equal(b, kind, refusal.Kind)
	require.Equal(b, id, refusal.ID)
	require.Equal(b, errors.Is(class, hns.ErrUnavailable), hns.OutcomeUnknown(err))
}

// clean takes away what the test made: endpoints, lists, leaves.
func (b *bench) clean() {
	b.ctx = context.WithoutCancel(b.ctx)
	for _, id := range b.endpoints {
		b.fixture.DeleteEndpoint(b.T, id)
	}
	left := b.sets()
	for _, kind := range []hns.SetType{hns.NestedIPSet, hns.IPSet} {
		var batch []hns.SetPolicy
		for _, p := range left {
			if p.Type == kind {
				batch = append(batch, p)
			}
		}
		if len(batch) > 0 {
			b.modify(hns.Remove, batch...)
		}
	}
}
