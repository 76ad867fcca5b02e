package main

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/test/cnis"
	"github.com/winnpm/winnpm/test/hnsfault"
	"github.com/winnpm/winnpm/tool/hnssim"
	"github.com/winnpm/winnpm/tool/match"
)

// theirs are policies of others beside the CNI's defaults.
const theirs = `{"Id":"calico-1","Action":"Block","Direction":"Out","Protocols":"6","RemoteAddresses":"168.63.129.16/32","RemotePorts":"80","Priority":200,"RuleType":"Switch","Scope":0}`

func set(id string, kind hns.SetType, values ...string) hns.SetPolicy {
	return hns.SetPolicy{ID: id, Name: "name of " + id, Type: kind, Values: values}
}

func rule(id string, action hns.ActionType, dir hns.DirectionType, priority uint16) hns.ACL {
	return hns.ACL{ID: id, Action: action, Direction: dir, RuleType: hns.Switch, Priority: priority}
}

// testNode is a node with three pods, two of which have rules of ours, and with sets and
// rules of others.
func testNode(t require.TestingT) *hnsfault.Sim { return nodeOf(t, hnssim.DefaultForeign()) }

// nodeOf is testNode with what a CNI puts on endpoints.
func nodeOf(t require.TestingT, cni []hns.EndpointPolicy) *hnsfault.Sim {
	sim := hnsfault.New(hnsfault.Options{Foreign: cni})
	ctx := context.Background()
	add := func(sets ...hns.SetPolicy) { require.NoError(t, sim.ModifySets(ctx, hns.Add, sets)) }
	add(set("azure-npm-1", hns.IPSet, "10.0.0.7"), set("azure-npm-2", hns.IPSet, "10.0.0.8"), set("calico-s", hns.IPSet, "10.0.0.9"))
	add(set("AZURE-NPM-3", hns.NestedIPSet, "azure-npm-1", "azure-npm-2"))
	for i, id := range []string{"a", "b", "c"} {
		require.NoError(t, sim.CreateEndpoint(hnssim.SimEndpoint{ID: id, Addrs: []netip.Addr{netip.AddrFrom4([4]byte{10, 0, 0, byte(i + 1)})}}))
		e, err := sim.GetEndpoint(ctx, id)
		require.NoError(t, err)
		require.NoError(t, sim.SetPolicies(id, append(e.Policies, hns.EndpointPolicy{Type: hns.PolicyTypeACL, Settings: []byte(theirs)})))
	}
	allow := rule("azure-acl-x.p", hns.Allow, hns.In, hns.PriorityAllow)
	allow.LocalAddresses = "azure-npm-1"
	nested := rule("Azure-Acl-x.q", hns.Allow, hns.In, hns.PriorityAllow)
	nested.LocalAddresses = "AZURE-NPM-3"
	block := rule("azure-acl-npm-block-in", hns.Block, hns.In, hns.PriorityBlock)
	require.NoError(t, sim.AddACLs(ctx, "a", []hns.ACL{allow, nested, block}))
	require.NoError(t, sim.AddACLs(ctx, "b", []hns.ACL{nested, rule("azure-acl-npm-block-out", hns.Block, hns.Out, hns.PriorityBlock)}))
	sim.ResetCalls()
	return sim
}

// others returns what a node has that is not ours, as text: byte for byte, or as it is
// meant. What HNS rejects to take back as it was read goes without fields that mean
// nothing (pkg/hns/versioned).
func others(t require.TestingT, sim *hnsfault.Sim, meant bool) string {
	ctx := context.Background()
	network, err := sim.Network(ctx)
	require.NoError(t, err)
	text := ""
	for _, s := range network.Sets {
		if s.ID == "calico-s" {
			text += fmt.Sprintln(s)
		}
	}
	for _, id := range []string{"a", "b", "c"} {
		e, err := sim.GetEndpoint(ctx, id)
		require.NoError(t, err)
		_, foreign := e.Split()
		for _, p := range foreign {
			if a, err := p.ACL(); err == nil && meant {
				p = hns.NewACLPolicy(a.Canonical())
			}
			text += fmt.Sprintf("%s %s %s\n", id, p.Type, p.Settings)
		}
	}
	return text
}

