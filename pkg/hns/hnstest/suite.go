// Package hnstest is the contract of hns.Client as tests: one suite for the
// simulator, for the Windows adapter, and for whatever wraps them. It asks for
// nothing that HNS is not known to do.
//
// HNS may show things in any order, and put policies of its own on every endpoint. What a
// node cannot do, such as two endpoints with one address, is not asked of it, and the
// Report says so. With -test.v each test prints what it asked for, the code of each
// refusal and what read back.
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
	Detached bool // exists but is attached to nothing
	Remote   bool // stands for an endpoint of another node
	// Foreign are the policies that are there before anything is written; HNS
	// may show them in a form of its own.
	Foreign []hns.EndpointPolicy
}

// Fixture is the hand of the CNI.
type Fixture interface {
	// CreateEndpoint creates an endpoint in the client's network and returns its ID. An
	// error is HNS's, which makes no such endpoint: it leaves nothing behind.
	CreateEndpoint(t *testing.T, e Endpoint) (string, error)
	// DeleteEndpoint deletes one, which may be gone already.
	DeleteEndpoint(t *testing.T, id string)
}

// Elsewhere is what a Fixture has besides when there is a second network at hand.
type Elsewhere interface {
	// CreateElsewhere is CreateEndpoint in another network than the client's.
	CreateElsewhere(t *testing.T, e Endpoint) (string, error)
}

// Others is what a Fixture has besides when its CNI puts policies of its own on endpoints.
type Others interface {
	Others() []hns.EndpointPolicy
}

// Report is what a run has to say besides what failed.
type Report struct {
	// Skipped are the tests that this HNS could not be asked, each with the reason.
	Skipped []string
}

// String is a list for people.
func (r Report) String() string {
	if len(r.Skipped) == 0 {
		return "not asked of this HNS: nothing, it can all of it"
	}
	return fmt.Sprintf("not asked of this HNS: %d tests\n  %s", len(r.Skipped), strings.Join(r.Skipped, "\n  "))
}

// Run runs the suite. newClient is called once per test; the clients may share
// one network, as every test takes away what it made. The report is printed, too.
func Run(t *testing.T, newClient func(t *testing.T) (hns.Client, Fixture)) *Report {
	report := &Report{}
	for _, test := range []struct {
		name string
		run  func(*bench)
	}{
		{"sets are added, updated and removed", setLifeCycle},
		{"an update leaves other sets alone", updateIsPerSet},
		{"an update of a missing set is ignored", updateOfMissing},
		{"a set cannot be added twice", addTwice},
		{"a missing set cannot be removed", removeOfMissing},
		{"a list needs its members", listNeedsMembers},
		{"a set in a list cannot be removed", removeOfMember},
		{"a set in a rule cannot be removed", removeOfSetInRule},
		{"a malformed set is refused", malformedSet},
		{"a refused set request does nothing", setsAllOrNothing},
		{"added rules are appended", addAppends},
		{"rules read back with the same meaning", readBackMeaning},
		{"an added rule needs its sets", addNeedsSets},
		{"a replacing rule needs its sets", replaceNeedsSets},
		{"a malformed rule is refused", malformedRule},
		{"a refused rule request does nothing", rulesAllOrNothing},
		{"replacing replaces everything", replaceReplaces},
		{"foreign policies survive byte for byte", foreignSurvives},
		{"a missing endpoint is told apart", missingEndpoint},
		{"only attached endpoints are enumerated", enumeration},
		{"two endpoints may have one address", sharedAddress},
		{"an endpoint of another node or network is told apart", elsewhere},
		{"what is held behaves the same", held},
		{"what is held and gone is gone", heldAndGone},
		{"every address of an endpoint is read", severalAddresses},
		{"arguments and results are copies", copies},
		{"writes read back as the version that was asked for", writesHaveVersions},
		{"a stale write is refused", staleWriteRefused},
		{"what came in between is found", cameInBetween},
		{"nothing is done for a caller that gave up", gaveUp},
	} {
		t.Run(test.name, func(t *testing.T) {
			client, fixture := newClient(t)
			b := &bench{T: t, ctx: t.Context(), client: transcript{client, t}, fixture: fixture, report: report}
			t.Cleanup(b.clean)
			test.run(b)
		})
	}
	t.Log(report)
	return report
}

// bench is what one test works with.
type bench struct {
	*testing.T
	ctx       context.Context
	client    hns.Client
	fixture   Fixture
	report    *Report
	endpoints []string
	defaults  []hns.EndpointPolicy // what HNS itself puts on endpoints, once learned is set
	learned   bool
}

// ours marks the sets of the suite on a network that others use too.
const ours = hns.SetIDPrefix + "hnstest-"

func leaf(name string, values ...string) hns.SetPolicy {
	return hns.SetPolicy{ID: ours + name, Name: "hnstest-" + name, Type: hns.IPSet, Values: values}
}

func list(name string, members ...hns.SetPolicy) hns.SetPolicy {
	p := hns.SetPolicy{ID: ours + name, Name: "hnstest-" + name, Type: hns.NestedIPSet}
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
		b.skip(b.T, what, err)
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
func (b *bench) skip(t *testing.T, what string, why error) {
	t.Helper()
	reason := fmt.Sprintf("this HNS makes no %s: %v", what, why)
	b.report.Skipped = append(b.report.Skipped, t.Name()+": "+reason)
	t.Skip(reason)
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
		if strings.HasPrefix(p.ID, ours) {
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
