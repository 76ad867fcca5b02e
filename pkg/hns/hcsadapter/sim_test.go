package hcsadapter

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/test/hnsfault"
	"github.com/winnpm/winnpm/test/hnstest"
	"github.com/winnpm/winnpm/test/windows/hnsd"
	"github.com/winnpm/winnpm/tool/hnssim"
)

// simLibrary is the simulator behind the calls of the DLLs: handles, filters,
// JSON and codes. It shows other networks and states too, as HNS does.
type simLibrary struct {
	ctx    context.Context
	sim    *hnsfault.Sim
	id     string            // GUID of the network
	name   string            // of the network; "": azure
	handle handle            // the last one
	opened map[handle]string // open handles: kind and ID
}

func (s *simLibrary) enumerate(k kind, query string) (string, error) {
	var q struct{ Filter string }
	var want struct {
		Name, ID, VirtualNetwork string
		State                    hnssim.EndpointState
	}
	err := json.Unmarshal([]byte(query), &q)
	if err == nil && q.Filter != "" {
		err = json.Unmarshal([]byte(q.Filter), &want)
	}
	if err != nil {
		return "", err
	}
	ids := []string{}
	if k == kindNetwork {
		n, err := s.sim.Network(s.ctx)
		if err != nil {
			return "", answer(err)
		}
		// Less strict than we are: whether HNS minds the case is not known.
		if q.Filter == "" || strings.EqualFold(want.Name, n.Name) {
			ids = append(ids, s.id)
		}
		return encode(ids)
	}
	for _, v := range s.sim.Endpoints() {
		if (want.ID == "" || want.ID == v.ID) && (want.State == 0 || want.State == v.State) &&
			(want.VirtualNetwork == "" || strings.EqualFold(want.VirtualNetwork, s.networkOf(v))) {
			ids = append(ids, v.ID)
		}
	}
	return encode(ids)
}

func (s *simLibrary) open(k kind, id string) (handle, error) {
	_, there := s.sim.Endpoint(id)
	switch {
	case k == kindNetwork && id != s.id:
		return 0, &failure{code: codeNetworkNotFound, err: errors.New("no network " + id)}
	case k == kindEndpoint && !there:
		return 0, &failure{code: codeEndpointNotFound, err: errors.New("no endpoint " + id)}
	}
	s.handle++
	s.opened[s.handle] = string(k) + " " + id
	return s.handle, nil
}

// object returns the ID of what is open.
func (s *simLibrary) object(k kind, h handle) (string, error) {
	id, ok := strings.CutPrefix(s.opened[h], string(k)+" ")
	if !ok {
		return "", &failure{code: 0x80070006, err: fmt.Errorf("%d is no open %s", h, k)}
	}
	return id, nil
}

func (s *simLibrary) query(k kind, h handle, query string) (string, error) {
	id, err := s.object(k, h)
	if err != nil {
		return "", err
	}
	if query != `{"SchemaVersion":{"Major":2,"Minor":0}}` {
		return "", fmt.Errorf("a query of %s", query)
	}
	if k == kindNetwork {
		n, err := s.sim.Network(s.ctx)
		if err != nil {
			return "", answer(err)
		}
		out := network{ID: s.id, Name: n.Name, Type: "L2Bridge", Policies: []hns.EndpointPolicy{{Type: "HostRoute", Settings: []byte(`{}`)}}}
		out.Policies = append(out.Policies, setPolicies(n.Sets)...)
		return encode(out)
	}
	v, ok := s.sim.Endpoint(id)
	if !ok {
		return "", &failure{code: codeEndpointNotFound, err: errors.New("no endpoint " + id)}
	}
	e := endpoint{ID: v.ID, HostComputeNetwork: s.networkOf(v), Policies: v.Policies}
	if v.Remote {
		e.Flags = remoteEndpoint
	}
	for _, addr := range v.Addrs {
		e.IPConfigurations = append(e.IPConfigurations, ipConfig{addr.String()})
	}
	return encode(e)
}

// networkOf returns the ID of the network of an endpoint, which for one that is not
// ours is the network's name.
func (s *simLibrary) networkOf(v hnssim.EndpointView) string {
	if v.Network != cmp.Or(s.name, "azure") {
		return v.Network
	}
	return s.id
}

