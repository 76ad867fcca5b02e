package hnsfault

import (
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/tool/hnssim"
)

// gate is the ground of the tests of probes: friend is let in, stranger is not,
// and gone has no endpoint.
const gate = `network azure
set late IPSET
set lonely IPSET
set web IPSET 10.0.1.2
endpoint ep addrs=10.0.0.1
  acl In 222 Allow azure-acl-x.a local-sets=web
endpoint other addrs=10.0.0.2
`

func newGate(t *testing.T) (s *Sim, friend, stranger, gone Probe) {
	t.Helper()
	s, err := ParseDump(gate)
	require.NoError(t, err)
	return s, Probe{"ep", hns.In, packet(t, "10.0.1.2 > 10.0.0.1 6/80")},
		Probe{"ep", hns.In, packet(t, "10.0.1.3 > 10.0.0.1 6/80")},
		Probe{"new", hns.In, packet(t, "10.0.1.2 > 10.0.0.3 6/80")}
}

// TestWatch has every write that there is.
func TestWatch(t *testing.T) {
	_, friend, stranger, gone := newGate(t)
	everyone := hns.NewACLPolicy(hns.ACL{ID: "azure-acl-x.b", Action: hns.Allow, Direction: hns.In, RuleType: hns.Switch, Priority: 222})
	nobody := hns.ACL{ID: "azure-acl-npm-block-in", Action: hns.Block, Direction: hns.In, RuleType: hns.Switch, Priority: 100}
	shut := func(op, target string) []Transition {
		return []Transition{{Probe: friend, From: Allowed, To: Denied, Write: 1, Op: op, Target: target}}
	}
	open := func(op, target string) []Transition {
		return []Transition{{Probe: stranger, From: Denied, To: Allowed, Write: 1, Op: op, Target: target}}
	}
	swap := func(op, target string) []Transition { return append(shut(op, target), open(op, target)...) }
	for name, test := range map[string]struct {
		fault *Fault
		write func(t *testing.T, s *Sim) error
		fails bool
		want  []Transition
		none  bool // it is no write
	}{
		"sets": {
			write: func(t *testing.T, s *Sim) error {
				return s.ModifySets(t.Context(), hns.Update, []hns.SetPolicy{leaf("web", "10.0.1.3")})
			},
			want: swap("SetPolicy/Update", "azure"),
		},
		"sets that nobody asks about": {
			write: func(t *testing.T, s *Sim) error {
				return s.ModifySets(t.Context(), hns.Add, []hns.SetPolicy{leaf("new", "10.0.1.3")})
			},
		},
		"sets, refused": {
			write: func(t *testing.T, s *Sim) error {
				return s.ModifySets(t.Context(), hns.Remove, []hns.SetPolicy{leaf("web", "10.0.1.2")})
			},
			fails: true, none: true,
		},
		"half of the sets": {
			fault: &Fault{Mode: Half},
			write: func(t *testing.T, s *Sim) error {
				return s.ModifySets(t.Context(), hns.Update, []hns.SetPolicy{leaf("late", "10.0.1.3"), leaf("web", "10.0.1.3")})
			},
			fails: true,
		},
		"the first half of the sets": {
			fault: &Fault{Mode: Half},
			write: func(t *testing.T, s *Sim) error {
				return s.ModifySets(t.Context(), hns.Update, []hns.SetPolicy{leaf("web"), leaf("late", "10.0.1.3")})
			},
			fails: true, want: shut("SetPolicy/Update", "azure"),
		},
		"a reply that is lost": {
			fault: &Fault{Mode: LoseReply},
			write: func(t *testing.T, s *Sim) error { return s.AddACLs(t.Context(), "ep", []hns.ACL{nobody}) },
			fails: true, want: shut("ACL/Add", "ep"),
		},
		"a call that is not carried out": {
			fault: &Fault{},
			write: func(t *testing.T, s *Sim) error { return s.AddACLs(t.Context(), "ep", []hns.ACL{nobody}) },
			fails: true, none: true,
		},
		"rules": {
			write: func(t *testing.T, s *Sim) error { return s.AddACLs(t.Context(), "ep", []hns.ACL{nobody}) },
			want:  shut("ACL/Add", "ep"),
		},
		"policies": {
			write: func(t *testing.T, s *Sim) error {
				return s.ReplacePolicies(t.Context(), "ep", []hns.EndpointPolicy{everyone})
			},
			want: open("ACL/Update", "ep"),
		},
		"half of the policies": {
			fault: &Fault{Mode: Half},
			write: func(t *testing.T, s *Sim) error {
				return s.ReplacePolicies(t.Context(), "ep", []hns.EndpointPolicy{everyone, hns.NewACLPolicy(nobody)})
			},
			fails: true, want: open("ACL/Update", "ep"),
		},
		"somebody's set": {
			write: func(_ *testing.T, s *Sim) error { return s.PutSet(leaf("web", "10.0.1.2", "10.0.1.3")) },
			want:  open("PutSet", derivedID("web")),
		},
		"a set that somebody drops": {
			write: func(_ *testing.T, s *Sim) error { return s.DropSet(derivedID("lonely")) },
		},
		"a set that somebody cannot drop": {
			write: func(_ *testing.T, s *Sim) error { return s.DropSet(derivedID("web")) },
			fails: true, none: true,
		},
		"somebody's policies": {
			write: func(_ *testing.T, s *Sim) error { return s.SetPolicies("ep", []hns.EndpointPolicy{everyone}) },
			want:  open("SetPolicies", "ep"),
		},
		"a new endpoint": {
			write: func(_ *testing.T, s *Sim) error {
				return s.CreateEndpoint(hnssim.NewEndpoint{ID: "new", Addrs: []netip.Addr{gone.Dst}})
			},
			want: []Transition{{Probe: gone, From: Unanswered, To: Allowed, Write: 1, Op: "CreateEndpoint", Target: "new"}},
		},
		"an endpoint goes": {
			write: func(_ *testing.T, s *Sim) error { return s.DeleteEndpoint("ep") },
			want: []Transition{
				{Probe: friend, From: Allowed, To: Unanswered, Write: 1, Op: "DeleteEndpoint", Target: "ep"},
				{Probe: stranger, From: Denied, To: Unanswered, Write: 1, Op: "DeleteEndpoint", Target: "ep"},
			},
		},
		"an endpoint's state": {
			write: func(_ *testing.T, s *Sim) error { return s.SetState("ep", hnssim.Detached) },
		},
		"a restart that loses everything": {
			write: func(_ *testing.T, s *Sim) error { s.Restart(true); return nil },
			want:  open("Restart", "azure"), // without any rule everything passes
		},
		"a restart that loses nothing": {
			write: func(_ *testing.T, s *Sim) error { s.Restart(false); return nil },
			none:  true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			s, _, _, _ := newGate(t)
			require.Equal(t, []Outcome{Allowed, Denied, Unanswered}, s.Watch(friend, stranger, gone))
			if test.fault != nil {
				s.Inject(*test.fault)
			}
			err := test.write(t, s)
			require.Equal(t, test.fails, err != nil, "%v", err)
			require.Equal(t, test.want, s.Transitions())
			require.Equal(t, test.none, s.Writes() == 0)
			require.LessOrEqual(t, s.Writes(), 1)
		})
	}
}

