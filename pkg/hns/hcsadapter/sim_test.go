package hcsadapter

import (
	"cmp"
	"context"
	"errors"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/test/hnsfault"
	"github.com/winnpm/winnpm/test/hnstest"
	"github.com/winnpm/winnpm/test/windows/hnsd"
	"github.com/winnpm/winnpm/tool/hnssim"
)

// simNode is a simulated node behind the calls of the DLLs.
type simNode struct {
	*hnsd.Server
	sim *hnsfault.Sim // the node's own network
	id  string        // GUID of that network
}

func newSimNode(t *testing.T, o hnsd.Options) *simNode {
	t.Helper()
	n := &simNode{Server: hnsd.New(o)}
	if o.Bare {
		return n
	}
	n.sim = n.Sim()
	own, err := n.sim.Network(t.Context())
	require.NoError(t, err)
	n.id = own.ID
	return n
}

// remake gives the node's own network another GUID and name.
func (n *simNode) remake(id, name string) {
	n.id = id
	n.RemakeNetwork(id, name)
}

// deleteEndpoint deletes an endpoint as a CNI does.
func (n *simNode) deleteEndpoint(t *testing.T, id string) {
	t.Helper()
	_, err := n.do("HcnDeleteEndpoint", id, 0)
	require.NoError(t, err)
}

// calls returns the number of calls of the DLLs so far.
func (n *simNode) calls() (total int) {
	for _, count := range n.Counts() {
		total += count
	}
	return total
}

// onSim returns an adapter over the simulator. The test must leave nothing open.
func onSim(t *testing.T, o Options) (*Adapter, *simNode) {
	t.Helper()
	s := newSimNode(t, hnsd.Options{})
	o.Network = "azure"
	a := newAdapter(o, s)
	t.Cleanup(func() {
		a.Close()
		require.Zero(t, s.OpenHandles(), "handles left open")
	})
	return a, s
}

func (n *simNode) do(export, id string, h handle, texts ...string) (hnstest.CallAnswer, error) {
	a, err := n.Call(export, id, uint64(h), texts...)
	if err == nil && int32(a.Code) < 0 {
		err = &failure{code: a.Code, err: errors.New(a.Record)}
	}
	return a, err
}

func (n *simNode) enumerate(k kind, query string) (string, error) {
	a, err := n.do("HcnEnumerate"+string(k)+"s", "", 0, query)
	return a.Output, err
}

func (n *simNode) open(k kind, id string) (handle, error) {
	a, err := n.do("HcnOpen"+string(k), id, 0)
	return handle(a.Handle), err
}

func (n *simNode) query(k kind, h handle, query string) (string, error) {
	a, err := n.do("HcnQuery"+string(k)+"Properties", "", h, query)
	return a.Output, err
}

func (n *simNode) modify(k kind, h handle, request string) error {
	_, err := n.do("HcnModify"+string(k), "", h, request)
	return err
}

func (n *simNode) close(k kind, h handle) error {
	_, err := n.do("HcnClose"+string(k), "", h)
	return err
}

// TestContract runs the contract suite through everything but the DLLs.
func TestContract(t *testing.T) {
	s := newSimNode(t, hnsd.Options{})
	system := s.System()
	system.Client = func(network string) (hns.Client, error) {
		a := newAdapter(Options{Network: cmp.Or(network, "azure")}, s)
		t.Cleanup(a.Close)
		return a, nil
	}
	r, err := hnstest.Examine(t.Context(), hnstest.Options{}, system)
	require.NoError(t, err)
	require.Empty(t, r.Left)
	for _, a := range r.Answers {
		require.Equal(t, hnstest.Held, a.Verdict, "%s: %s", a.Name, a.Why)
	}
	require.Zero(t, s.OpenHandles())
}

