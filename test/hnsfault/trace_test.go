package hnsfault

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/tool/hnssim"
)

// site is the ground of the tracer's tests: rules are put on ep, which is 10.0.0.1.
const site = `network azure
set both NESTEDIPSET front,web
set empty IPSET
set front IPSET 10.0.1.3
set none NESTEDIPSET
set only-empty NESTEDIPSET empty
set self IPSET 10.0.0.1
set team IPSET 10.0.1.2,10.0.1.3
set web IPSET 10.0.1.2,10.0.2.0/24
endpoint ep addrs=10.0.0.1,10.0.0.2,fd00::1
`

// packet reads "10.0.1.2 > 10.0.0.1 6/80".
func packet(t testing.TB, text string) hnssim.Packet {
	t.Helper()
	var src, dst string
	var p hnssim.Packet
	_, err := fmt.Sscanf(text, "%s > %s %d/%d", &src, &dst, &p.Protocol, &p.DstPort)
	require.NoError(t, err)
	p.Src, p.Dst = netip.MustParseAddr(src), netip.MustParseAddr(dst)
	return p
}

// TestTrace has every form of rule that the tracer knows.
func TestTrace(t *testing.T) {
	const (
		in    = "10.0.1.2 > 10.0.0.1 6/80"
		out   = "10.0.0.1 > 10.0.1.2 6/80"
		block = "acl In 3000 Block azure-acl-block"
		shut  = "acl Out 3000 Block azure-acl-block"
	)
	for _, test := range []struct {
		name    string
		rules   []string
		allowed []string
		denied  []string
	}{
		{"no rule", nil, []string{in, out}, nil},
		{"Host rules are another layer", []string{"acl In 0 Block azure-acl-h rule=Host"}, []string{in, out}, nil},
		{"other policies are no rules", []string{"policy OutBoundNAT {}"}, []string{in, out}, nil},
		{"any rule denies by default, both ways", []string{"acl In 222 Allow azure-acl-a remote=10.9.9.9"}, nil, []string{in, out}},
		{"a rule is for its direction", []string{"acl In 222 Allow azure-acl-a"}, []string{in}, []string{out}},
		{"a foreign rule counts", []string{`policy ACL {"Action":"Allow","Direction":"In","Priority":65500}`}, []string{in}, []string{out}},
		{"the lower priority wins", []string{"acl In 222 Allow azure-acl-a", block, "acl In 200 Block azure-acl-b remote=10.0.1.3"},
			[]string{in}, []string{"10.0.1.3 > 10.0.0.1 6/80"}},
		{"equal priority, equal action", []string{"acl In 222 Allow azure-acl-a", "acl In 222 Allow azure-acl-b"}, []string{in}, nil},
		{"equal priority, other action, other packets", []string{"acl In 222 Allow azure-acl-a remote=10.0.1.2", "acl In 222 Block azure-acl-b remote=10.0.1.3"},
			[]string{in}, []string{"10.0.1.3 > 10.0.0.1 6/80"}},

		{"protocol", []string{"acl In 222 Allow azure-acl-a proto=17", block}, []string{"10.0.1.2 > 10.0.0.1 17/53"}, []string{in}},
		{"SCTP", []string{"acl In 222 Allow azure-acl-a proto=132 local-ports=80", block}, []string{"10.0.1.2 > 10.0.0.1 132/80"}, []string{in}},
		{"any protocol", []string{"acl In 222 Allow azure-acl-a", block}, []string{in, "10.0.1.2 > 10.0.0.1 1/0"}, nil},
		{"In: destination port is local", []string{"acl In 222 Allow azure-acl-a proto=6 local-ports=80", block},
			[]string{in}, []string{"10.0.1.2 > 10.0.0.1 6/81", "10.0.1.2 > 10.0.0.1 17/80"}},
		{"Out: destination port is remote", []string{"acl Out 222 Allow azure-acl-a proto=6 remote-ports=80", shut},
			[]string{out}, []string{"10.0.0.1 > 10.0.1.2 6/81"}},
		{"ports and ranges", []string{"acl In 222 Allow azure-acl-a proto=6 local-ports=7,80-82,90", block},
			[]string{in, "10.0.1.2 > 10.0.0.1 6/7", "10.0.1.2 > 10.0.0.1 6/82", "10.0.1.2 > 10.0.0.1 6/90"},
			[]string{"10.0.1.2 > 10.0.0.1 6/79", "10.0.1.2 > 10.0.0.1 6/83", "10.0.1.2 > 10.0.0.1 6/8"}},

		{"In: local sets are the source", []string{"acl In 222 Allow azure-acl-a local-sets=web", block},
			[]string{in, "10.0.2.255 > 10.0.0.1 6/80"}, []string{"10.0.1.3 > 10.0.0.1 6/80", "10.0.3.0 > 10.0.0.1 6/80"}},
		{"In: remote sets are the destination", []string{"acl In 222 Allow azure-acl-a remote-sets=self", block},
			[]string{in}, []string{"10.0.1.2 > 10.0.0.2 6/80"}},
		{"In: remote sets are not the peer", []string{"acl In 222 Allow azure-acl-a remote-sets=web", block}, nil, []string{in}},
		{"Out: remote sets are the destination", []string{"acl Out 222 Allow azure-acl-a remote-sets=web", shut},
			[]string{out}, []string{"10.0.0.1 > 10.0.1.3 6/80"}},
		{"Out: local sets are the source", []string{"acl Out 222 Allow azure-acl-a local-sets=self", shut},
			[]string{out}, []string{"10.0.0.2 > 10.0.1.2 6/80"}},
		{"Out: local sets are not the peer", []string{"acl Out 222 Allow azure-acl-a local-sets=web", shut}, nil, []string{out}},
		{"sets are an AND", []string{"acl In 222 Allow azure-acl-a local-sets=team,web", block},
			[]string{in}, []string{"10.0.1.3 > 10.0.0.1 6/80", "10.0.2.1 > 10.0.0.1 6/80"}},
		{"an empty set matches nothing", []string{"acl In 222 Allow azure-acl-a local-sets=empty", block}, nil, []string{in}},
		{"a list is a union", []string{"acl In 222 Allow azure-acl-a local-sets=both", block},
			[]string{in, "10.0.1.3 > 10.0.0.1 6/80"}, []string{"10.0.1.4 > 10.0.0.1 6/80"}},
		{"a list and a set", []string{"acl In 222 Allow azure-acl-a local-sets=both,team", block},
			[]string{in, "10.0.1.3 > 10.0.0.1 6/80"}, []string{"10.0.2.1 > 10.0.0.1 6/80"}},
		{"a list of empty sets matches nothing", []string{"acl In 222 Allow azure-acl-a local-sets=only-empty", block}, nil, []string{in}},
		{"a list without members matches everything", []string{"acl In 222 Allow azure-acl-a local-sets=none", block},
			[]string{in, "10.99.0.1 > 10.0.0.1 6/80"}, nil},

		{"In: remote literals are the peer", []string{"acl In 222 Allow azure-acl-a remote=10.0.1.2", block},
			[]string{in}, []string{"10.0.1.3 > 10.0.0.1 6/80"}},
		{"Out: remote literals are the peer", []string{"acl Out 222 Allow azure-acl-a remote=10.0.1.2", shut},
			[]string{out}, []string{"10.0.0.1 > 10.0.1.3 6/80"}},
		{"In: local literals are the endpoint", []string{"acl In 222 Allow azure-acl-a local=10.0.0.1", block},
			[]string{in}, []string{"10.0.1.2 > 10.0.0.2 6/80"}},
		{"Out: local literals are the endpoint", []string{"acl Out 222 Allow azure-acl-a local=10.0.0.1", shut},
			[]string{out}, []string{"10.0.0.2 > 10.0.1.2 6/80"}},
		{"literals are an OR", []string{"acl In 222 Allow azure-acl-a remote=10.0.1.2,10.0.2.0/24,10.0.2.128/25", block},
			[]string{in, "10.0.2.0 > 10.0.0.1 6/80", "10.0.2.200 > 10.0.0.1 6/80"}, []string{"10.0.1.3 > 10.0.0.1 6/80", "10.0.3.0 > 10.0.0.1 6/80"}},
		{"everything as a literal", []string{"acl In 222 Allow azure-acl-a remote=0.0.0.0/0", block},
			[]string{in, "255.255.255.255 > 10.0.0.1 6/80", "0.0.0.0 > 10.0.0.1 6/80"}, nil},
		{"all of IPv6 as a literal", []string{"acl In 222 Allow azure-acl-a", "acl In 202 Block azure-acl-b remote=::/0"},
			[]string{in}, []string{"fd00::9 > fd00::1 6/80"}},
		{"a rule without addresses is for IPv6 as well", []string{"acl In 222 Allow azure-acl-a", "acl Out 222 Block azure-acl-b remote=0.0.0.0/1"},
			[]string{"fd00::9 > fd00::1 6/80"}, []string{"fd00::1 > fd00::9 6/80"}},
		{"sets and literals of IPv4 have no IPv6 address", []string{"acl In 222 Allow azure-acl-a local-sets=web", "acl In 222 Allow azure-acl-b remote=0.0.0.0/1", "acl In 222 Allow azure-acl-c local-sets=both"},
			nil, []string{"fd00::9 > fd00::1 6/80"}},
		{"sets on one side, literals on the other", []string{"acl In 222 Allow azure-acl-a local-sets=web remote=10.0.2.0/25", block},
			[]string{"10.0.2.1 > 10.0.0.1 6/80"}, []string{in, "10.0.2.129 > 10.0.0.1 6/80"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			s, err := ParseDump(site + indent(test.rules))
			require.NoError(t, err)
			for _, text := range test.allowed {
				require.True(t, traced(t, s, text), text)
			}
			for _, text := range test.denied {
				require.False(t, traced(t, s, text), text)
			}
		})
	}
}