// verdicts returns what each endpoint does with each of a few packets.
func verdicts(t require.TestingT, sim *hnsfault.Sim) map[string]string {
	out := map[string]string{}
	for i, id := range []string{"a", "b", "c"} {
		own := netip.AddrFrom4([4]byte{10, 0, 0, byte(i + 1)})
		for _, dir := range []hns.DirectionType{hns.In, hns.Out} {
			for _, peer := range []string{"10.0.0.7", "10.0.0.8", "10.0.0.9", "168.63.129.16"} {
				p := match.Packet{Src: netip.MustParseAddr(peer), Dst: own, Protocol: 6, DstPort: 80}
				if dir == hns.Out {
					p.Src, p.Dst = own, p.Src
				}
				v, err := sim.Trace(id, dir, p)
				require.NoError(t, err)
				out[id] += fmt.Sprint(v.Allowed, " ")
			}
		}
	}
	return out
}

// removeOurs does what npm uninstall --yes does, once.
func removeOurs(ctx context.Context, client hns.Client) (left leftover, failed error) {
	found, err := lookForOurs(ctx, client)
	if err != nil {
		return found, err
	}
	failed = found.remove(ctx, client)
	left, err = lookForOurs(ctx, client)
	if err == nil && !left.empty() {
		err = errors.New("something is left")
	}
	return left, errors.Join(failed, err)
}

func requireEmpty(t require.TestingT, sim *hnsfault.Sim) {
	found, err := lookForOurs(context.Background(), sim)
	require.NoError(t, err)
	require.Empty(t, found)
}

func TestLook(t *testing.T) {
	t.Parallel()
	sim := testNode(t)
	found, err := lookForOurs(t.Context(), sim)
	require.NoError(t, err)
	require.Equal(t, []int{2, 5, 3, 1}, []int{len(found.endpoints), found.rules, len(found.nested) + len(found.sets), len(found.nested)})
	require.Equal(t, "AZURE-NPM-3", found.nested[0].ID)
	require.False(t, found.empty())
	require.Equal(t, map[string]int{hns.OpNetworkGet: 1, hns.OpEndpointIDs: 1, hns.OpEndpointGet: 3}, sim.Counts(), "a look writes nothing")
}

// TestRemove: what goes, by how many requests, and what stays.
func TestRemove(t *testing.T) {
	t.Parallel()
	for _, c := range cnis.All() {
		t.Run(c.Name, func(t *testing.T) { removeOn(t, c) })
	}
}

func removeOn(t *testing.T, c cnis.CNI) {
	t.Helper()
	sim := nodeOf(t, c.Endpoint)
	was := others(t, sim, false)
	sim.ResetCalls()
	left, err := removeOurs(t.Context(), sim)
	require.NoError(t, err)
	require.Empty(t, left)
	counts := sim.Counts()
	require.Equal(t, []int{2, 2}, []int{counts[hns.OpACLUpdate], counts[hns.OpSets(hns.Remove)]})
	requireEmpty(t, sim)
	require.Equal(t, was, others(t, sim, false))
	sim.ResetCalls()
	_, err = removeOurs(t.Context(), sim)
	require.NoError(t, err)
	require.Equal(t, map[string]int{hns.OpNetworkGet: 2, hns.OpEndpointIDs: 2, hns.OpEndpointGet: 6}, sim.Counts(), "a second time writes nothing")
}

