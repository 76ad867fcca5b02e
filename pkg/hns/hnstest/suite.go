// Package hnstest is the contract of hns.Client as tests: one suite for the
// simulator, for the Windows adapter, and for whatever wraps them. It asks for
// nothing that HNS is not known to do.
package hnstest

import (
	"context"
	"errors"
	"net/netip"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/winnpm/winnpm/pkg/hns"
)

// Endpoint describes an endpoint that a test needs. A fixture that cannot make
// one skips the test.
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
	// CreateEndpoint creates an endpoint in the client's network and returns
	// its ID.
	CreateEndpoint(t *testing.T, e Endpoint) string
	// DeleteEndpoint deletes one, which may be gone already.
	DeleteEndpoint(t *testing.T, id string)
}

// Elsewhere is what a Fixture has besides when there is a second network at hand.
type Elsewhere interface {
	// CreateElsewhere is CreateEndpoint in another network than the client's.
	CreateElsewhere(t *testing.T, e Endpoint) string
}

// Others is what a Fixture has besides when its CNI puts policies of its own on endpoints.
type Others interface {
	Others() []hns.EndpointPolicy
}

// Run runs the suite. newClient is called once per test; the clients may share
// one network, as every test takes away what it made.
func Run(t *testing.T, newClient func(t *testing.T) (hns.Client, Fixture)) {
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
			b := &bench{T: t, ctx: t.Context(), client: client, fixture: fixture}
			t.Cleanup(b.clean)
			test.run(b)
		})
	}
}

// bench is what one test works with.
type bench struct {
	*testing.T
	ctx       context.Context
	client    hns.Client
	fixture   Fixture
	endpoints []string
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

// podAddr is the address of every endpoint: HNS allows one on several.
var podAddr = netip.MustParseAddr("10.90.0.4")

// others returns policies that endpoints have of others: those of the fixture's CNI, or a
// block.
func (b *bench) others() []hns.EndpointPolicy {
	if own, is := b.fixture.(Others); is && len(own.Others()) > 0 {
		return own.Others()
	}
	return []hns.EndpointPolicy{foreignBlock()}
}

// endpoint creates an attached endpoint.
func (b *bench) endpoint(foreign ...hns.EndpointPolicy) string {
	b.Helper()
	return b.create(Endpoint{Addrs: []netip.Addr{podAddr}, Foreign: foreign})
}

func (b *bench) create(e Endpoint) string {
	b.Helper()
	id := b.fixture.CreateEndpoint(b.T, e)
	b.endpoints = append(b.endpoints, id)
	return id
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