// setPolicies returns sets as HNS shows them.
func setPolicies(sets []hns.SetPolicy) []hns.EndpointPolicy {
	var sent struct {
		Settings struct{ Policies []hns.EndpointPolicy }
	}
	if err := json.Unmarshal([]byte(encodeSets(hns.Add, sets)), &sent); err != nil {
		panic(err)
	}
	return sent.Settings.Policies
}

func (s *simLibrary) modify(k kind, h handle, text string) error {
	id, err := s.object(k, h)
	if err != nil {
		return err
	}
	var sent struct {
		ResourceType string
		RequestType  hns.Verb
		Settings     struct{ Policies []hns.EndpointPolicy }
	}
	if err := json.Unmarshal([]byte(text), &sent); err != nil || sent.ResourceType != "Policy" {
		return fmt.Errorf("%w in %s", err, text)
	}
	list := sent.Settings.Policies
	switch {
	case k == kindNetwork:
		return answer(s.sim.ModifySets(s.ctx, sent.RequestType, network{Policies: list}.decode().Sets))
	case sent.RequestType == hns.Update:
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

func (s *simLibrary) close(k kind, h handle) error {
	_, err := s.object(k, h)
	delete(s.opened, h)
	return err
}

// answer is all that HNS tells of an error: its code and a text.
func answer(err error) error {
	if op, ok := errors.AsType[*hns.OpError](err); ok {
		return &failure{code: op.Code, err: errors.New(err.Error())}
	}
	return err
}

// onSim returns an adapter over the simulator. The test must leave nothing open.
func onSim(t *testing.T, o Options) (*Adapter, *simLibrary) {
	t.Helper()
	s := &simLibrary{
		ctx: context.WithoutCancel(t.Context()),
		sim: hnsfault.New(hnsfault.Options{}), id: "5C1D0D2E-7A53-4D2B-9A60-0F6C9E0F1A11",
		opened: map[handle]string{},
	}
	o.Network = "azure"
	a := newAdapter(o, s)
	t.Cleanup(func() {
		a.Close()
		require.Empty(t, s.opened, "handles left open")
	})
	return a, s
}

// wholeNode is a whole node behind the calls of the DLLs, for the contract suite.
type wholeNode struct{ *hnsd.Server }

func (n wholeNode) do(export, id string, h handle, texts ...string) (hnstest.CallAnswer, error) {
	a, err := n.Call(export, id, uint64(h), texts...)
	if err == nil && int32(a.Code) < 0 {
		err = &failure{code: a.Code, err: errors.New(a.Record)}
	}
	return a, err
}

func (n wholeNode) enumerate(k kind, query string) (string, error) {
	a, err := n.do("HcnEnumerate"+string(k)+"s", "", 0, query)
	return a.Output, err
}

func (n wholeNode) open(k kind, id string) (handle, error) {
	a, err := n.do("HcnOpen"+string(k), id, 0)
	return handle(a.Handle), err
}

func (n wholeNode) query(k kind, h handle, query string) (string, error) {
	a, err := n.do("HcnQuery"+string(k)+"Properties", "", h, query)
	return a.Output, err
}

func (n wholeNode) modify(k kind, h handle, request string) error {
	_, err := n.do("HcnModify"+string(k), "", h, request)
	return err
}

func (n wholeNode) close(k kind, h handle) error {
	_, err := n.do("HcnClose"+string(k), "", h)
	return err
}

// TestContract runs the contract suite through everything but the DLLs.
func TestContract(t *testing.T) {
	s := hnsd.New(hnsd.Options{})
	system := s.System()
	system.Client = func(network string) (hns.Client, error) {
		a := newAdapter(Options{Network: cmp.Or(network, "azure")}, wholeNode{s})
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
			for _, class := range []error{hns.ErrNotFound, hns.ErrAlreadyExists, hns.ErrInUse, hns.ErrInvalid, hns.ErrUnlisted, hns.ErrUnavailable} {
				require.Equal(t, errors.Is(want, class), errors.Is(err, class), class)
			}
			require.Equal(t, hns.EndpointGone(want), hns.EndpointGone(err))
		})
	}
}
