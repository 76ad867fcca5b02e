package hnsfault

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/tool/hnssim"
)

// TestCodes: the class of a refusal follows from its code, and so does what the error speaks of.
// Nothing is done whatever the code.
func TestCodes(t *testing.T) {
	const (
		unlisted = 0x803B00A7
		content  = 0x803B0030
		broke    = 0x800706BE
		anything = 0x80070490 // not found, of anything
		endpoint = 0x803B000C
	)
	rule := func(id string, change func(*hns.ACL)) func(*Sim) error {
		return func(s *Sim) error { return s.AddACLs(t.Context(), id, []hns.ACL{allow(change)}) }
	}
	sets := func(v hns.Verb, sets ...hns.SetPolicy) func(*Sim) error {
		return func(s *Sim) error { return s.ModifySets(t.Context(), v, sets) }
	}
	missing := func(a *hns.ACL) { a.LocalAddresses = DerivedID("gone") }
	rejected := func(a *hns.ACL) { a.LocalPorts = "443" }
	for _, test := range []struct {
		call func(*Sim) error
		want hns.OpError
	}{
		{sets(hns.Update, leaf("web", "x")), hns.OpError{Kind: hns.KindSet, ID: DerivedID("web"), Code: unlisted, Err: hns.ErrUnlisted}},
		{sets(hns.Update, leaf("web", "x")), hns.OpError{Kind: hns.KindSet, ID: DerivedID("web"), Code: content, Err: hns.ErrInvalid}},
		{sets(hns.Update, leaf("lonely"), leaf("db", "x")), hns.OpError{Kind: hns.KindSet, ID: "one of 2", Code: broke, Err: hns.ErrUnavailable}},
		{sets(hns.Update, leaf("db", "10.1.1.1")), hns.OpError{Kind: hns.KindSet, ID: DerivedID("db"), Code: unlisted, Err: hns.ErrUnlisted}},
		{sets(hns.Add, leaf("web")), hns.OpError{Kind: hns.KindSet, ID: DerivedID("web"), Code: 0x803B0012, Err: hns.ErrAlreadyExists}},
		{sets(hns.Add, list("l", "gone")), hns.OpError{Kind: hns.KindSet, ID: DerivedID("l"), Code: content, Err: hns.ErrNotFound}},
		{sets(hns.Remove, leaf("gone")), hns.OpError{Kind: hns.KindSet, ID: DerivedID("gone"), Code: anything, Err: hns.ErrNotFound}},
		{sets(hns.Remove, leaf("web")), hns.OpError{Kind: hns.KindSet, ID: DerivedID("web"), Code: content, Err: hns.ErrInvalid}},
		{rule("ep-1", missing), hns.OpError{Kind: hns.KindSet, ID: DerivedID("gone"), Code: content, Err: hns.ErrNotFound}},
		{rule("ep-1", missing), hns.OpError{Kind: hns.KindEndpoint, ID: "ep-1", Code: unlisted, Err: hns.ErrUnlisted}},
		{rule("ep-1", rejected), hns.OpError{Kind: hns.KindACL, ID: "azure-acl-x.test", Code: content, Err: hns.ErrInvalid}},
		{rule("ep-1", rejected), hns.OpError{Kind: hns.KindEndpoint, ID: "ep-1", Code: unlisted, Err: hns.ErrUnlisted}},
		{rule("ep-new", nil), hns.OpError{Kind: hns.KindEndpoint, ID: "ep-new", Code: endpoint, Err: hns.ErrInvalid}},
		{rule("ep-9", nil), hns.OpError{Kind: hns.KindEndpoint, ID: "ep-9", Code: anything, Err: hns.ErrNotFound}},
	} {
		s := newTown(t)
		s.RejectSet(func(p hns.SetPolicy) bool { return p.Name == "db" })
		s.RejectACL(func(a hns.ACL) bool { return a.LocalPorts == "443" })
		s.SetPersonality(Personality{Code: func(*hns.OpError) uint32 { return test.want.Code }})
		var op *hns.OpError
		require.ErrorAs(t, test.call(s), &op)
		require.Equal(t, test.want, hns.OpError{Kind: op.Kind, ID: op.ID, Code: op.Code, Err: test.want.Err}, "%v", op)
		require.ErrorIs(t, op, test.want.Err)
		require.Equal(t, town, s.Dump())
	}
}

