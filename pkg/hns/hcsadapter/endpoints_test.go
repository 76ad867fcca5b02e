package hcsadapter

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/pkg/hns/hnssim"
)

const (
	readState2 = `endpoints {"State":2}`
	readState3 = `endpoints {"State":3}`
	readEp     = `endpoints {"ID":"ep"}`
)

func ids(eps []hns.Endpoint) []string {
	var out []string
	for _, e := range eps {
		out = append(out, e.ID)
	}
	slices.Sort(out)
	return out
}

func TestListIsOfOurNetwork(t *testing.T) {
	a, f, s := onFaulty(t)
	for _, n := range []hnssim.NewEndpoint{
		{ID: "hyper-v", State: hnssim.Attached},
		{ID: "remote", Remote: true},
		{ID: "other", Network: "nat"},
		{ID: "created", State: hnssim.Created},
		{ID: "degraded", State: hnssim.Degraded},
	} {
		n.Addrs = []netip.Addr{netip.MustParseAddr("10.0.0.2")}
		require.NoError(t, s.sim.CreateEndpoint(n))
	}
	eps, err := a.ListEndpoints(t.Context())
	require.NoError(t, err)
	require.Equal(t, []string{"ep", "hyper-v"}, ids(eps))
	require.Equal(t, []string{`networks {"Name":"azure"}`, readState2, readState3}, f.calls)

	s.id = strings.ToLower(s.id) // a GUID is the same in either case
	eps, err = a.ListEndpoints(t.Context())
	require.NoError(t, err)
	require.Equal(t, []string{"ep", "hyper-v"}, ids(eps))
	require.Len(t, f.calls, 3+2, "found without reading the network again")
}

// TestListWhileItMoves: an endpoint that comes up between the two reads is in
// both, and listed once, as it was read last.
func TestListWhileItMoves(t *testing.T) {
	a, f, s := onFaulty(t)
	require.NoError(t, s.sim.SetState("ep", hnssim.Attached))
	nat := hns.EndpointPolicy{Type: "OutBoundNAT", Settings: []byte(`{}`)}
	f.before = func(call string) error {
		if call != readState3 {
			return nil
		}
		require.NoError(t, s.sim.SetState("ep", hnssim.AttachedSharing))
		return s.sim.SetPolicies("ep", []hns.EndpointPolicy{nat})
	}
	eps, err := a.ListEndpoints(t.Context())
	require.NoError(t, err)
	require.Equal(t, []string{"ep"}, ids(eps))
	require.Equal(t, []hns.EndpointPolicy{nat}, eps[0].Policies)
}

func TestListEmpty(t *testing.T) {
	a, f, s := onFaulty(t)
	require.NoError(t, s.sim.DeleteEndpoint("ep"))
	eps, err := a.ListEndpoints(t.Context())
	require.NoError(t, err)
	require.Empty(t, eps)
	require.Len(t, f.calls, 3, "the network was just read")
	eps, err = a.ListEndpoints(t.Context())
	require.NoError(t, err)
	require.Empty(t, eps)
	require.Len(t, f.calls, 3+3, "it may be another one by now")
}

// TestListWhileOneVanishes: hcn fails the whole list, which is read again.
func TestListWhileOneVanishes(t *testing.T) {
	for _, code := range []uint32{codeEndpointNotFound, codeElementNotFound} {
		a, f, s := onFaulty(t)
		require.NoError(t, s.sim.CreateEndpoint(hnssim.NewEndpoint{ID: "vanishing"}))
		left := 3
		f.before = func(call string) error {
			if call != readState3 || left == 0 {
				return nil
			}
			if left--; left == 0 {
				require.NoError(t, s.sim.DeleteEndpoint("vanishing"))
			}
			return coded(code)
		}
		eps, err := a.ListEndpoints(t.Context())
		require.NoError(t, err)
		require.Equal(t, []string{"ep"}, ids(eps))
		require.Equal(t, []string{`networks {"Name":"azure"}`, readState2, readState3, readState3, readState3, readState3}, f.calls)
	}
}

func TestListFails(t *testing.T) {
	for name, test := range map[string]struct {
		code  uint32
		reads int
	}{
		"one vanishes each time":  {codeEndpointNotFound, attempts},
		"or with the other code":  {codeElementNotFound, attempts},
		"RPC is not tried again":  {codeRPC, 1},
		"record with S_OK":        {0, 1},
		"the network is no more":  {codeNetworkNotFound, 1},
		"a policy, which is odd":  {codePolicyNotFound, 1},
		"a refusal, which is odd": {codeInvalidArgument, 1},
	} {
		t.Run(name, func(t *testing.T) {
			a, f, _ := onFaulty(t)
			f.before = failing(readState3, test.code, always)
			_, err := a.ListEndpoints(t.Context())
			wantError(t, err, hns.ErrUnavailable, "Endpoint/List", hns.KindNetwork, "azure", test.code)
			require.Len(t, f.calls, 2+test.reads)
		})
	}
}

