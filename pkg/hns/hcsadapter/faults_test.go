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
	"github.com/winnpm/winnpm/pkg/hns/hnssim"
)

// faulty fails calls and says which were made.
type faulty struct {
	service
	calls  []string
	before func(call string) error // not done when it fails
	after  func(call string) error // done all the same
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

func (f *faulty) networks(filter string) (out []network, err error) {
	err = f.through("networks "+filter, func() (err error) { out, err = f.service.networks(filter); return err })
	return out, err
}

func (f *faulty) endpoints(filter string) (out []endpoint, err error) {
	err = f.through("endpoints "+filter, func() (err error) { out, err = f.service.endpoints(filter); return err })
	return out, err
}

func (f *faulty) modifyNetwork(id string, verb hns.Verb, settings json.RawMessage) error {
	return f.through("modify network "+id, func() error { return f.service.modifyNetwork(id, verb, settings) })
}

func (f *faulty) modifyEndpoint(id string, verb hns.Verb, settings json.RawMessage) error {
	return f.through("modify endpoint "+id, func() error { return f.service.modifyEndpoint(id, verb, settings) })
}

// version fails as HNSCall does: without a code.
func (f *faulty) version() (out Version, err error) {
	err = f.through("version", func() (err error) { out, err = f.service.version(); return err })
	return out, err
}

// onFaulty returns an adapter over a service that fails, on a simulator with the
// endpoint ep.
func onFaulty(t *testing.T) (*Adapter, *faulty, *simService) {
	t.Helper()
	a, s := onSim(t, Options{})
	f := &faulty{service: s}
	a.service = f
	require.NoError(t, s.sim.CreateEndpoint(hnssim.NewEndpoint{ID: "ep", Addrs: []netip.Addr{netip.MustParseAddr("10.0.0.1")}}))
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

func coded(code uint32) error {
	return &failure{code: code, err: fmt.Errorf("hcnCall failed in Win32: text (0x%x)", code)}
}

const (
	always         = -1
	codeRPC uint32 = 0x800706BA // the RPC server is unavailable
)

// wantError checks what the dataplane decides by.
func wantError(t *testing.T, err, class error, op, kind, id string, code uint32) {
	t.Helper()
	got, ok := errors.AsType[*hns.OpError](err)
	require.True(t, ok, "%v", err)
	require.ErrorIs(t, err, class)
	require.Equal(t, []any{op, kind, id, code}, []any{got.Op, got.Kind, got.ID, got.Code})
	require.Equal(t, errors.Is(class, hns.ErrUnavailable), hns.OutcomeUnknown(err), "%v", err)
}

func TestNetworkErrors(t *testing.T) {
	for name, test := range map[string]struct {
		code  uint32
		class error
	}{
		"not found":            {codeNetworkNotFound, hns.ErrNotFound},
		"element not found":    {codeElementNotFound, hns.ErrNotFound},
		"record with S_OK":     {0, hns.ErrUnavailable},
		"RPC":                  {codeRPC, hns.ErrUnavailable},
		"endpoint, which odd":  {codeEndpointNotFound, hns.ErrUnavailable},
		"a code of no meaning": {0x803B0017, hns.ErrUnavailable},
	} {
		t.Run(name, func(t *testing.T) {
			a, f, _ := onFaulty(t)
			f.before = failing("networks", test.code, 1)
			_, err := a.Network(t.Context())
			wantError(t, err, test.class, "Network/Get", hns.KindNetwork, "azure", test.code)
			n, err := a.Network(t.Context())
			require.NoError(t, err)
			require.Equal(t, "azure", n.Name)
		})
	}
}

// TestNetworkNotThere: a name differs by its case too.
func TestNetworkNotThere(t *testing.T) {
	a, f, s := onFaulty(t)
	_, err := a.Network(t.Context())
	require.NoError(t, err)
	s.sim = hnssim.New(hnssim.Options{Network: "Azure"})
	_, err = a.Network(t.Context())
	wantError(t, err, hns.ErrNotFound, "Network/Get", hns.KindNetwork, "azure", 0)
	_, err = a.ListEndpoints(t.Context())
	wantError(t, err, hns.ErrUnavailable, "Endpoint/List", hns.KindNetwork, "azure", 0)
	err = a.ModifySets(t.Context(), hns.Add, []hns.SetPolicy{leaf})
	wantError(t, err, hns.ErrUnavailable, "SetPolicy/Add", hns.KindSet, leaf.ID, 0)
	require.Equal(t, slices.Repeat([]string{`networks {"Name":"azure"}`}, 4), f.calls, "nothing else is asked meanwhile")
}

var leaf = hns.SetPolicy{ID: "azure-npm-1", Name: "ns-x", Type: hns.IPSet, Values: []string{"10.0.0.1"}}

// TestNetworkMadeAnew: a network that was deleted and made again has another
// ID. Nobody writes to the new one what was planned for the old one.
func TestNetworkMadeAnew(t *testing.T) {
	a, f, s := onFaulty(t)
	require.NoError(t, a.ModifySets(t.Context(), hns.Add, []hns.SetPolicy{leaf}))
	require.Equal(t, []string{`networks {"Name":"azure"}`, "modify network " + s.id}, f.calls)
	before := s.id
	s.id = "00000000-0000-0000-0000-000000000002"
	f.calls = nil
	err := a.ModifySets(t.Context(), hns.Update, []hns.SetPolicy{leaf})
	wantError(t, err, hns.ErrUnavailable, "SetPolicy/Update", hns.KindSet, leaf.ID, codeNetworkNotFound)
	require.Equal(t, []string{"modify network " + before}, f.calls)
	require.NoError(t, a.ModifySets(t.Context(), hns.Update, []hns.SetPolicy{leaf}))

	s.id = "00000000-0000-0000-0000-000000000003"
	eps, err := a.ListEndpoints(t.Context())
	require.NoError(t, err)
	require.Len(t, eps, 1, "an empty listing finds out by itself")
	f.calls = nil
	require.NoError(t, a.ModifySets(t.Context(), hns.Update, []hns.SetPolicy{leaf}))
	require.Equal(t, []string{"modify network " + s.id}, f.calls)
}

func TestSetErrors(t *testing.T) {
	for name, test := range map[string]struct {
		verb  hns.Verb
		code  uint32
		class error
	}{
		"missing":              {hns.Remove, codePolicyNotFound, hns.ErrNotFound},
		"member missing":       {hns.Add, codePolicyNotFound, hns.ErrNotFound},
		"element not found":    {hns.Remove, codeElementNotFound, hns.ErrNotFound},
		"or of an IPSET":       {hns.Add, codeElementNotFound, hns.ErrUnavailable},
		"exists":               {hns.Add, codePolicyExists, hns.ErrAlreadyExists},
		"exists on update":     {hns.Update, codePolicyExists, hns.ErrUnavailable},
		"in use":               {hns.Remove, codeHasReferences, hns.ErrInUse},
		"in use on add":        {hns.Add, codeHasReferences, hns.ErrUnavailable},
		"invalid policy":       {hns.Add, codeInvalidPolicy, hns.ErrInvalid},
		"invalid type":         {hns.Add, codeInvalidType, hns.ErrInvalid},
		"unsupported":          {hns.Update, codeUnsupported, hns.ErrInvalid},
		"JSON":                 {hns.Update, codeInvalidJSON, hns.ErrInvalid},
		"JSON reference":       {hns.Update, codeInvalidReference, hns.ErrInvalid},
		"IP":                   {hns.Update, codeInvalidIP, hns.ErrInvalid},
		"argument":             {hns.Update, codeInvalidArgument, hns.ErrInvalid},
		"network gone":         {hns.Update, codeNetworkNotFound, hns.ErrUnavailable},
		"network invalid":      {hns.Update, 0x803B000A, hns.ErrUnavailable},
		"endpoint, which odd":  {hns.Update, codeEndpointNotFound, hns.ErrUnavailable},
		"not attached, odd":    {hns.Update, codeInvalidEndpoint, hns.ErrUnavailable},
		"record with S_OK":     {hns.Update, 0, hns.ErrUnavailable},
		"RPC":                  {hns.Update, codeRPC, hns.ErrUnavailable},
		"a code of no meaning": {hns.Update, 0x803B0017, hns.ErrUnavailable},
	} {
		t.Run(name, func(t *testing.T) {
			a, f, _ := onFaulty(t)
			f.before = failing("modify network", test.code, 1)
			err := a.ModifySets(t.Context(), test.verb, []hns.SetPolicy{leaf})
			wantError(t, err, test.class, "SetPolicy/"+string(test.verb), hns.KindSet, leaf.ID, test.code)
			err = a.ModifySets(t.Context(), test.verb, []hns.SetPolicy{leaf, {ID: "azure-npm-2", Name: "e", Type: hns.IPSet}})
			require.Equal(t, test.verb == hns.Remove, err != nil, "%v", err)
		})
	}
}

// TestSetElementNotFound: the code speaks of anything, and may come after the
// write, so it counts as a refusal only when a set is seen to be missing.
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
			if fail := failing("modify network", codeElementNotFound, 1); test.done {
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
	for name, spoil := range map[string]func(*faulty, *simService){
		"another network": func(_ *faulty, s *simService) { s.id = "00000000-0000-0000-0000-000000000002" },
		"no network":      func(_ *faulty, s *simService) { s.sim = hnssim.New(hnssim.Options{Network: "other"}) },
		"cannot be read": func(f *faulty, _ *simService) {
			f.service = &faulty{service: f.service, before: failing("networks", codeRPC, always)}
		},
	} {
		t.Run(name, func(t *testing.T) {
			a, f, s := onFaulty(t)
			f.before = func(call string) error {
				if !strings.HasPrefix(call, "modify") {
					return nil
				}
				spoil(f, s)
				return coded(codeElementNotFound)
			}
			err := a.ModifySets(t.Context(), hns.Remove, []hns.SetPolicy{leaf})
			wantError(t, err, hns.ErrUnavailable, "SetPolicy/Remove", hns.KindSet, leaf.ID, codeElementNotFound)
		})
	}
}

// TestSetReadBeforeFails: an error of that read is not one of the write.
func TestSetReadBeforeFails(t *testing.T) {
	for _, code := range []uint32{0, codeNetworkNotFound, codePolicyNotFound, codeElementNotFound, codeInvalidArgument, codePolicyExists, codeRPC} {
		a, f, _ := onFaulty(t)
		f.before = failing("networks", code, 1)
		err := a.ModifySets(t.Context(), hns.Add, []hns.SetPolicy{leaf})
		wantError(t, err, hns.ErrUnavailable, "SetPolicy/Add", hns.KindSet, leaf.ID, code)
		require.Equal(t, []string{`networks {"Name":"azure"}`}, f.calls)
	}
}

// TestWriteDoneThenError: the read that hcn makes after a write fails.
func TestWriteDoneThenError(t *testing.T) {
	rule := hns.ACL{ID: "azure-acl-x.web", Action: hns.Allow, Direction: hns.In, RuleType: hns.Switch, Priority: 222}
	for _, code := range []uint32{0, codeNetworkNotFound, codeRPC, 0x80070006} {
		a, f, s := onFaulty(t)
		f.after = failing("modify", code, 2)
		err := a.ModifySets(t.Context(), hns.Add, []hns.SetPolicy{leaf})
		wantError(t, err, hns.ErrUnavailable, "SetPolicy/Add", hns.KindSet, leaf.ID, code)
		err = a.AddACLs(t.Context(), "ep", []hns.ACL{rule})
		wantError(t, err, hns.ErrUnavailable, "ACL/Add", hns.KindEndpoint, "ep", code)
		require.Equal(t, map[string]int{"Network/Get": 1, "SetPolicy/Add": 1, "ACL/Add": 1}, s.sim.Counts())
		n, err := a.Network(t.Context())
		require.NoError(t, err)
		require.Len(t, n.Sets, 1, "it was done")
		e, err := a.GetEndpoint(t.Context(), "ep")
		require.NoError(t, err)
		require.Len(t, e.Policies, 1, "it was done")
	}
}

func TestVersion(t *testing.T) {
	a, f, _ := onFaulty(t)
	v, err := a.Version(t.Context())
	require.NoError(t, err)
	require.Equal(t, Version{Major: 15, Minor: 1}, v)
	f.before = func(string) error { return fmt.Errorf("%w: load vmcompute.dll", ErrMissing) }
	_, err = a.Version(t.Context())
	wantError(t, err, hns.ErrUnavailable, "Version/Get", hns.KindNetwork, "azure", 0)
	require.ErrorIs(t, err, ErrMissing)
}

func TestHresult(t *testing.T) {
	for number, want := range map[uint32]uint32{
		0: 0, 0x490: 0x80070490, 0x7e: 0x8007007e, 0x6ba: 0x800706ba, 0xffff: 0x8007ffff,
		0x803B0002: 0x803B0002, 0xC0370109: 0xC0370109, 0x80004005: 0x80004005,
	} {
		require.Equal(t, want, hresult(number), "%#x", number)
	}
}