// TestLikeTheSimulator: for one and the same request the adapter's error says
// what the simulator's own says.
func TestLikeTheSimulator(t *testing.T) {
	set := func(name, value string) hns.SetPolicy {
		return hns.SetPolicy{ID: "azure-npm-" + name, Name: name, Type: hns.IPSet, Values: []string{value}}
	}
	rule := func(name, local string) hns.ACL {
		return hns.ACL{ID: "azure-acl-x." + name, Action: hns.Allow, Direction: hns.In, LocalAddresses: local, RuleType: hns.Switch, Priority: 222}
	}
	policy := hns.NewACLPolicy
	for name, test := range map[string]struct {
		do   func(context.Context, hns.Client) error
		here bool // decided without a code of HNS
	}{
		"no sets": {do: func(ctx context.Context, c hns.Client) error { return c.ModifySets(ctx, hns.Add, nil) }, here: true},
		"bad sets": {do: func(ctx context.Context, c hns.Client) error {
			return c.ModifySets(ctx, hns.Add, []hns.SetPolicy{set("a", "x"), set("b", "y")})
		}},
		"there already": {do: func(ctx context.Context, c hns.Client) error {
			return c.ModifySets(ctx, hns.Add, []hns.SetPolicy{set("there", "10.0.0.1")})
		}},
		"IPv6": {do: func(ctx context.Context, c hns.Client) error {
			return c.ModifySets(ctx, hns.Update, []hns.SetPolicy{set("there", "fd00::1")})
		}},
		"missing": {do: func(ctx context.Context, c hns.Client) error {
			return c.ModifySets(ctx, hns.Remove, []hns.SetPolicy{set("gone", "10.0.0.1")})
		}},
		"in use": {do: func(ctx context.Context, c hns.Client) error {
			return c.ModifySets(ctx, hns.Remove, []hns.SetPolicy{set("there", "10.0.0.1")})
		}},
		"no rules": {do: func(ctx context.Context, c hns.Client) error { return c.AddACLs(ctx, "ep", nil) }, here: true},
		"no endpoint": {do: func(ctx context.Context, c hns.Client) error {
			return c.AddACLs(ctx, "none", []hns.ACL{rule("one", "")})
		}},
		"not attached": {do: func(ctx context.Context, c hns.Client) error {
			return c.AddACLs(ctx, "detached", []hns.ACL{rule("one", "")})
		}},
		"remote": {do: func(ctx context.Context, c hns.Client) error {
			return c.ReplacePolicies(ctx, "remote", []hns.EndpointPolicy{policy(rule("one", ""))})
		}},
		"missing sets": {do: func(ctx context.Context, c hns.Client) error {
			return c.AddACLs(ctx, "ep", []hns.ACL{rule("one", "azure-npm-x"), rule("two", "azure-npm-y,azure-npm-x")})
		}},
		"bad rule": {do: func(ctx context.Context, c hns.Client) error {
			return c.AddACLs(ctx, "ep", []hns.ACL{rule("one", "Any")})
		}},
		"bad rules": {do: func(ctx context.Context, c hns.Client) error {
			return c.ReplacePolicies(ctx, "ep", []hns.EndpointPolicy{policy(rule("one", "Any")), policy(rule("two", "")), {Type: "QOS", Settings: []byte("{}")}})
		}},
		"bad foreign policy": {do: func(ctx context.Context, c hns.Client) error {
			return c.ReplacePolicies(ctx, "ep", []hns.EndpointPolicy{{Type: "", Settings: []byte("{}")}})
		}},
		"no endpoint to read": {do: func(ctx context.Context, c hns.Client) error {
			_, err := c.GetEndpoint(ctx, "none")
			return err
		}},
	} {
		t.Run(name, func(t *testing.T) {
			a, s := onSim(t, Options{})
			addr := []netip.Addr{netip.MustParseAddr("10.0.0.1")}
			for _, n := range []hnssim.NewEndpoint{{ID: "ep"}, {ID: "detached", State: hnssim.Detached}, {ID: "remote", Remote: true}} {
				n.Addrs = addr
				require.NoError(t, s.AddEndpoint(n))
			}
			require.NoError(t, a.ModifySets(t.Context(), hns.Add, []hns.SetPolicy{set("there", "10.0.0.1")}))
			require.NoError(t, a.AddACLs(t.Context(), "ep", []hns.ACL{rule("zero", "azure-npm-there")}))

			want, ok := errors.AsType[*hns.OpError](test.do(t.Context(), s.sim))
			require.True(t, ok)
			err := test.do(t.Context(), a)
			got, ok := errors.AsType[*hns.OpError](err)
			require.True(t, ok)
			if test.here {
				want.Code = 0
			}
			require.Equal(t, []any{want.Op, want.Kind, want.ID, want.Code}, []any{got.Op, got.Kind, got.ID, got.Code})
			for _, class := range []error{hns.ErrNotFound, hns.ErrAlreadyExists, hns.ErrInUse, hns.ErrInvalid, hns.ErrUnlisted, hns.ErrUnavailable} {
				require.Equal(t, errors.Is(want, class), errors.Is(err, class), class)
			}
			require.Equal(t, hns.EndpointGone(want), hns.EndpointGone(err))
		})
	}
}
