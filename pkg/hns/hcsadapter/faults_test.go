package hcsadapter

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/tool/hnssim"
)

// faulty fails calls and says which were made: the export, and a filter or the
// ID of an object.
type faulty struct {
	library
	calls  []string
	before func(call string) error // not done when it fails
	after  func(call string) error // done all the same
	ids    map[handle]string       // of what is open
	failed map[handle]bool         // handles of which a use failed
	// misuses are uses of a handle after one that failed, and closes of what is not
	// open.
	misuses []string
}

// use is a use of what is open.
func (f *faulty) use(call string, h handle, do func() error) error {
	if f.failed[h] {
		f.misuses = append(f.misuses, call)
	}
	err := f.through(call, do)
	if err != nil {
		f.failed[h] = true
	}
	return err
}

func (f *faulty) through(call string, do func() error) error {
	f.calls = append(f.calls, call)
	if f.before != nil {
		if err := f.before(call); err != nil {
			return err
		}
	}
	err := do()
	if f.after != nil && err == nil {
		err = f.after(call)
	}
	return err
}

func (f *faulty) enumerate(k kind, query string) (out string, err error) {
	var q struct{ Filter string }
	if err := json.Unmarshal([]byte(query), &q); err != nil {
		return "", err
	}
	err = f.through(fmt.Sprintf("HcnEnumerate%ss %s", k, q.Filter), func() (err error) { out, err = f.library.enumerate(k, query); return err })
	return out, err
}

func (f *faulty) open(k kind, id string) (h handle, err error) {
	err = f.through(fmt.Sprintf("HcnOpen%s %s", k, id), func() (err error) { h, err = f.library.open(k, id); return err })
	if h != 0 && codeOf(err) != 0 { // a failing call opens nothing
		return 0, errors.Join(err, f.library.close(k, h))
	}
	f.ids[h] = id
	return h, err
}

func (f *faulty) query(k kind, h handle, query string) (out string, err error) {
	err = f.use(fmt.Sprintf("HcnQuery%sProperties %s", k, f.ids[h]), h, func() (err error) { out, err = f.library.query(k, h, query); return err })
	return out, err
}

func (f *faulty) modify(k kind, h handle, request string) error {
	return f.use(fmt.Sprintf("HcnModify%s %s", k, f.ids[h]), h, func() error { return f.library.modify(k, h, request) })
}

// close does its work whatever it says: there is no other way to close.
func (f *faulty) close(k kind, h handle) error {
	err := f.library.close(k, h)
	if err != nil {
		f.misuses = append(f.misuses, err.Error())
	}
	return errors.Join(err, f.through(fmt.Sprintf("HcnClose%s %s", k, f.ids[h]), func() error { return nil }))
}

const findNetwork = `HcnEnumerateNetworks {"Name":"azure"}`

// opened is one use of an object.
func opened(k kind, use, id string) []string {
	calls := []string{"HcnOpen" + string(k), use, "HcnClose" + string(k)}
	for i := range calls {
		calls[i] += " " + id
	}
	return calls
}

// reads is a read of objects by their IDs.
func reads(k kind, ids ...string) (calls []string) {
	for _, id := range ids {
		calls = append(calls, opened(k, "HcnQuery"+string(k)+"Properties", id)...)
	}
	return calls
}

func modifies(k kind, id string) []string { return opened(k, "HcnModify"+string(k), id) }

// readsNetwork is a read of our network by its name.
func readsNetwork(id string) []string {
	return slices.Concat([]string{findNetwork}, reads(kindNetwork, id))
}

func newFaulty(l library) *faulty {
	return &faulty{library: l, ids: map[handle]string{}, failed: map[handle]bool{}}
}

func newEndpoint(id string) hnssim.SimEndpoint {
	return hnssim.SimEndpoint{ID: id, Addrs: []netip.Addr{netip.MustParseAddr("10.0.0.1")}}
}

