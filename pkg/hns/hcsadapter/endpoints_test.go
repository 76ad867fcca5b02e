package hcsadapter

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/winnpm/winnpm/pkg/hns"
)

const (
	listState2 = `HcnEnumerateEndpoints {"State":2}`
	listState3 = `HcnEnumerateEndpoints {"State":3}`
	listEp     = `HcnEnumerateEndpoints {"ID":"ep"}`
)

func countOf(calls []string, call string) (n int) {
	for _, c := range calls {
		if c == call {
			n++
		}
	}
	return n
}

func TestGetEndpoint(t *testing.T) {
	const open, query = "HcnOpenEndpoint", "HcnQueryEndpointProperties"
	for name, test := range map[string]struct {
		export  string
		code    uint32
		times   int
		deleted bool
		class   error // nil: it is read all the same
		opens   int
		lists   int
	}{
		"there":                                 {"", 0, 0, false, nil, 1, 0},
		"not found, there in the next":          {open, codeEndpointNotFound, 1, false, nil, 2, 1},
		"vanished in a read, there in the next": {query, codeElementNotFound, 1, false, nil, 2, 1},
		"gone":                                  {open, codeEndpointNotFound, always, true, hns.ErrNotFound, 1, 1},
		"gone by the other code":                {open, codeElementNotFound, always, true, hns.ErrNotFound, 1, 1},
		"gone, and the enumeration says so too": {"Hcn", codeElementNotFound, always, true, hns.ErrNotFound, attempts, attempts},
		"all fails for a moment":                {"Hcn", codeElementNotFound, 2, false, nil, 2, 1},
		"gone by every read, yet listed":        {open, codeEndpointNotFound, always, false, hns.ErrNotFound, attempts, attempts},
		"not found, the enumeration fails":      {listEp, codeRPC, always, true, hns.ErrUnavailable, 1, 1},
		"RPC":                                   {open, codeRPC, always, false, hns.ErrUnavailable, 1, 0},
		"RPC in the read":                       {query, codeRPC, always, false, hns.ErrUnavailable, 1, 0},
		"record with S_OK":                      {open, 0, always, false, hns.ErrUnlisted, 1, 0},
		"a policy, which is odd":                {query, codePolicyNotFound, always, false, hns.ErrUnlisted, 1, 0},
		"a network, which is odd":               {open, codeNetworkNotFound, always, false, hns.ErrUnlisted, 1, 0},
		"used after unload":                     {query, codeUnloaded, always, false, hns.ErrUnlisted, 1, 0},
		"degraded":                              {open, codeDegraded, always, false, hns.ErrUnlisted, 1, 0},
	} {
		t.Run(name, func(t *testing.T) {
			a, f, s := onFaulty(t)
			f.before = failing(test.export, test.code, test.times)
			if test.deleted {
				s.deleteEndpoint(t, "ep")
			}
			e, err := a.GetEndpoint(t.Context(), "ep")
			require.Equal(t, []int{test.opens, test.lists}, []int{countOf(f.calls, "HcnOpenEndpoint ep"), countOf(f.calls, listEp)}, f.calls)
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
		unknown = want{hns.ErrUnlisted, hns.KindEndpoint, "ep"}
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
					s.deleteEndpoint(t, "ep")
				case complete:
					require.NoError(t, s.sim.PutSet(leaf))
				case unseen:
					f.before = failing("HcnEnumerateNetworks", codeRPC, 1)
				case unreadable:
					f.before = failing("HcnOpenEndpoint", codeRPC, 1)
				}
				fail := failing("HcnModifyEndpoint ep", test.code, 1)
				if test.endpoint == deleted {
					fail = failing("HcnOpenEndpoint ep", test.code, 1)
				}
				reads := f.before
				f.before = func(call string) error {
					if err := fail(call); err != nil || reads == nil || strings.HasPrefix(call, "HcnOpenEndpoint") && countOf(f.calls, call) == 1 {
						return err // the first open is that of the write
					}
					return reads(call)
				}
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
				getNetwork(t, a)
				if test.there {
					require.NoError(t, s.sim.PutSet(leaf))
				}
				f.before = failing("HcnModify", code, 1)
				f.calls = nil
				err := test.write(a)
				require.ErrorIs(t, err, test.class)
				op, ok := errors.AsType[*hns.OpError](err)
				require.True(t, ok)
				require.Equal(t, []any{test.kind, code}, []any{op.Kind, op.Code})
				require.Equal(t, test.looked, slices.Contains(f.calls, findNetwork), f.calls)
			})
		}
	}
}

// TestRefusedBeforeACall: a request without content, or with settings that are no JSON, is refused
// before anything is sent.
func TestRefusedBeforeACall(t *testing.T) {
	a, f, _ := onFaulty(t)
	err := a.ReplacePolicies(t.Context(), "ep", []hns.EndpointPolicy{{Type: "QOS", Settings: []byte(`{`)}})
	wantError(t, err, hns.ErrInvalid, "ACL/Update", hns.KindACL, "", 0)
	err = a.ModifySets(t.Context(), hns.Add, nil)
	wantError(t, err, hns.ErrInvalid, "SetPolicy/Add", hns.KindNetwork, "", 0)
	err = a.AddACLs(t.Context(), "ep", nil)
	wantError(t, err, hns.ErrInvalid, "ACL/Add", hns.KindNetwork, "ep", 0)
	require.Empty(t, f.calls)
}
