package hcsadapter

import (
	"context"
	"encoding/json"
	"errors"
	"net/netip"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/pkg/hns/hnssim"
	"github.com/winnpm/winnpm/pkg/hns/hnstest"
	"github.com/winnpm/winnpm/pkg/hns/hnstest/onsim"
)

// simService is the simulator behind the interface of hcn: filters, JSON and
// codes. It shows other networks and states too, as HNS does.
type simService struct {
	ctx context.Context
	sim *hnssim.Sim
	id  string // GUID of the network
}

func (s *simService) networks(filter string) ([]network, error) {
	n, err := s.sim.Network(s.ctx)
	if err != nil {
		return nil, answer(err)
	}
	var want struct{ Name string }
	// Less strict than we are: whether HNS minds the case is not known.
	if err := json.Unmarshal([]byte(filter), &want); err != nil || !strings.EqualFold(want.Name, n.Name) {
		return nil, err
	}
	out := network{id: s.id, name: n.Name, policies: []hns.EndpointPolicy{{Type: "HostRoute", Settings: []byte(`{}`)}}}
	var all policies
	if err := json.Unmarshal(encodeSets(n.Sets), &all); err != nil {
		return nil, err
	}
	for _, p := range all.Policies {
		out.policies = append(out.policies, hns.EndpointPolicy{Type: p.Type, Settings: p.Settings})
	}
	return []network{out}, nil
}

func (s *simService) endpoints(filter string) ([]endpoint, error) {
	var want struct {
		State hnssim.EndpointState
		ID    string
	}
	if err := json.Unmarshal([]byte(filter), &want); err != nil {
		return nil, err
	}
	var out []endpoint
	for _, v := range s.sim.Endpoints() {
		if want.ID != "" && want.ID != v.ID || want.State != 0 && want.State != v.State {
			continue
		}
		e := endpoint{id: v.ID, remote: v.Remote, network: s.id, policies: v.Policies}
		if v.Network != "azure" {
			e.network = "another"
		}
		for _, addr := range v.Addrs {
			e.addrs = append(e.addrs, addr.String())
		}
		out = append(out, e)
	}
	return out, nil
}

func (s *simService) modifyNetwork(id string, verb hns.Verb, settings json.RawMessage) error {
	if id != s.id {
		return &failure{code: codeNetworkNotFound, err: errors.New("no network " + id)}
	}
	list, err := sent(settings)
	if err != nil {
		return err
	}
	n := network{policies: list}
	return answer(s.sim.ModifySets(s.ctx, verb, n.decode().Sets))
}

func (s *simService) modifyEndpoint(id string, verb hns.Verb, settings json.RawMessage) error {
	list, err := sent(settings)
	if err != nil {
		return err
	}
	if verb == hns.Update {
		return answer(s.sim.ReplacePolicies(s.ctx, id, list))
	}
	var acls []hns.ACL
	for _, p := range list {
		a, err := p.ACL()
		if err != nil {
			return err
		}
		acls = append(acls, a)
	}
	return answer(s.sim.AddACLs(s.ctx, id, acls))
}

func (s *simService) version() (Version, error) { return Version{Major: 15, Minor: 1}, nil }

// sent returns the policies of a request as it leaves hcn, which encodes the
// settings once more.
func sent(settings json.RawMessage) ([]hns.EndpointPolicy, error) {
	wire, err := json.Marshal(settings)
	if err != nil {
		return nil, err
	}
	var request policies
	if err := json.Unmarshal(wire, &request); err != nil {
		return nil, err
	}
	var out []hns.EndpointPolicy
	for _, p := range request.Policies {
		out = append(out, hns.EndpointPolicy{Type: p.Type, Settings: p.Settings})
	}
	return out, nil
}

// answer is all that HNS tells of an error: its code and a text.
func answer(err error) error {
	if op, ok := errors.AsType[*hns.OpError](err); ok {
		return &failure{code: op.Code, err: errors.New(err.Error())}
	}
	return err
}

// onSim returns an adapter over the simulator.
func onSim(t *testing.T, o Options) (*Adapter, *simService) {
	t.Helper()
	s := &simService{
		ctx: context.WithoutCancel(t.Context()),
		sim: hnssim.New(hnssim.Options{}), id: "5C1D0D2E-7A53-4D2B-9A60-0F6C9E0F1A11",
	}
	o.Network = "azure"
	a := newAdapter(o, s)
	t.Cleanup(a.Close)
	return a, s
}

// TestContract runs the contract suite through everything but hcn itself.
func TestContract(t *testing.T) {
	hnstest.Run(t, func(t *testing.T) (hns.Client, hnstest.Fixture) {
		a, s := onSim(t, Options{})
		return a, &onsim.CNI{Sim: s.sim}
	})
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
		}, here: true},
	} {
		t.Run(name, func(t *testing.T) {
			a, s := onSim(t, Options{})
			addr := []netip.Addr{netip.MustParseAddr("10.0.0.1")}
			for _, n := range []hnssim.NewEndpoint{{ID: "ep"}, {ID: "detached", State: hnssim.Detached}, {ID: "remote", Remote: true}} {
				n.Addrs = addr
				require.NoError(t, s.sim.CreateEndpoint(n))
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
			for _, class := range []error{hns.ErrNotFound, hns.ErrAlreadyExists, hns.ErrInUse, hns.ErrInvalid, hns.ErrUnavailable} {
				require.Equal(t, errors.Is(want, class), errors.Is(err, class), class)
			}
			require.Equal(t, hns.EndpointGone(want), hns.EndpointGone(err))
		})
	}
}