// onFaulty returns an adapter over a service that fails, on a simulator with the
// endpoint ep.
func onFaulty(t *testing.T) (*Adapter, *faulty, *simNode) {
	t.Helper()
	a, s := onSim(t, Options{})
	f := newFaulty(s)
	a.service = service{f}
	require.NoError(t, s.AddEndpoint(newEndpoint("ep")))
	return a, f, s
}

// failing fails the calls that begin so with a code, times in all.
func failing(prefix string, code uint32, times int) func(string) error {
	return func(call string) error {
		if times == 0 || !strings.HasPrefix(call, prefix) {
			return nil
		}
		times--
		return coded(code)
	}
}

// getEndpoint reads an endpoint that can be read.
func getEndpoint(t *testing.T, a *Adapter, id string) hns.Endpoint {
	t.Helper()
	e, err := a.GetEndpoint(t.Context(), id)
	require.NoError(t, err)
	return e
}

// getNetwork reads the network, which can be read.
func getNetwork(t *testing.T, c hns.Client) hns.Network {
	t.Helper()
	n, err := c.Network(t.Context())
	require.NoError(t, err)
	return n
}

func coded(code uint32) error {
	return &failure{code: code, err: fmt.Errorf("HcnCall: text of 0x%x", code)}
}

const always = -1

// Codes that have their class from the table.
const (
	codeRPC              uint32 = 0x800706BA // the RPC server is unavailable
	codeFail             uint32 = 0x80004005 // E_FAIL
	codeUnloaded         uint32 = 0x803B0031 // HCN_E_OBJECT_USED_AFTER_UNLOAD
	codeDegraded         uint32 = 0x803B0017 // HCN_E_DEGRADED_OPERATION
	codeInvalidEndpoint  uint32 = 0x803B000C
	codeInvalidPolicy    uint32 = 0x803B000D
	codePolicyExists     uint32 = 0x803B0012
	codeInvalidReference uint32 = 0x803B001C
	codeHasReferences    uint32 = 0x803B002C
	codeInvalidArgument  uint32 = 0x80070057
)

// wantError checks what the dataplane decides by.
func wantError(t *testing.T, err, class error, op, kind, id string, code uint32) {
	t.Helper()
	got, ok := errors.AsType[*hns.OpError](err)
	require.True(t, ok, "%v", err)
	require.ErrorIs(t, err, class)
	require.Equal(t, []any{op, kind, id, code}, []any{got.Op, got.Kind, got.ID, got.Code})
	lost, odd := errors.Is(class, hns.ErrUnavailable), errors.Is(class, hns.ErrUnlisted)
	require.Equal(t, []bool{lost, odd, lost || odd}, []bool{errors.Is(err, hns.ErrUnavailable), errors.Is(err, hns.ErrUnlisted), hns.OutcomeUnknown(err)}, "%v", err)
}

func TestNetworkErrors(t *testing.T) {
	for name, test := range map[string]struct {
		code  uint32
		class error
	}{
		"not found":            {codeNetworkNotFound, hns.ErrNotFound},
		"element not found":    {codeElementNotFound, hns.ErrNotFound},
		"record with S_OK":     {0, hns.ErrUnlisted},
		"RPC":                  {codeRPC, hns.ErrUnavailable},
		"E_FAIL":               {codeFail, hns.ErrUnlisted},
		"endpoint, which odd":  {codeEndpointNotFound, hns.ErrUnlisted},
		"a refusal, which odd": {codeInvalidArgument, hns.ErrUnlisted},
		"a code of no meaning": {codeDegraded, hns.ErrUnlisted},
		"in no table":          {0x803B0099, hns.ErrUnlisted},
	} {
		for _, export := range []string{"HcnEnumerateNetworks", "HcnOpenNetwork", "HcnQueryNetworkProperties"} {
			t.Run(name+" "+export, func(t *testing.T) {
				a, f, _ := onFaulty(t)
				f.before = failing(export, test.code, 1)
				_, err := a.Network(t.Context())
				code := test.code
				if code == codeNetworkNotFound && export != "HcnEnumerateNetworks" {
					code = 0 // deleted after it was listed, which is as if it was not listed
				}
				wantError(t, err, test.class, "Network/Get", hns.KindNetwork, "azure", code)
				n := getNetwork(t, a)
				require.Equal(t, "azure", n.Name)
			})
		}
	}
}

