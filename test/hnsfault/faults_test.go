package hnsfault

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/stretchr/testify/require"

	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/tool/hnssim"
)

// update changes two sets; half of it changes web only.
func update(ctx context.Context, s *Sim) error {
	return s.ModifySets(ctx, hns.Update, []hns.SetPolicy{leaf("web", "10.1.1.1"), leaf("db", "10.1.1.2")})
}

func TestFaultModes(t *testing.T) {
	done := newTown(t)
	require.NoError(t, update(t.Context(), done))
	half := newTown(t)
	require.NoError(t, half.ModifySets(t.Context(), hns.Update, []hns.SetPolicy{leaf("web", "10.1.1.1")}))
	for name, test := range map[string]struct {
		fault   Fault
		class   error // nil: no error
		unknown bool
		want    string
	}{
		"refuse":                  {Fault{}, hns.ErrUnavailable, true, town},
		"refuse with a class":     {Fault{Err: hns.ErrInUse}, hns.ErrInUse, false, town},
		"lost reply":              {Fault{Mode: LoseReply}, hns.ErrUnavailable, true, done.Dump()},
		"half":                    {Fault{Mode: Half}, hns.ErrUnavailable, true, half.Dump()},
		"half with a class":       {Fault{Mode: Half, Err: hns.ErrInvalid}, hns.ErrInvalid, false, half.Dump()},
		"of this op":              {Fault{Op: "SetPolicy/Update"}, hns.ErrUnavailable, true, town},
		"of the set by name":      {Fault{Target: "db"}, hns.ErrUnavailable, true, town},
		"of the set by Id":        {Fault{Target: DerivedID("db")}, hns.ErrUnavailable, true, town},
		"of another op":           {Fault{Op: "ACL/Add"}, nil, false, done.Dump()},
		"of another set":          {Fault{Target: "lonely"}, nil, false, done.Dump()},
		"of the op, another set":  {Fault{Op: "SetPolicy/Update", Target: "lonely"}, nil, false, done.Dump()},
		"of the next but one":     {Fault{Nth: 2}, nil, false, done.Dump()},
		"of an error of no class": {Fault{Err: errors.New("odd")}, nil, true, town},
	} {
		t.Run(name, func(t *testing.T) {
			s := newTown(t)
			s.Inject(test.fault)
			err := update(t.Context(), s)
			require.Equal(t, test.unknown, hns.OutcomeUnknown(err))
			switch {
			case test.class != nil:
				require.ErrorIs(t, err, test.class)
			case test.fault.Err != nil:
				require.ErrorIs(t, err, test.fault.Err)
			default:
				require.NoError(t, err)
			}
			require.Equal(t, test.want, s.Dump())
			require.Equal(t, err, s.Calls()[0].Err)
		})
	}
}

func TestHalfOfRules(t *testing.T) {
	s := newTown(t)
	one := allow(nil)
	s.Inject(Fault{Mode: Half, Times: 2})
	require.ErrorIs(t, s.AddACLs(t.Context(), "ep-1", []hns.ACL{one, one, one}), hns.ErrUnavailable)
	e, err := s.GetEndpoint(t.Context(), "ep-1")
	require.ErrorIs(t, err, hns.ErrUnavailable)
	require.Empty(t, e, "no half result")
	require.Empty(t, s.UnusedFaults())

	e, err = s.GetEndpoint(t.Context(), "ep-1")
	require.NoError(t, err)
	require.Len(t, e.Policies, 3, "two and the first of three")
	s.Inject(Fault{Mode: Half})
	require.ErrorIs(t, s.ReplacePolicies(t.Context(), "ep-1", e.Policies), hns.ErrUnavailable)
	after, err := s.GetEndpoint(t.Context(), "ep-1")
	require.NoError(t, err)
	require.Empty(t, cmp.Diff(e.Policies[:1], after.Policies))

	s.Inject(Fault{Mode: Half})
	require.ErrorIs(t, s.ModifySets(t.Context(), hns.Remove, []hns.SetPolicy{leaf("lonely"), list("group")}), hns.ErrUnavailable)
	require.Len(t, s.Sets(), 5, "what would be refused is not done by half either")
}