func TestGetEndpoint(t *testing.T) {
	for name, test := range map[string]struct {
		code  uint32
		times int
		class error // nil: it is read all the same
		reads int
	}{
		"vanished in a read, there in the next": {codeEndpointNotFound, 1, nil, 2},
		"gone by every read":                    {codeEndpointNotFound, always, hns.ErrNotFound, attempts},
		"gone by the other code":                {codeElementNotFound, always, hns.ErrNotFound, attempts},
		"RPC":                                   {codeRPC, always, hns.ErrUnavailable, 1},
		"record with S_OK":                      {0, always, hns.ErrUnavailable, 1},
		"a policy, which is odd":                {codePolicyNotFound, always, hns.ErrUnavailable, 1},
	} {
		t.Run(name, func(t *testing.T) {
			a, f, _ := onFaulty(t)
			f.before = failing("endpoints", test.code, test.times)
			e, err := a.GetEndpoint(t.Context(), "ep")
			require.Len(t, f.calls, test.reads)
			require.Equal(t, readEp, f.calls[0])
			if test.class == nil {
				require.NoError(t, err)
				require.Equal(t, "ep", e.ID)
				return
			}
			wantError(t, err, test.class, "Endpoint/Get", hns.KindEndpoint, "ep", test.code)
			require.Equal(t, errors.Is(test.class, hns.ErrNotFound), hns.EndpointGone(err))
		})
	}
}

// TestWriteNotFound: a code that may speak of the endpoint or of a set is
// decided by a read of the endpoint.
func TestWriteNotFound(t *testing.T) {
	plain := hns.ACL{ID: "azure-acl-x.one", Action: hns.Allow, Direction: hns.In, RuleType: hns.Switch, Priority: 222}
	naming := plain
	naming.LocalAddresses = "azure-npm-1"
	type want struct {
		class    error
		kind, id string
	}
	var (
		gone    = want{hns.ErrNotFound, hns.KindEndpoint, "ep"}
		noSet   = want{hns.ErrNotFound, hns.KindSet, "azure-npm-1"}
		unknown = want{hns.ErrUnavailable, hns.KindEndpoint, "ep"}
	)
	const there, deleted, unreadable, complete, unseen = "there", "deleted", "unreadable", "there, with the set", "there, without network"
	for name, test := range map[string]struct {
		code     uint32
		rule     hns.ACL
		endpoint string
		want     want
	}{
		"endpoint code, deleted":           {codeEndpointNotFound, naming, deleted, gone},
		"endpoint code, there":             {codeEndpointNotFound, naming, there, unknown},
		"endpoint code, unreadable":        {codeEndpointNotFound, naming, unreadable, unknown},
		"element code, deleted":            {codeElementNotFound, naming, deleted, gone},
		"element code, deleted, no set":    {codeElementNotFound, plain, deleted, gone},
		"element code, there":              {codeElementNotFound, naming, there, noSet},
		"element code, complete":           {codeElementNotFound, naming, complete, unknown},
		"element code, sets not seen":      {codeElementNotFound, naming, unseen, unknown},
		"policy code, complete":            {codePolicyNotFound, naming, complete, unknown},
		"element code, there, no set":      {codeElementNotFound, plain, there, unknown},
		"element code, unreadable":         {codeElementNotFound, naming, unreadable, unknown},
		"policy code, deleted":             {codePolicyNotFound, naming, deleted, gone},
		"policy code, there":               {codePolicyNotFound, naming, there, noSet},
		"policy code, there, no set":       {codePolicyNotFound, plain, there, unknown},
		"policy code, unreadable, no set":  {codePolicyNotFound, plain, unreadable, unknown},
		"the network's code, there":        {codeNetworkNotFound, naming, there, unknown},
		"the port's code, there":           {0x803B0007, naming, there, unknown},
		"exists, which Add does not check": {codePolicyExists, naming, there, unknown},
	} {
		for op, write := range map[string]func(a *Adapter) error{
			"ACL/Add": func(a *Adapter) error { return a.AddACLs(t.Context(), "ep", []hns.ACL{test.rule}) },
			"ACL/Update": func(a *Adapter) error {
				return a.ReplacePolicies(t.Context(), "ep", []hns.EndpointPolicy{hns.NewACLPolicy(test.rule)})
			},
		} {
			t.Run(name+" "+op, func(t *testing.T) {
				a, f, s := onFaulty(t)
				switch test.endpoint {
				case deleted:
					require.NoError(t, s.sim.DeleteEndpoint("ep"))
				case complete:
					require.NoError(t, s.sim.PutSet(leaf))
				case unseen:
					f.before = failing("networks", codeRPC, 1)
				case unreadable:
					f.before = failing("endpoints", codeRPC, 1)
				}
				f.service = &faulty{service: s, before: failing("modify endpoint ep", test.code, 1)}
				wantError(t, write(a), test.want.class, op, test.want.kind, test.want.id, test.code)
			})
		}
	}
}