// TestNetworkNotThere: a name differs by its case too, whatever HNS makes of the filter.
func TestNetworkNotThere(t *testing.T) {
	a, f, s := onFaulty(t)
	getNetwork(t, a)
	s.remake(s.id, "Azure")
	f.library = deaf{s, "Name"}
	_, err := a.Network(t.Context())
	wantError(t, err, hns.ErrNotFound, "Network/Get", hns.KindNetwork, "azure", 0)
	_, err = a.EndpointIDs(t.Context())
	wantError(t, err, hns.ErrUnavailable, "Endpoint/Enumerate", hns.KindNetwork, "azure", 0)
	err = a.ModifySets(t.Context(), hns.Add, []hns.SetPolicy{leaf})
	wantError(t, err, hns.ErrUnavailable, "SetPolicy/Add", hns.KindSet, leaf.ID, 0)
	require.Equal(t, slices.Repeat(readsNetwork(s.id), 4), f.calls, "nothing else is asked meanwhile")
}

var leaf = hns.SetPolicy{ID: "azure-npm-1", Name: "ns-x", Type: hns.IPSet, Values: []string{"10.0.0.1"}}

// TestNetworkMadeAnew: a network that was deleted and made again has another
// ID. Nobody writes to the new one what was planned for the old one.
func TestNetworkMadeAnew(t *testing.T) {
	a, f, s := onFaulty(t)
	require.NoError(t, a.ModifySets(t.Context(), hns.Add, []hns.SetPolicy{leaf}))
	require.Equal(t, slices.Concat(readsNetwork(s.id), modifies(kindNetwork, s.id)), f.calls)
	before := s.id
	s.remake("00000000-0000-0000-0000-000000000002", "azure")
	f.calls = nil
	err := a.ModifySets(t.Context(), hns.Update, []hns.SetPolicy{leaf})
	wantError(t, err, hns.ErrUnavailable, "SetPolicy/Update", hns.KindSet, leaf.ID, codeNetworkNotFound)
	require.Equal(t, []string{"HcnOpenNetwork " + before}, f.calls)
	require.NoError(t, a.ModifySets(t.Context(), hns.Update, []hns.SetPolicy{leaf}))

	s.remake("00000000-0000-0000-0000-000000000003", "azure")
	_, err = a.GetEndpoint(t.Context(), "ep")
	require.NoError(t, err, "a read of an endpoint finds out by itself")
	f.calls = nil
	require.NoError(t, a.ModifySets(t.Context(), hns.Update, []hns.SetPolicy{leaf}))
	require.Equal(t, modifies(kindNetwork, s.id), f.calls)
}

