package hnsfault

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/tool/hnssim"
)

const oddCode uint32 = 0x803B00A7 // in no table

// opError returns what an error of the simulator is.
func opError(t *testing.T, err error) *hns.OpError {
	t.Helper()
	var op *hns.OpError
	require.ErrorAs(t, err, &op)
	return op
}

// TestCodesOfAPersonality: the class of a refusal follows from its code, and so
// does what the error speaks of. Nothing is done whatever the code.
func TestCodesOfAPersonality(t *testing.T) {
	missing := allow(func(a *hns.ACL) { a.LocalAddresses = derivedID("gone") })
	add := func(id string, a hns.ACL) func(*testing.T, *Sim) error {
		return func(t *testing.T, s *Sim) error { return s.AddACLs(t.Context(), id, []hns.ACL{a}) }
	}
	read := func(t *testing.T, s *Sim) error { _, err := s.GetEndpoint(t.Context(), "ep-9"); return err }
	const (
		rule     = "azure-acl-x.test"
		unlisted = oddCode
		content  = 0x803B0030
		broke    = 0x800706BE
		anything = 0x80070490 // not found, of anything
	)
	type want struct {
		code  uint32
		class error
		kind  string
		id    string
	}
	seen := map[Answer]bool{}
	for _, test := range []struct {
		answer Answer
		invoke func(*testing.T, *Sim) error
		want   []want
	}{
		{BadSet, modify(hns.Update, leaf("web", "x")), []want{
			{unlisted, hns.ErrUnlisted, hns.KindSet, derivedID("web")}, {content, hns.ErrInvalid, hns.KindSet, derivedID("web")},
			{broke, hns.ErrUnavailable, hns.KindSet, derivedID("web")}, {anything, hns.ErrUnlisted, hns.KindSet, derivedID("web")}}},
		{BadRule, add("ep-1", allow(func(a *hns.ACL) { a.RemoteAddresses = "Any" })), []want{
			{unlisted, hns.ErrUnlisted, hns.KindEndpoint, "ep-1"}, {content, hns.ErrInvalid, hns.KindACL, rule}}},
		{BadRule, replace(hns.NewACLPolicy(allow(func(a *hns.ACL) { a.RemoteAddresses = "Any" }))), []want{
			{unlisted, hns.ErrUnlisted, hns.KindEndpoint, "ep-1"}, {content, hns.ErrInvalid, hns.KindACL, rule}}},
		{SetExists, modify(hns.Add, leaf("web")), []want{
			{unlisted, hns.ErrUnlisted, hns.KindSet, derivedID("web")}, {content, hns.ErrInvalid, hns.KindSet, derivedID("web")}}},
		{SetMissing, modify(hns.Remove, leaf("gone")), []want{
			{unlisted, hns.ErrUnlisted, hns.KindSet, derivedID("gone")}, {anything, hns.ErrNotFound, hns.KindSet, derivedID("gone")}}},
		{SetInUse, modify(hns.Remove, leaf("web")), []want{
			{unlisted, hns.ErrUnlisted, hns.KindSet, derivedID("web")}, {content, hns.ErrInvalid, hns.KindSet, derivedID("web")}}},
		{NameMissing, add("ep-1", missing), []want{
			{unlisted, hns.ErrUnlisted, hns.KindEndpoint, "ep-1"}, {content, hns.ErrNotFound, hns.KindSet, derivedID("gone")}}},
		{NameMissing, modify(hns.Add, list("new", "gone")), []want{
			{unlisted, hns.ErrUnlisted, hns.KindSet, derivedID("new")}, {content, hns.ErrNotFound, hns.KindSet, derivedID("new")}}},
		{EndpointMissing, add("ep-9", allow(nil)), []want{
			{unlisted, hns.ErrUnlisted, hns.KindEndpoint, "ep-9"}, {anything, hns.ErrNotFound, hns.KindEndpoint, "ep-9"}}},
		{EndpointMissing, read, []want{
			{unlisted, hns.ErrUnlisted, hns.KindEndpoint, "ep-9"}, {anything, hns.ErrNotFound, hns.KindEndpoint, "ep-9"}}},
		{EndpointClosed, add("ep-new", allow(nil)), []want{
			{unlisted, hns.ErrUnlisted, hns.KindEndpoint, "ep-new"}, {0x803B0034, hns.ErrInvalid, hns.KindEndpoint, "ep-new"}}},
		{EndpointClosed, func(t *testing.T, s *Sim) error { return s.ReplacePolicies(t.Context(), "ep-away", nil) }, []want{
			{unlisted, hns.ErrUnlisted, hns.KindEndpoint, "ep-away"}}},
	} {
		seen[test.answer] = true
		for _, w := range test.want {
			t.Run(fmt.Sprintf("%v %08X", test.answer, w.code), func(t *testing.T) {
				s := newTown(t)
				s.SetPersonality(Personality{Codes: map[Answer]uint32{test.answer: w.code}})
				err := test.invoke(t, s)
				op := opError(t, err)
				require.Equal(t, []any{w.code, w.kind, w.id}, []any{op.Code, op.Kind, op.ID})
				for _, class := range []error{hns.ErrInvalid, hns.ErrNotFound, hns.ErrAlreadyExists, hns.ErrInUse, hns.ErrUnavailable, hns.ErrUnlisted} {
					require.Equal(t, errors.Is(class, w.class), errors.Is(err, class), class)
				}
				require.Equal(t, town, s.Dump(), "a refused request changed something")

				plain := newTown(t)
				s.SetPersonality(Personality{})
				require.Equal(t, test.invoke(t, plain).Error(), test.invoke(t, s).Error(), "lifted")
			})
		}
	}
	require.Len(t, seen, int(answers))
}