// traced is the verdict on a packet that comes to ep, or leaves it.
func traced(t testing.TB, s *Sim, text string) bool {
	t.Helper()
	dir := hns.In
	if strings.HasPrefix(text, "10.0.0.") || strings.HasPrefix(text, "fd00::1 ") {
		dir = hns.Out
	}
	v, err := s.Trace("ep", dir, packet(t, text))
	require.NoError(t, err)
	return v.Allowed
}

func indent(lines []string) string {
	var b strings.Builder
	for _, line := range lines {
		fmt.Fprintf(&b, "  %s\n", line)
	}
	return b.String()
}

func TestTraceTellsWhatMatched(t *testing.T) {
	s, err := ParseDump(site + indent([]string{
		"acl In 3000 Block azure-acl-block",
		"acl In 222 Allow azure-acl-b",
		"acl In 222 Allow azure-acl-a proto=6",
		"acl In 222 Allow azure-acl-c proto=17",
	}))
	require.NoError(t, err)
	ids := func(v hnssim.Verdict) []string {
		var out []string
		for _, a := range v.Matched {
			out = append(out, a.ID)
		}
		return out
	}
	v, err := s.Trace("ep", hns.In, packet(t, "10.0.1.2 > 10.0.0.1 6/80"))
	require.NoError(t, err)
	require.ElementsMatch(t, []string{"azure-acl-a", "azure-acl-b"}, ids(v))
	require.False(t, v.Default)

	v, err = s.Trace("ep", hns.Out, packet(t, "10.0.0.1 > 10.0.1.2 6/80"))
	require.NoError(t, err)
	require.Equal(t, hnssim.Verdict{Default: true}, v)

	require.NoError(t, s.SetPolicies("ep", nil))
	v, err = s.Trace("ep", hns.Out, packet(t, "10.0.0.1 > 10.0.1.2 6/80"))
	require.NoError(t, err)
	require.Equal(t, hnssim.Verdict{Allowed: true, Default: true}, v)
}