// TestSetErrors: the class of an error follows from the class of its code (hns.TestCodeClasses), and
// from the verb.
func TestSetErrors(t *testing.T) {
	for name, test := range map[string]struct {
		verb  hns.Verb
		code  uint32
		class error
	}{
		"missing":              {hns.Remove, codePolicyNotFound, hns.ErrNotFound},
		"member missing":       {hns.Add, codePolicyNotFound, hns.ErrNotFound},
		"element not found":    {hns.Remove, codeElementNotFound, hns.ErrNotFound},
		"or of an IPSET":       {hns.Add, codeElementNotFound, hns.ErrUnlisted},
		"exists":               {hns.Add, codePolicyExists, hns.ErrAlreadyExists},
		"exists on update":     {hns.Update, codePolicyExists, hns.ErrUnlisted},
		"in use":               {hns.Remove, codeHasReferences, hns.ErrInUse},
		"in use on add":        {hns.Add, codeHasReferences, hns.ErrUnlisted},
		"invalid policy":       {hns.Add, codeInvalidPolicy, hns.ErrInvalid},
		"JSON reference":       {hns.Update, codeInvalidReference, hns.ErrInvalid},
		"argument":             {hns.Update, codeInvalidArgument, hns.ErrInvalid},
		"network gone":         {hns.Update, codeNetworkNotFound, hns.ErrUnavailable},
		"network invalid":      {hns.Update, 0x803B000A, hns.ErrUnlisted},
		"endpoint, which odd":  {hns.Update, codeEndpointNotFound, hns.ErrUnlisted},
		"not attached, odd":    {hns.Update, codeInvalidEndpoint, hns.ErrUnlisted},
		"record with S_OK":     {hns.Update, 0, hns.ErrUnlisted},
		"RPC":                  {hns.Update, codeRPC, hns.ErrUnavailable},
		"E_FAIL":               {hns.Update, codeFail, hns.ErrUnlisted},
		"a code of no meaning": {hns.Update, codeDegraded, hns.ErrUnlisted},
		"in no table":          {hns.Update, 0x803B0099, hns.ErrUnlisted},
	} {
		t.Run(name, func(t *testing.T) {
			a, f, _ := onFaulty(t)
			f.before = failing("HcnModifyNetwork", test.code, 1)
			err := a.ModifySets(t.Context(), test.verb, []hns.SetPolicy{leaf})
			wantError(t, err, test.class, "SetPolicy/"+string(test.verb), hns.KindSet, leaf.ID, test.code)
			err = a.ModifySets(t.Context(), test.verb, []hns.SetPolicy{leaf, {ID: "azure-npm-2", Name: "e", Type: hns.IPSet}})
			require.Equal(t, test.verb == hns.Remove, err != nil, "%v", err)
		})
	}
}

// TestSetElementNotFound: the code speaks of anything, so it counts as a refusal only when a set is seen to be missing.
func TestSetElementNotFound(t *testing.T) {
	set := func(id string, members ...string) hns.SetPolicy {
		p := hns.SetPolicy{ID: "azure-npm-" + id, Name: id, Type: hns.IPSet}
		for _, m := range members {
			p.Type = hns.NestedIPSet
			p.Values = append(p.Values, "azure-npm-"+m)
		}
		return p
	}
	for name, test := range map[string]struct {
		verb    hns.Verb
		sets    []hns.SetPolicy
		done    bool // before the error
		missing bool
	}{
		"member":                    {hns.Add, []hns.SetPolicy{set("list", "there", "gone")}, false, true},
		"member on update":          {hns.Update, []hns.SetPolicy{set("list", "gone")}, false, true},
		"no member":                 {hns.Add, []hns.SetPolicy{set("list", "there")}, false, false},
		"no member, done":           {hns.Add, []hns.SetPolicy{set("list", "there")}, true, false},
		"add":                       {hns.Add, []hns.SetPolicy{set("new")}, false, false},
		"remove":                    {hns.Remove, []hns.SetPolicy{set("gone")}, false, true},
		"remove of one of two":      {hns.Remove, []hns.SetPolicy{set("gone"), set("there")}, false, true},
		"remove of what is there":   {hns.Remove, []hns.SetPolicy{set("there")}, false, false},
		"remove of both, done":      {hns.Remove, []hns.SetPolicy{set("there"), set("too")}, true, false},
		"remove of both, not there": {hns.Remove, []hns.SetPolicy{set("gone"), set("lost")}, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			a, f, _ := onFaulty(t)
			require.NoError(t, a.ModifySets(t.Context(), hns.Add, []hns.SetPolicy{set("there"), set("too")}))
			if fail := failing("HcnModifyNetwork", codeElementNotFound, 1); test.done {
				f.after = fail
			} else {
				f.before = fail
			}
			err := a.ModifySets(t.Context(), test.verb, test.sets)
			require.Equal(t, codeElementNotFound, codeOf(err))
			require.Equal(t, test.missing, errors.Is(err, hns.ErrNotFound), "%v", err)
			require.Equal(t, !test.missing, hns.OutcomeUnknown(err), "%v", err)
		})
	}
}