// TestFaultKinds: the error speaks of what a real one would speak of.
func TestFaultKinds(t *testing.T) {
	type call func(context.Context, *Sim) error
	read := func(ctx context.Context, s *Sim) error { _, err := s.GetEndpoint(ctx, "ep-1"); return err }
	add := func(ctx context.Context, s *Sim) error { return s.AddACLs(ctx, "ep-1", []hns.ACL{allow(nil)}) }
	whole := &hns.OpError{Op: "x", Kind: "y", ID: "z", Code: 1, Err: hns.ErrInUse}
	for name, test := range map[string]struct {
		err  error
		call call
		want hns.OpError
	}{
		"network": {hns.ErrNotFound, func(ctx context.Context, s *Sim) error { _, err := s.Network(ctx); return err },
			hns.OpError{Op: "Network/Get", Kind: hns.KindNetwork, ID: "azure"}},
		"enumeration": {nil, func(ctx context.Context, s *Sim) error { _, err := s.EndpointIDs(ctx); return err },
			hns.OpError{Op: "Endpoint/Enumerate", Kind: hns.KindNetwork, ID: "azure"}},
		"endpoint":     {hns.ErrNotFound, read, hns.OpError{Op: "Endpoint/Get", Kind: hns.KindEndpoint, ID: "ep-1"}},
		"rules":        {hns.ErrNotFound, add, hns.OpError{Op: "ACL/Add", Kind: hns.KindEndpoint, ID: "ep-1"}},
		"invalid rule": {hns.ErrInvalid, add, hns.OpError{Op: "ACL/Add", Kind: hns.KindACL, ID: "azure-acl-x.test"}},
		"sets":         {nil, update, hns.OpError{Op: "SetPolicy/Update", Kind: hns.KindSet, ID: "one of 2"}},
		"one set": {nil, func(ctx context.Context, s *Sim) error {
			return s.ModifySets(ctx, hns.Add, []hns.SetPolicy{leaf("new")})
		}, hns.OpError{Op: "SetPolicy/Add", Kind: hns.KindSet, ID: DerivedID("new")}},
		"a given error":  {whole, add, *whole},
		"replaced rules": {nil, func(ctx context.Context, s *Sim) error { return s.ReplacePolicies(ctx, "ep-1", nil) }, hns.OpError{Op: "ACL/Update", Kind: hns.KindEndpoint, ID: "ep-1"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newTown(t)
			s.Inject(Fault{Err: test.err})
			var got *hns.OpError
			require.ErrorAs(t, test.call(t.Context(), s), &got)
			require.Empty(t, cmp.Diff(test.want, *got, cmpopts.IgnoreFields(hns.OpError{}, "Err")))
		})
	}
}

func TestFaultCounting(t *testing.T) {
	s := newTown(t)
	get := func(id string) bool { _, err := s.GetEndpoint(t.Context(), id); return err == nil }
	second := Fault{Op: "Endpoint/Get", Target: "ep-1", Nth: 2, Times: 2}
	s.Inject(second)
	require.Equal(t, []Fault{second}, s.UnusedFaults())
	require.True(t, get("ep-1"))
	require.True(t, get("ep-new"), "another endpoint does not count")
	require.False(t, get("ep-1"))
	require.Equal(t, []Fault{second}, s.UnusedFaults(), "once more to come")
	require.False(t, get("ep-1"))
	require.Empty(t, s.UnusedFaults())
	require.True(t, get("ep-1"))

	forever := Fault{Target: "ep-1", Times: -1}
	first := Fault{Target: "ep-1", Err: hns.ErrInUse}
	s.Inject(first)
	s.Inject(forever)
	require.Equal(t, []Fault{first, forever}, s.UnusedFaults())
	_, err := s.GetEndpoint(t.Context(), "ep-1")
	require.ErrorIs(t, err, hns.ErrInUse, "the first that is due takes the call")
	for range 3 {
		_, err = s.GetEndpoint(t.Context(), "ep-1")
		require.ErrorIs(t, err, hns.ErrUnavailable)
	}
	require.Empty(t, s.UnusedFaults())
}

