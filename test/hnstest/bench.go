package hnstest

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/winnpm/winnpm/pkg/hns"
)

// bench answers one question. It is the require.TestingT of the question, and records the objects that the
// question creates.
type bench struct {
	*Answer
	ctx       context.Context
	client    hns.Client
	node      *Node
	endpoints []string
	defaults  []hns.EndpointPolicy // the policies that HNS itself puts on an endpoint; nil: not known yet
}

// answer asks the question, and removes the objects that it created.
func (q Question) answer(ctx context.Context, client hns.Client, node *Node) *Answer {
	b := &bench{Answer: &Answer{Question: q, Verdict: Held}, ctx: ctx, client: client, node: node}
	began := time.Now()
	var running sync.WaitGroup
	running.Go(func() { q.ask(b) }) // in a goroutine, because FailNow and skip end it
	running.Wait()
	if q.Phase != ReadOnly {
		running.Go(b.clean)
		running.Wait()
	}
	b.Millis = time.Since(began).Milliseconds()
	return b.Answer
}

// Errorf implements require.TestingT.
func (b *bench) Errorf(format string, args ...any) {
	b.Verdict = Refuted
	b.Why += fmt.Sprintf(format, args...)
}

// FailNow implements require.TestingT.
func (b *bench) FailNow() {
	b.Verdict = Refuted
	runtime.Goexit()
}

// skip ends a question for which this HNS cannot create the objects. Assumptions that were refuted before
// stay refuted.
func (b *bench) skip(format string, args ...any) {
	if b.Verdict != Refuted {
		b.Verdict, b.Why = NotAsked, fmt.Sprintf(format, args...)
	}
	runtime.Goexit()
}

// do makes a request, and logs it with its outcome, so that the report shows the codes and spellings of
// HNS. It omits sets of other programs.
func (b *bench) do(r hns.Request) hns.Result {
	out := r.Do(b.ctx, b.client)
	out.Network.Sets = slices.DeleteFunc(out.Network.Sets, func(p hns.SetPolicy) bool { return !strings.HasPrefix(p.ID, prefix) })
	policies := slices.Clone(r.Policies)
	for _, a := range r.ACLs {
		policies = append(policies, hns.NewACLPolicy(a))
	}
	outcome := fmt.Sprintf("%s%s %s%s", out.IDs, out.Endpoint.Addrs, out.Endpoint.Policies, out.Network.Sets)
	if out.Err != nil {
		outcome = out.Err.Error()
	}
	b.Log = append(b.Log, fmt.Sprintf("%s %s%s%s -> %s", r.Op, r.Endpoint, r.Sets, policies, outcome))
	return out
}

func (b *bench) try(verb hns.Verb, sets ...hns.SetPolicy) error {
	return b.do(hns.Request{Op: hns.OpSets(verb), Sets: sets}).Err
}

// modify sends a request for sets that must succeed.
func (b *bench) modify(verb hns.Verb, sets ...hns.SetPolicy) {
	require.NoError(b, b.try(verb, sets...))
}

func (b *bench) add(endpoint string, rules ...hns.ACL) error {
	return b.do(hns.Request{Op: hns.OpACLAdd, Endpoint: endpoint, ACLs: rules}).Err
}

// replace replaces the policies of an endpoint by policies of other programs and rules of ours.
func (b *bench) replace(endpoint string, others []hns.EndpointPolicy, rules ...hns.ACL) error {
	policies := slices.Clone(others)
	for _, a := range rules {
		policies = append(policies, hns.NewACLPolicy(a))
	}
	return b.do(hns.Request{Op: hns.OpACLUpdate, Endpoint: endpoint, Policies: policies}).Err
}

func (b *bench) get(endpoint string) (hns.Endpoint, error) {
	out := b.do(hns.Request{Op: hns.OpEndpointGet, Endpoint: endpoint})
	return out.Endpoint, out.Err
}

// rules reads our rules on an endpoint, and the policies of other programs.
func (b *bench) rules(endpoint string) ([]hns.ACL, []hns.EndpointPolicy) {
	e, err := b.get(endpoint)
	require.NoError(b, err)
	return e.Split()
}

// sets reads the suite's sets.
func (b *bench) sets() []hns.SetPolicy {
	read := b.do(hns.Request{Op: hns.OpNetworkGet})
	require.NoError(b, read.Err)
	return read.Network.Sets
}