// TestTraceFollowsTheSets: what is looked up once must not go stale.
func TestTraceFollowsTheSets(t *testing.T) {
	s, err := ParseDump(site + "  acl In 222 Allow azure-acl-a local-sets=both\n")
	require.NoError(t, err)
	p := packet(t, "10.0.1.9 > 10.0.0.1 6/80")
	allowed := func() bool {
		v, err := s.Trace("ep", hns.In, p)
		require.NoError(t, err)
		return v.Allowed
	}
	change := func(p hns.SetPolicy) { require.NoError(t, s.ModifySets(t.Context(), hns.Update, []hns.SetPolicy{p})) }
	require.False(t, allowed())
	change(leaf("front", "10.0.1.9"))
	require.True(t, allowed())
	change(list("both", "web"))
	require.False(t, allowed())
	change(leaf("front", "10.0.1.8"))
	change(list("both", "front"))
	require.False(t, allowed())
	change(leaf("front", "10.0.1.8", "10.0.1.9"))
	require.True(t, allowed())
	change(leaf("front"))
	require.False(t, allowed())
	change(list("both"))
	require.True(t, allowed(), "no member left: everything")
}

// TestTraceRefusesToGuess has every form that the tracer does not know.
func TestTraceRefusesToGuess(t *testing.T) {
	const in = "10.0.1.2 > 10.0.0.1 6/80"
	for _, test := range []struct {
		name   string
		rules  []string
		ep     string
		dir    hns.Direction
		packet string
		class  error
		want   string
	}{
		{"equal priorities, different actions", []string{"acl In 222 Allow azure-acl-a remote=10.0.1.2", "acl In 222 Block azure-acl-b"}, "ep", hns.In, in, hns.ErrInvalid, "different actions"},
		{"Out: source port", []string{"acl Out 222 Allow azure-acl-a proto=6 local-ports=80"}, "ep", hns.Out, "10.0.0.1 > 10.0.1.2 6/80", hns.ErrInvalid, "source ports"},
		{"In: source port", []string{"acl In 222 Allow azure-acl-a proto=17 remote-ports=80"}, "ep", hns.In, in, hns.ErrInvalid, "source ports"},
		{"tiers", []string{`policy TierAcl {"Name":"x"}`}, "ep", hns.In, in, hns.ErrInvalid, "tiered rules"},
		{"unknown endpoint", nil, "ep-9", hns.In, in, hns.ErrNotFound, "no such endpoint: ep-9"},
		{"unknown direction", nil, "ep", "Both", in, hns.ErrInvalid, "no such direction"},
		{"In: packet for somebody else", nil, "ep", hns.In, "10.0.1.2 > 10.0.0.9 6/80", hns.ErrInvalid, "10.0.0.9 is no address of the endpoint"},
		{"Out: packet of somebody else", nil, "ep", hns.Out, in, hns.ErrInvalid, "10.0.1.2 is no address of the endpoint"},
		{"IPv6", nil, "ep", hns.In, "fd00::1 > 10.0.0.1 6/80", hns.ErrInvalid, "not IPv4"},
	} {
		t.Run(test.name, func(t *testing.T) {
			s, err := ParseDump(site + indent(test.rules))
			require.NoError(t, err)
			v, err := s.Trace(test.ep, test.dir, packet(t, test.packet))
			require.ErrorIs(t, err, test.class)
			require.ErrorContains(t, err, test.want)
			require.Empty(t, v)
		})
	}
	s, err := ParseDump(site)
	require.NoError(t, err)
	_, err = s.Trace("ep", hns.In, hnssim.Packet{})
	require.ErrorIs(t, err, hns.ErrInvalid)
}