// TestSetElementNotFoundElsewhere: the network has gone with all its sets.
func TestSetElementNotFoundElsewhere(t *testing.T) {
	for name, spoil := range map[string]func(*faulty, *simNode){
		"another network": func(_ *faulty, s *simNode) { s.remake("00000000-0000-0000-0000-000000000002", "azure") },
		"no network":      func(_ *faulty, s *simNode) { s.remake(s.id, "other") },
		"cannot be read": func(f *faulty, _ *simNode) {
			f.before = failing("HcnEnumerateNetworks", codeRPC, always)
		},
	} {
		t.Run(name, func(t *testing.T) {
			a, f, s := onFaulty(t)
			f.before = func(call string) error {
				if !strings.HasPrefix(call, "HcnModify") {
					return nil
				}
				spoil(f, s)
				return coded(codeElementNotFound)
			}
			err := a.ModifySets(t.Context(), hns.Remove, []hns.SetPolicy{leaf})
			wantError(t, err, hns.ErrUnlisted, "SetPolicy/Remove", hns.KindSet, leaf.ID, codeElementNotFound)
		})
	}
}

// TestSetReadBeforeFails: an error of that read is not one of the write.
func TestSetReadBeforeFails(t *testing.T) {
	for _, code := range []uint32{0, codeNetworkNotFound, codePolicyNotFound, codeElementNotFound, codeInvalidArgument, codePolicyExists, codeRPC} {
		a, f, _ := onFaulty(t)
		f.before = failing("HcnEnumerateNetworks", code, 1)
		err := a.ModifySets(t.Context(), hns.Add, []hns.SetPolicy{leaf})
		wantError(t, err, hns.ErrUnavailable, "SetPolicy/Add", hns.KindSet, leaf.ID, code)
		require.Equal(t, []string{findNetwork}, f.calls)
	}
}

// TestWriteDoneThenError: the reply to a write is lost.
func TestWriteDoneThenError(t *testing.T) {
	rule := hns.ACL{ID: "azure-acl-x.web", Action: hns.Allow, Direction: hns.In, RuleType: hns.Switch, Priority: 222}
	type classes struct{ sets, acls error }
	for code, want := range map[uint32]classes{
		0:                   {hns.ErrUnlisted, hns.ErrUnlisted},
		codeNetworkNotFound: {hns.ErrUnavailable, hns.ErrUnlisted},
		codeRPC:             {hns.ErrUnavailable, hns.ErrUnavailable},
		0x80070006:          {hns.ErrUnlisted, hns.ErrUnlisted},
	} {
		a, f, s := onFaulty(t)
		f.after = failing("HcnModify", code, 2)
		err := a.ModifySets(t.Context(), hns.Add, []hns.SetPolicy{leaf})
		wantError(t, err, want.sets, "SetPolicy/Add", hns.KindSet, leaf.ID, code)
		err = a.AddACLs(t.Context(), "ep", []hns.ACL{rule})
		wantError(t, err, want.acls, "ACL/Add", hns.KindEndpoint, "ep", code)
		require.Equal(t, []int{1, 1}, []int{s.sim.Counts()["SetPolicy/Add"], s.sim.Counts()["ACL/Add"]})
		n := getNetwork(t, a)
		require.Len(t, n.Sets, 1, "it was done")
		e := getEndpoint(t, a, "ep")
		require.Len(t, e.Policies, 1, "it was done")
	}
}