func TestHooks(t *testing.T) {
	s := newTown(t)
	type step struct {
		Op   string
		When When
		Err  bool
		Dump bool // the state is the town's
	}
	var steps []step
	s.OnCall(func(c Call, when When) {
		steps = append(steps, step{c.Op, when, c.Err != nil, s.Dump() == town})
		if c.Op == "SetPolicy/Update" && when == Before {
			_, err := s.GetEndpoint(t.Context(), "ep-1") // a hook may call
			require.NoError(t, err)
		}
	})
	require.NoError(t, update(t.Context(), s))
	require.Error(t, s.AddACLs(t.Context(), "ep-9", []hns.ACL{allow(nil)}))
	require.Empty(t, cmp.Diff([]step{
		{"SetPolicy/Update", Before, false, true},
		{"Endpoint/Get", Before, false, true},
		{"Endpoint/Get", After, false, true},
		{"SetPolicy/Update", After, false, false},
		{"ACL/Add", Before, false, false},
		{"ACL/Add", After, true, false},
	}, steps))

	s.OnCall(nil)
	require.NoError(t, update(t.Context(), s))
	require.Len(t, steps, 6)
}

// TestHookKills: a hook plays the death of the process right before a call.
func TestHookKills(t *testing.T) {
	s := newTown(t)
	ctx, kill := context.WithCancel(t.Context())
	s.OnCall(func(Call, When) { kill() })
	require.ErrorIs(t, update(ctx, s), hns.ErrUnavailable)
	require.Equal(t, town, s.Dump())
	require.Len(t, s.Calls(), 1)
	require.ErrorIs(t, update(ctx, s), hns.ErrUnavailable)
	require.Len(t, s.Calls(), 1, "a call that nobody waits for is none")
}

func TestCallLog(t *testing.T) {
	s := newTown(t)
	require.NoError(t, update(t.Context(), s))
	require.NoError(t, s.AddACLs(t.Context(), "ep-1", []hns.ACL{allow(nil)}))
	e, err := s.GetEndpoint(t.Context(), "ep-1")
	require.NoError(t, err)
	require.NoError(t, s.ReplacePolicies(t.Context(), "ep-1", e.Policies))
	ours, _ := e.Split()
	want := []Call{
		{Call: hnssim.Call{Op: "SetPolicy/Update", Target: "azure", Sets: []hns.SetPolicy{leaf("web", "10.1.1.1"), leaf("db", "10.1.1.2")}}, DLLCalls: 3},
		{Call: hnssim.Call{Op: "ACL/Add", Target: "ep-1", ACLs: []hns.ACL{allow(nil)}}, DLLCalls: 3},
		{Call: hnssim.Call{Op: "Endpoint/Get", Target: "ep-1"}, DLLCalls: 3},
		{Call: hnssim.Call{Op: "ACL/Update", Target: "ep-1", ACLs: ours, Policies: e.Policies}, DLLCalls: 3},
	}
	got := s.Calls()
	require.Empty(t, cmp.Diff(want, got, cmpopts.IgnoreFields(hnssim.Call{}, "Bytes")))
	wire := `{"Type":"SetPolicy","Settings":{"Id":"` + DerivedID("web") + `","Name":"web","PolicyType":"IPSET","Values":"10.1.1.1"}},` +
		`{"Type":"SetPolicy","Settings":{"Id":"` + DerivedID("db") + `","Name":"db","PolicyType":"IPSET","Values":"10.1.1.2"}},`
	require.InDelta(t, len(wire), got[0].Bytes, 2)
	require.InDelta(t, len(`{"Type":"ACL","Settings":},`)+len(hns.NewACLPolicy(allow(nil)).Settings), got[1].Bytes, 2)
	require.Zero(t, got[2].Bytes)
	require.Greater(t, got[3].Bytes, got[1].Bytes)
	require.Equal(t, map[string]int{"SetPolicy/Update": 1, "ACL/Add": 1, "Endpoint/Get": 1, "ACL/Update": 1}, s.Counts())

	s.ResetCalls()
	require.Empty(t, s.Calls())
	require.Empty(t, s.Counts())
}