// TestRefusalsOfAPersonality: each trait refuses what it says, with its code, and
// nothing that is just short of it; lifted, it refuses nothing.
func TestRefusalsOfAPersonality(t *testing.T) {
	rule := func(change func(*hns.ACL)) func(*testing.T, *Sim) error {
		return func(t *testing.T, s *Sim) error {
			return s.AddACLs(t.Context(), "ep-1", []hns.ACL{allow(change)})
		}
	}
	ports := func(text string) func(*testing.T, *Sim) error { return rule(func(a *hns.ACL) { a.LocalPorts = text }) }
	literals := func(text string) func(*testing.T, *Sim) error {
		return rule(func(a *hns.ACL) { a.LocalAddresses, a.RemoteAddresses = "", text })
	}
	named := func(name string) func(*testing.T, *Sim) error { return modify(hns.Add, leaf(name)) }
	host := func(a *hns.ACL) { a.RuleType, a.Priority, a.LocalAddresses = hns.Host, 0, "" }
	foreign := func(text string) func(*testing.T, *Sim) error {
		return replace(hns.EndpointPolicy{Type: "ACL", Settings: []byte(`{"Action":"Allow","Direction":"In","Priority":65500` + text + `}`)})
	}
	for _, test := range []struct {
		refusal   Refusal
		good, bad func(*testing.T, *Sim) error
	}{
		{Refusal{What: PortRanges}, ports("80,443"), ports("80-81")},
		{Refusal{What: PortRanges}, replace(), replace(hns.NewACLPolicy(allow(func(a *hns.ACL) { a.LocalPorts = "1-2" })))},
		{Refusal{What: PortLists}, ports("80-443"), ports("80,443")},
		{Refusal{What: SCTP}, rule(nil), rule(func(a *hns.ACL) { a.Protocols = "132" })},
		{Refusal{What: HostRules}, rule(nil), rule(host)},
		{Refusal{What: WideBlocks}, literals("10.0.0.0/9"), literals("10.0.0.1,0.0.0.0/5")},
		{Refusal{What: Literals, N: 2}, literals("10.0.0.1,10.0.0.2"), literals("10.0.0.1,10.0.0.2,10.0.0.3")},
		{Refusal{What: Literals, N: 1}, rule(func(a *hns.ACL) { a.LocalAddresses = derivedID("web") + "," + derivedID("db") }), literals("10.0.0.1,10.0.0.2")},
		{Refusal{What: Braces}, named("nslabel-a:b"), named("nslabel-{a}")},
		{Refusal{What: NameLength, N: 5}, named("12345"), named("123456")},
		{Refusal{What: NestedMembers, N: 2}, modify(hns.Update, list("group", "web", "db")), modify(hns.Update, list("group", "web", "db", "front"))},
		{Refusal{What: SetValues, N: 2}, modify(hns.Update, leaf("web", "10.0.0.4", "10.0.0.5")), modify(hns.Update, leaf("web", "10.0.0.4", "10.0.0.5", "10.0.0.6"))},
		{Refusal{What: SetCount, N: 6}, named("sixth"), modify(hns.Add, leaf("sixth"), leaf("seventh"))},
		{Refusal{What: ACLCount, N: 2}, rule(nil), func(t *testing.T, s *Sim) error {
			return s.AddACLs(t.Context(), "ep-1", []hns.ACL{allow(nil), allow(nil)})
		}},
		{Refusal{What: RequestBytes, N: 300}, modify(hns.Update, leaf("web")), modify(hns.Update, leaf("lonely"), leaf("db"), leaf("front"))},
		{Refusal{What: RequestBytes, N: 300}, rule(nil), rule(func(a *hns.ACL) {
			a.LocalAddresses = derivedID("web") + strings.Repeat(","+derivedID("web"), 5)
		})},
		{Refusal{What: ForeignExtras}, foreign(`,"Protocols":"6"`), foreign(`,"Scope":0`)},
		{Refusal{What: ForeignExtras}, replace(hns.EndpointPolicy{Type: "OutBoundNAT", Settings: []byte(`{"Scope":1}`)}), foreign(`,"Type":"ACL"`)},
	} {
		t.Run(test.refusal.String(), func(t *testing.T) {
			for code, class := range map[uint32]error{oddCode: hns.ErrUnlisted, 0x8007000D: hns.ErrInvalid, 0: hns.ErrInvalid} {
				f := test.refusal
				f.Code = code
				s := newTown(t)
				s.SetPersonality(Personality{Refuses: []Refusal{f}})
				for range 2 { // for good
					err := test.bad(t, s)
					require.ErrorIs(t, err, class)
					require.Equal(t, cmp.Or(code, codeInvalidPolicy), opError(t, err).Code)
					require.Equal(t, town, s.Dump(), "a refused request changed something")
				}
				require.NoError(t, test.good(t, s))
				s = newTown(t)
				s.SetPersonality(Personality{Refuses: []Refusal{f}})
				s.SetPersonality(Personality{})
				require.NoError(t, test.bad(t, s), "lifted")
			}
		})
	}
}

