package hnsfault

import (
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/tool/hnssim"
)

// TestWatch has every kind of write, and what is none.
func TestWatch(t *testing.T) {
	packet := func(src, dst string) hnssim.Packet {
		return hnssim.Packet{Src: netip.MustParseAddr(src), Dst: netip.MustParseAddr(dst), Protocol: 6, DstPort: 80}
	}
	friend, stranger := Probe{"ep-1", hns.In, packet("10.0.1.2", "10.0.0.4")}, Probe{"ep-1", hns.In, packet("10.0.1.3", "10.0.0.4")}
	gone := Probe{"new", hns.In, packet("10.0.1.2", "10.0.0.9")}
	everyone := hns.NewACLPolicy(hns.ACL{ID: "azure-acl-x.b", Action: hns.Allow, Direction: hns.In, RuleType: hns.Switch, Priority: 222})
	nobody := hns.ACL{ID: "azure-acl-npm-block-in", Action: hns.Block, Direction: hns.In, RuleType: hns.Switch, Priority: 100}
	ctx := t.Context()
	shut := func(op, target string) []Transition {
		return []Transition{{Probe: friend, To: Denied, Write: 1, Op: op, Target: target}}
	}
	open := func(op, target string) []Transition {
		return []Transition{{Probe: stranger, To: Allowed, Write: 1, Op: op, Target: target}}
	}
	half := func(s *Sim) { s.Inject(Fault{Mode: Half}) }
	for name, test := range map[string]struct {
		write func(s *Sim) error
		fails bool
		want  []Transition
		none  bool // it is no write
	}{
		"sets": {
			write: func(s *Sim) error { return s.ModifySets(ctx, hns.Update, []hns.SetPolicy{leaf("front", "10.0.1.3")}) },
			want:  append(shut("SetPolicy/Update", "azure"), open("SetPolicy/Update", "azure")...),
		},
		"sets of which no probe knows": {
			write: func(s *Sim) error { return s.ModifySets(ctx, hns.Add, []hns.SetPolicy{leaf("new", "10.0.1.3")}) },
		},
		"rejected sets": {
			write: func(s *Sim) error { return s.ModifySets(ctx, hns.Remove, []hns.SetPolicy{leaf("front")}) },
			fails: true, none: true,
		},
		"the first half of the sets": {
			write: func(s *Sim) error {
				half(s)
				return s.ModifySets(ctx, hns.Update, []hns.SetPolicy{leaf("front"), leaf("db", "10.0.1.3")})
			},
			fails: true, want: shut("SetPolicy/Update", "azure"),
		},
		"a reply that is lost": {
			write: func(s *Sim) error { s.Inject(Fault{Mode: LoseReply}); return s.AddACLs(ctx, "ep-1", []hns.ACL{nobody}) },
			fails: true, want: shut("ACL/Add", "ep-1"),
		},
		"policies": {
			write: func(s *Sim) error { return s.ReplacePolicies(ctx, "ep-1", []hns.EndpointPolicy{everyone}) },
			want:  open("ACL/Update", "ep-1"),
		},
		"the set of another program": {
			write: func(s *Sim) error { return s.PutSet(leaf("front", "10.0.1.2", "10.0.1.3")) },
			want:  open("PutSet", DerivedID("front")),
		},
		"a set that cannot be dropped": {
			write: func(s *Sim) error { return s.DropSet(DerivedID("front")) }, fails: true, none: true,
		},
		"a new endpoint": {
			write: func(s *Sim) error {
				return s.CreateEndpoint(hnssim.SimEndpoint{ID: "new", Addrs: []netip.Addr{gone.Dst}})
			},
			want: []Transition{{Probe: gone, To: Allowed, Write: 1, Op: "CreateEndpoint", Target: "new"}},
		},
		"a restart that loses everything": {
			write: func(s *Sim) error { s.Restart(); return nil }, want: open("Restart", "azure"),
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newTown(t)
			require.NoError(t, s.PutSet(leaf("front", "10.0.1.2")))
			require.Equal(t, []Outcome{Allowed, Denied, Unanswered}, s.Watch(friend, stranger, gone))
			err := test.write(s)
			require.Equal(t, test.fails, err != nil, "%v", err)
			require.Equal(t, test.want, s.Transitions())
			require.Equal(t, test.none, s.Writes() == 0)
			for _, x := range s.Transitions() {
				require.Equal(t, []Outcome{x.To}, s.Ask(x.Probe))
			}
			require.Empty(t, s.Watch(), "a new watch begins anew")
			require.Empty(t, s.Transitions())
			require.Zero(t, s.Writes())
		})
	}
}