// prefix marks the suite's sets on a network that is shared with other programs.
const prefix = hns.SetIDPrefix + "hnstest-"

func leaf(name string, values ...string) hns.SetPolicy {
	return hns.SetPolicy{ID: prefix + name, Name: "hnstest-" + name, Type: hns.IPSet, Values: values}
}

func list(name string, members ...hns.SetPolicy) hns.SetPolicy {
	return hns.SetPolicy{ID: prefix + name, Name: "hnstest-" + name, Type: hns.NestedIPSet, Values: ids(members)}
}

func ids(sets []hns.SetPolicy) (all []string) {
	for _, p := range sets {
		all = append(all, p.ID)
	}
	return all
}

// allowFrom returns a rule that lets traffic in from the pods in all the sets.
func allowFrom(name string, sets ...hns.SetPolicy) hns.ACL {
	return hns.ACL{
		ID: hns.ACLIDPrefix + "hnstest." + name, Protocols: "6", Action: hns.Allow, Direction: hns.In,
		LocalAddresses: strings.Join(ids(sets), ","), LocalPorts: "80", RuleType: hns.Switch, Priority: hns.PriorityAllow,
	}
}

// Policies as a CNI sets them.
var (
	foreignBlock = hns.EndpointPolicy{Type: hns.PolicyTypeACL, Settings: []byte(
		`{"Protocols":"6","Action":"Block","Direction":"Out","RemoteAddresses":"168.63.129.16/32","RemotePorts":"80","RuleType":"Switch","Priority":200}`)}
	outBoundNAT = hns.EndpointPolicy{Type: "OutBoundNAT", Settings: []byte(`{"Exceptions":["10.0.0.0/8"]}`)}
)

// addr returns the address of a question's nth endpoint, from 0.
func addr(n int) netip.Addr { return netip.AddrFrom4([4]byte{10, 90, 0, byte(4 + n)}) }

// endpoint creates an attached endpoint with policies of other programs.
func (b *bench) endpoint(others ...hns.EndpointPolicy) string {
	return b.create("endpoint", Endpoint{Foreign: others})
}

// pod creates the set web, and an endpoint with policies of other programs, which it returns as HNS returns
// them.
func (b *bench) pod(others ...hns.EndpointPolicy) (id string, web hns.SetPolicy, foreign []hns.EndpointPolicy) {
	web = leaf("web")
	b.modify(hns.Add, web)
	id = b.endpoint(others...)
	_, foreign = b.rules(id)
	return id, web, foreign
}

// create creates an endpoint. If e has no address, it gets one that no endpoint of the question has. create
// skips the question if HNS cannot create such an endpoint.
func (b *bench) create(what string, e Endpoint) string {
	if e.Addrs == nil {
		e.Addrs = []netip.Addr{addr(len(b.endpoints))}
	}
	id, err := b.node.CreateEndpoint(e)
	if err != nil {
		b.skip("this HNS makes no %s: %v", what, err)
	}
	b.endpoints = append(b.endpoints, id)
	return id
}

// rejected checks an error: its class, and the fields of an OpError.
func (b *bench) rejected(err, class error, op, kind, id string) {
	require.ErrorIs(b, err, class)
	var refusal *hns.OpError
	require.ErrorAs(b, err, &refusal)
	require.Equal(b, []string{op, kind, id}, []string{refusal.Op, refusal.Kind, refusal.ID})
	require.False(b, hns.OutcomeUnknown(err))
	require.Equal(b, kind == hns.KindEndpoint && errors.Is(class, hns.ErrNotFound), hns.EndpointGone(err))
}

// clean removes the objects of the question: endpoints, nested sets, then other sets.
func (b *bench) clean() {
	b.ctx = context.WithoutCancel(b.ctx)
	for _, id := range b.endpoints {
		require.NoError(b, b.node.HNS.Delete("Endpoint", id))
	}
	left := b.sets()
	for _, kind := range []hns.SetType{hns.NestedIPSet, hns.IPSet} {
		batch := slices.DeleteFunc(slices.Clone(left), func(p hns.SetPolicy) bool { return p.Type != kind })
		if len(batch) > 0 {
			b.modify(hns.Remove, batch...)
		}
	}
}