// TestChances: writes that are done by halves or not at all, no more than so many.
func TestChances(t *testing.T) {
	write := func(s *Sim) error {
		return s.ModifySets(t.Context(), hns.Update, []hns.SetPolicy{leaf("web", "10.1.1.1"), leaf("db", "10.1.1.2")})
	}
	done := newTown(t)
	require.NoError(t, write(done))
	half := newTown(t)
	require.NoError(t, half.ModifySets(t.Context(), hns.Update, []hns.SetPolicy{leaf("web", "10.1.1.1")}))

	s := newTown(t)
	s.SetPersonality(Personality{Half: Chance{P: 1, Times: 2, Code: oddCode}, Ignored: Chance{P: 1, Times: 1}})
	require.NoError(t, write(s))
	require.Equal(t, town, s.Dump(), "ignored")
	for range 2 {
		err := write(s)
		require.ErrorIs(t, err, hns.ErrUnlisted)
		require.True(t, hns.OutcomeUnknown(err))
		require.Equal(t, oddCode, opError(t, err).Code)
		require.Equal(t, half.Dump(), s.Dump())
	}
	_, err := s.GetEndpoint(t.Context(), "ep-1")
	require.NoError(t, err, "a read is no write")
	require.NoError(t, write(s))
	require.Equal(t, done.Dump(), s.Dump(), "it is over")

	s.SetPersonality(Personality{Half: Chance{P: 1, Times: 2}})
	require.ErrorIs(t, s.AddACLs(t.Context(), "ep-9", []hns.ACL{allow(nil)}), hns.ErrNotFound, "a refusal stays one")
	require.Equal(t, codeFail, opError(t, s.AddACLs(t.Context(), "ep-1", []hns.ACL{allow(nil)})).Code)

	s.SetPersonality(Personality{Half: Chance{P: 0.5, Times: 1000}})
	failed := 0
	for range 1000 {
		if write(s) != nil {
			failed++
		}
	}
	require.InDelta(t, 500, failed, 100)
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
		err = s.ModifySets(ctx, hns.Remove, []hns.SetPolicy{leaf("lonely")})
		require.ErrorIs(t, err, hns.ErrUnavailable)
		require.NotEqual(t, before, s.Dump(), "HNS carries on")
		s.SetPersonality(Personality{})
		now := time.Now()
		_, err = s.EndpointIDs(t.Context())
		require.NoError(t, err)
		require.Equal(t, now, time.Now())
	})
}