// TestKilledAnywhere: the work ends, fails or loses its answer at every call, and is begun
// anew. At every moment an endpoint does what it did before, or what it does without us.
func TestKilledAnywhere(t *testing.T) {
	t.Parallel()
	clean := testNode(t)
	was, before := others(t, clean, true), verdicts(t, clean)
	clean.ResetCalls()
	_, err := removeOurs(t.Context(), clean)
	require.NoError(t, err)
	after, calls := verdicts(t, clean), len(clean.Calls())
	require.NotEqual(t, before, after)
	for n := 1; n <= calls; n++ {
		for name, disturb := range map[string]func(*hnsfault.Sim, context.CancelFunc){
			"killed before": func(sim *hnsfault.Sim, kill context.CancelFunc) { killAt(sim, n, hnsfault.Before, kill) },
			"killed after":  func(sim *hnsfault.Sim, kill context.CancelFunc) { killAt(sim, n, hnsfault.After, kill) },
			"refused": func(sim *hnsfault.Sim, _ context.CancelFunc) {
				sim.Inject(hnsfault.Fault{Nth: n, Mode: hnsfault.Refuse, Code: 0x80004005})
			},
			"lost": func(sim *hnsfault.Sim, _ context.CancelFunc) {
				sim.Inject(hnsfault.Fault{Nth: n, Mode: hnsfault.LoseReply})
			},
			"down": func(sim *hnsfault.Sim, _ context.CancelFunc) {
				sim.Inject(hnsfault.Fault{Nth: n, Times: 3, Mode: hnsfault.Refuse})
			},
		} {
			t.Run(fmt.Sprintf("%d %s", n, name), func(t *testing.T) {
				sim := testNode(t)
				ctx, kill := context.WithCancel(t.Context())
				defer kill()
				disturb(sim, kill)
				_, err := removeOurs(ctx, &watched{sim, t, before, after})
				for tries := 0; err != nil && tries < 5; tries++ { // as the kubelet does with the DaemonSet's container
					_, err = removeOurs(t.Context(), &watched{sim, t, before, after})
				}
				require.NoError(t, err)
				requireEmpty(t, sim)
				require.Equal(t, was, others(t, sim, true))
				require.Equal(t, after, verdicts(t, sim))
			})
		}
	}
}

func killAt(sim *hnsfault.Sim, n int, when hnsfault.When, kill context.CancelFunc) {
	seen := 0
	sim.OnCall(func(_ hnsfault.Call, is hnsfault.When) {
		if is == when {
			if seen++; seen == n {
				kill()
			}
		}
	})
}

// watched compares what passes after each write.
type watched struct {
	*hnsfault.Sim
	t             *testing.T
	before, after map[string]string
}

func (w *watched) look() {
	for id, is := range verdicts(w.t, w.Sim) {
		if is != w.before[id] && is != w.after[id] {
			w.t.Errorf("endpoint %s: %s: it was %s, and will be %s", id, is, w.before[id], w.after[id])
		}
	}
}

func (w *watched) ReplacePolicies(ctx context.Context, id string, policies []hns.EndpointPolicy) error {
	defer w.look()
	return w.Sim.ReplacePolicies(ctx, id, policies)
}

func (w *watched) ModifySets(ctx context.Context, verb hns.Verb, sets []hns.SetPolicy) error {
	defer w.look()
	return w.Sim.ModifySets(ctx, verb, sets)
}

// TestOneThatCannotBeRead: the others lose their rules, no set goes, and the error says
// why.
func TestOneThatCannotBeRead(t *testing.T) {
	t.Parallel()
	sim := testNode(t)
	sim.Inject(hnsfault.Fault{Op: hns.OpEndpointGet, Target: "a", Times: -1, Mode: hnsfault.Refuse, Code: 0x803B0017})
	left, err := removeOurs(t.Context(), sim)
	require.Empty(t, left.endpoints)
	require.Len(t, left.unread, 1)
	require.Equal(t, uint32(0x803B0017), hns.CodeOf(err))
	require.ErrorContains(t, err, "endpoint a cannot be read: ")
	require.ErrorIs(t, err, errKept)
	require.Len(t, append(left.nested, left.sets...), 3)
	require.Zero(t, sim.Counts()[hns.OpSets(hns.Remove)])
}

// TestSetOfOthersRules: a rule of others names a set of ours. It stays, the others go.
func TestSetOfOthersRules(t *testing.T) {
	t.Parallel()
	sim := testNode(t)
	theirs := rule("calico-2", hns.Allow, hns.In, 300)
	theirs.LocalAddresses = "azure-npm-2"
	require.NoError(t, sim.AddACLs(t.Context(), "c", []hns.ACL{theirs}))
	left, err := removeOurs(t.Context(), sim)
	require.Empty(t, left.endpoints)
	require.Len(t, append(left.nested, left.sets...), 1)
	require.ErrorIs(t, err, hns.ErrInUse)
	require.ErrorContains(t, err, "set name of azure-npm-2: ")
}