// TestWatchCounts: a write has its number and its time, a new watch begins anew,
// and without probes nobody watches.
func TestWatchCounts(t *testing.T) {
	_, friend, stranger, _ := newGate(t)
	var now time.Time
	s := New(Options{Now: func() time.Time { return now }})
	require.NoError(t, s.PutSet(leaf("web")))
	require.NoError(t, s.CreateEndpoint(hnssim.NewEndpoint{ID: "ep", Addrs: []netip.Addr{friend.Dst}}))
	require.NoError(t, s.AddACLs(t.Context(), "ep", []hns.ACL{allow(nil)}))
	at := func(second int64) time.Time { return time.Unix(second, 0) }
	put := func(second int64, values ...string) {
		t.Helper()
		now = at(second)
		require.NoError(t, s.PutSet(leaf("web", values...)))
	}
	put(1, "10.0.1.3", "10.0.1.2")
	require.Zero(t, s.Writes(), "nobody watched")
	s.Watch(friend, stranger)
	put(2, "10.0.1.2")
	put(3, "10.0.1.2")
	put(4)
	web := derivedID("web")
	require.Equal(t, []Transition{
		{stranger, Allowed, Denied, 1, "PutSet", web, at(2)},
		{friend, Allowed, Denied, 3, "PutSet", web, at(4)},
	}, s.Transitions())
	require.Equal(t, 3, s.Writes())
	require.Equal(t, []Outcome{Denied, Denied}, s.Ask(friend, stranger))

	require.Equal(t, []Outcome{Denied}, s.Watch(friend))
	put(5, "10.0.1.3", "10.0.1.2")
	require.Equal(t, []Transition{{friend, Denied, Allowed, 1, "PutSet", web, at(5)}}, s.Transitions())
	require.Empty(t, s.Watch())
	put(6)
	require.Empty(t, s.Transitions())
	require.Zero(t, s.Writes())
}

// What is handed out is a copy.
func TestWatchSharesNothing(t *testing.T) {
	s, friend, stranger, _ := newGate(t)
	probes := []Probe{friend, stranger}
	now := s.Watch(probes...)
	probes[0], now[0] = stranger, Denied
	require.NoError(t, s.PutSet(leaf("web")))
	seen := s.Transitions()
	require.Len(t, seen, 1)
	seen[0].Probe = stranger
	require.Equal(t, friend, s.Transitions()[0].Probe)
	require.Equal(t, "allowed denied unanswered", Allowed.String()+" "+Denied.String()+" "+Unanswered.String())
}