// TestRefuse: what this HNS rejects besides, with its code, and nothing else.
func TestRefuse(t *testing.T) {
	s := newTown(t)
	s.SetPersonality(Personality{Refuse: func(c hnssim.Call) uint32 {
		if slices.ContainsFunc(Rules(c), func(a hns.ACL) bool { return strings.Contains(a.LocalPorts, "-") }) {
			return 0x80070057
		}
		return 0
	}})
	ranges := allow(func(a *hns.ACL) { a.LocalPorts = "80-90" })
	e, _ := s.Endpoint("ep-1")
	for _, err := range []error{
		s.AddACLs(t.Context(), "ep-1", []hns.ACL{ranges}),
		s.ReplacePolicies(t.Context(), "ep-1", append(e.Policies, hns.NewACLPolicy(ranges))),
	} {
		require.ErrorIs(t, err, hns.ErrInvalid)
		require.Equal(t, uint32(0x80070057), hns.CodeOf(err))
		require.Equal(t, town, s.Dump())
	}
	require.NoError(t, s.AddACLs(t.Context(), "ep-1", []hns.ACL{allow(nil)}))
	s.SetPersonality(Personality{})
	require.NoError(t, s.AddACLs(t.Context(), "ep-1", []hns.ACL{ranges}), "lifted")
}

// TestFail: faults that a personality draws are those of Inject, and injected ones come first.
func TestFail(t *testing.T) {
	s := newTown(t)
	fault := &Fault{Mode: Ignore}
	s.SetPersonality(Personality{Fail: func(c hnssim.Call) *Fault {
		if c.Op == hns.OpEndpointGet {
			return nil
		}
		return fault
	}})
	require.NoError(t, update(t.Context(), s))
	require.Equal(t, town, s.Dump(), "nothing is done, and no error")
	_, err := s.GetEndpoint(t.Context(), "ep-1")
	require.NoError(t, err)
	s.Inject(Fault{Err: hns.ErrInUse})
	require.ErrorIs(t, update(t.Context(), s), hns.ErrInUse)
	fault = &Fault{Mode: Half, Code: 0x803B00A7}
	require.ErrorIs(t, update(t.Context(), s), hns.ErrUnlisted)
	require.Contains(t, s.Dump(), "set web IPSET 10.1.1.1\n")
	require.Contains(t, s.Dump(), "set db IPSET 10.0.0.5\n")
}

// TestShow: what a read shows may differ from what is stored.
func TestShow(t *testing.T) {
	s := newTown(t)
	s.SetPersonality(Personality{Show: func(op string, out *hns.Result) {
		switch op {
		case hns.OpNetworkGet:
			out.Network.Sets = nil
		case hns.OpEndpointGet:
			clear(out.Endpoint.Policies[0].Settings)
		default:
			out.IDs = append(out.IDs, op)
		}
	}})
	n, err := s.Network(t.Context())
	require.NoError(t, err)
	require.Empty(t, n.Sets)
	e, err := s.GetEndpoint(t.Context(), "ep-1")
	require.NoError(t, err)
	require.Zero(t, e.Policies[0].Settings[0])
	ids, err := s.EndpointIDs(t.Context())
	require.NoError(t, err)
	require.Equal(t, []string{"ep-1", "ep-away", hns.OpEndpointIDs}, ids)
	_, err = s.GetEndpoint(t.Context(), "ep-9")
	require.True(t, hns.EndpointGone(err))
	require.Equal(t, town, s.Dump())

	s.SetPersonality(Personality{Show: Shuffle(1), Early: true})
	var first []string
	for range 20 {
		n, err := s.Network(t.Context())
		require.NoError(t, err)
		require.Len(t, n.Sets, 5)
		first = append(first, n.Sets[0].Name)
	}
	require.Greater(t, len(slices.Compact(first)), 1)
	require.NoError(t, s.AddACLs(t.Context(), "ep-new", []hns.ACL{allow(nil)}), "early")
}

func TestLatency(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTown(t)
		s.SetPersonality(Personality{Latency: 10 * time.Millisecond})
		start := time.Now()
		_, err := s.EndpointIDs(t.Context())
		require.NoError(t, err)
		require.Equal(t, 20*time.Millisecond, time.Since(start), "two calls of the DLLs")
		s.Inject(Fault{Mode: LoseReply})
		require.Error(t, update(t.Context(), s))
		require.Equal(t, 50*time.Millisecond, time.Since(start), "a call that fails takes as long")

		before := s.Dump()
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		require.ErrorIs(t, s.ModifySets(ctx, hns.Remove, []hns.SetPolicy{leaf("lonely")}), hns.ErrUnavailable)
		require.NotEqual(t, before, s.Dump(), "HNS carries on")
	})
}