// TestEndpointHabits: endpoints that come late, vanish, come twice or are not read.
func TestEndpointHabits(t *testing.T) {
	addrs := []netip.Addr{netip.MustParseAddr("10.0.0.9")}
	ids := func(s *Sim) []string {
		got, err := s.EndpointIDs(t.Context())
		require.NoError(t, err)
		return got
	}
	t.Run("late", func(t *testing.T) {
		s := newTown(t)
		before := ids(s)
		s.SetPersonality(Personality{Endpoints: EndpointHabits{Late: 3}})
		require.Equal(t, before, ids(s), "what is there is not late")
		require.NoError(t, s.CreateEndpoint(hnssim.NewEndpoint{ID: "ep-2", Addrs: addrs}))
		require.NotContains(t, ids(s), "ep-2")
		_, err := s.GetEndpoint(t.Context(), "ep-2")
		require.NoError(t, err, "who knows its GUID can read it")
		_, err = s.NewEndpointIDs(t.Context())
		require.NoError(t, err, "it counts as an enumeration")
		require.NotContains(t, ids(s), "ep-2")
		require.Contains(t, ids(s), "ep-2", "the fourth time")
		require.NoError(t, s.CreateEndpoint(hnssim.NewEndpoint{ID: "ep-3", Addrs: addrs}))
		s.SetPersonality(Personality{})
		require.Contains(t, ids(s), "ep-3", "lifted")
	})
	t.Run("vanish", func(t *testing.T) {
		s := newTown(t)
		s.SetPersonality(Personality{Endpoints: EndpointHabits{Vanish: Chance{P: 1, Times: 2}}})
		for range 2 {
			_, err := s.GetEndpoint(t.Context(), "ep-1")
			require.True(t, hns.EndpointGone(err))
			require.Contains(t, ids(s), "ep-1")
		}
		_, err := s.GetEndpoint(t.Context(), "ep-1")
		require.NoError(t, err)
	})
	t.Run("twice", func(t *testing.T) {
		s := New(Options{Foreign: hnssim.DefaultForeign(), Personality: Personality{Endpoints: EndpointHabits{Twice: 2}}})
		const first, second = "00000000-0000-0000-0000-000000000001", "00000000-0000-0000-0000-000000000002"
		const twin = "80000000-0000-0000-0000-000000000002"
		require.NoError(t, s.CreateEndpoint(hnssim.NewEndpoint{ID: first, Addrs: addrs, State: hnssim.Created}))
		require.NoError(t, s.CreateEndpoint(hnssim.NewEndpoint{ID: "bare"}), "without an address it does not count")
		require.NoError(t, s.CreateEndpoint(hnssim.NewEndpoint{ID: second, Addrs: addrs, State: hnssim.Created}))
		require.NoError(t, s.SetState(second, hnssim.AttachedSharing))
		require.Equal(t, []string{second, twin, "bare"}, ids(s))
		e, err := s.GetEndpoint(t.Context(), twin)
		require.NoError(t, err)
		require.Equal(t, hns.Endpoint{ID: twin, Addrs: addrs, Policies: hnssim.DefaultForeign()}, e)
		require.NoError(t, s.ReplacePolicies(t.Context(), twin, nil))
		e, err = s.GetEndpoint(t.Context(), second)
		require.NoError(t, err)
		require.Len(t, e.Policies, 4, "each has its own")
		s.SetPersonality(Personality{})
		require.Contains(t, ids(s), twin, "what is there stays")
		require.NoError(t, s.DeleteEndpoint(second))
		require.Equal(t, []string{"bare"}, ids(s))
		require.Equal(t, "ep-1-twin", twinID("ep-1"))
	})
	t.Run("unread", func(t *testing.T) {
		for _, good := range []bool{false, true} {
			s := newTown(t)
			h := EndpointHabits{Unread: 1, UnreadFor: 2}
			if good {
				h.UnreadFor, h.UnreadCode = -1, 0x803B0017
			}
			s.SetPersonality(Personality{Endpoints: h})
			require.Equal(t, good, s.Unreadable("ep-1"))
			for _, id := range []string{"ep-1", "ep-elsewhere"} {
				for range 2 {
					_, err := s.QueryEndpoint(t.Context(), id)
					require.ErrorIs(t, err, hns.ErrUnlisted)
					require.False(t, hns.EndpointGone(err))
					want := map[bool]uint32{false: codeAfterUnload, true: 0x803B0017}[good]
					require.Equal(t, []any{want, hns.KindEndpoint, id}, []any{opError(t, err).Code, opError(t, err).Kind, opError(t, err).ID})
				}
				_, err := s.QueryEndpoint(t.Context(), id)
				require.Equal(t, good, err != nil)
			}
			require.NoError(t, s.AddACLs(t.Context(), "ep-1", []hns.ACL{allow(nil)}), "it can be written")
			s.SetPersonality(Personality{})
			_, err := s.GetEndpoint(t.Context(), "ep-1")
			require.NoError(t, err)
		}
		s := newTown(t)
		chosen := 0
		s.SetPersonality(Personality{Seed: 7, Endpoints: EndpointHabits{Unread: 4, UnreadFor: -1}})
		for i := range 400 {
			if s.Unreadable(fmt.Sprint("ep-", i)) {
				chosen++
			}
		}
		require.InDelta(t, 100, chosen, 40)
	})
	t.Run("others", func(t *testing.T) {
		s := newTown(t)
		require.NotContains(t, ids(s), "ep-elsewhere")
		s.SetPersonality(Personality{Endpoints: EndpointHabits{Others: true}})
		require.Contains(t, ids(s), "ep-elsewhere")
		require.NotContains(t, ids(s), "ep-new", "it is not attached")
		_, err := s.GetEndpoint(t.Context(), "ep-elsewhere")
		require.ErrorIs(t, err, hns.ErrElsewhere)
	})
}