// TestRefusedForAMissingSet: whatever code says that the content is not
// accepted, a set that is not there explains it, and what names it must not
// count as refused: it would be left out for good.
func TestRefusedForAMissingSet(t *testing.T) {
	nest := hns.SetPolicy{ID: "azure-npm-2", Name: "nslabel-x", Type: hns.NestedIPSet, Values: []string{leaf.ID}}
	plain := hns.ACL{ID: "azure-acl-x.one", Action: hns.Allow, Direction: hns.In, RuleType: hns.Switch, Priority: 222}
	naming := plain
	naming.LocalAddresses = leaf.ID
	add := func(rule hns.ACL) func(*Adapter) error {
		return func(a *Adapter) error { return a.AddACLs(t.Context(), "ep", []hns.ACL{rule}) }
	}
	for name, test := range map[string]struct {
		write  func(*Adapter) error
		there  bool // the set
		class  error
		kind   string
		looked bool // at the network
	}{
		"rule":            {add(naming), false, hns.ErrNotFound, hns.KindSet, true},
		"rule, complete":  {add(naming), true, hns.ErrInvalid, hns.KindACL, true},
		"rule, no set":    {add(plain), false, hns.ErrInvalid, hns.KindACL, false},
		"nested":          {func(a *Adapter) error { return a.ModifySets(t.Context(), hns.Update, []hns.SetPolicy{nest}) }, false, hns.ErrNotFound, hns.KindSet, true},
		"nested complete": {func(a *Adapter) error { return a.ModifySets(t.Context(), hns.Update, []hns.SetPolicy{nest}) }, true, hns.ErrInvalid, hns.KindSet, true},
		"leaf":            {func(a *Adapter) error { return a.ModifySets(t.Context(), hns.Update, []hns.SetPolicy{leaf}) }, false, hns.ErrInvalid, hns.KindSet, false},
	} {
		for _, code := range []uint32{codeInvalidPolicy, codeInvalidReference, codeInvalidArgument} {
			t.Run(fmt.Sprintf("%s %#x", name, code), func(t *testing.T) {
				a, f, s := onFaulty(t)
				_, err := a.Network(t.Context())
				require.NoError(t, err)
				if test.there {
					require.NoError(t, s.sim.PutSet(leaf))
				}
				f.before = failing("modify", code, 1)
				f.calls = nil
				err = test.write(a)
				require.ErrorIs(t, err, test.class)
				op, ok := errors.AsType[*hns.OpError](err)
				require.True(t, ok)
				require.Equal(t, []any{test.kind, code}, []any{op.Kind, op.Code})
				require.Equal(t, test.looked, len(f.calls) == 2, f.calls)
			})
		}
	}
}

// TestWriteOfNoJSON: it is refused before anything is sent.
func TestWriteOfNoJSON(t *testing.T) {
	a, f, _ := onFaulty(t)
	err := a.ReplacePolicies(t.Context(), "ep", []hns.EndpointPolicy{{Type: "QOS", Settings: []byte(`{`)}})
	wantError(t, err, hns.ErrInvalid, "ACL/Update", hns.KindACL, "", 0)
	require.Empty(t, f.calls)
}

// TestForeignSurvives: what HNS shows in a form of its own is sent back with
// its meaning, and from then on with its bytes.
func TestForeignSurvives(t *testing.T) {
	a, _, s := onFaulty(t)
	shown := `{ "Exceptions" : ["10.0.0.0/8"], "Name":"<a & b>", "N":1.50 }`
	require.NoError(t, s.sim.SetPolicies("ep", []hns.EndpointPolicy{{Type: "OutBoundNAT", Settings: []byte(shown)}}))
	read := func() []hns.EndpointPolicy {
		e, err := a.GetEndpoint(t.Context(), "ep")
		require.NoError(t, err)
		return e.Policies
	}
	first := read()
	require.NoError(t, a.ReplacePolicies(t.Context(), "ep", first))
	require.Equal(t, first, read())
	require.Equal(t, first, s.sim.Endpoints()[0].Policies, "HNS has what was read, byte for byte")
	require.JSONEq(t, shown, string(first[0].Settings))
}
