package hnsfault

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/pkg/ipsets"
	"github.com/winnpm/winnpm/tool/hnssim"
)

func TestDump(t *testing.T) {
	s := New(Options{Network: "my net"})
	require.NoError(t, s.PutSet(leaf("podselector-x/app notin (a,b)", "10.0.0.10", "10.0.0.9", "9.0.0.0/8")))
	require.NoError(t, s.PutSet(hns.SetPolicy{ID: "somebody-elses", Name: "tag", Type: hns.IPSet}))
	require.NoError(t, s.PutSet(leaf("ns-x")))
	require.NoError(t, s.PutSet(list("nslabel-{a=b}", "podselector-x/app notin (a,b)", "ns-x")))
	require.NoError(t, s.PutSet(list("nslabel-none")))
	require.NoError(t, s.CreateEndpoint(hnssim.NewEndpoint{
		ID: "ep", Addrs: []netip.Addr{netip.MustParseAddr("10.0.0.9"), netip.MustParseAddr("10.0.0.8")},
		Policies: []hns.EndpointPolicy{
			{Type: "SDN Route", Settings: []byte("{\n}")},
			{Type: "ACL", Settings: []byte(`{"Action":"Allow","Direction":"In","Priority":65500}`)},
			hns.NewACLPolicy(allow(func(a *hns.ACL) {
				a.LocalAddresses = "somebody-elses," + derivedID("ns-x") + "," + derivedID("nslabel-{a=b}")
				a.RemoteAddresses, a.LocalPorts, a.RemotePorts = "10.0.0.2,10.0.0.0/31", "80,8000-8080", "1-2"
			})),
			hns.NewACLPolicy(hns.ACL{ID: "azure-acl-host", Action: hns.Allow, Direction: hns.Out, RuleType: hns.Host}),
		},
	}))
	require.NoError(t, s.CreateEndpoint(hnssim.NewEndpoint{ID: "a,b", Network: "other net", State: hnssim.Degraded, Remote: true, Policies: []hns.EndpointPolicy{}}))
	want := `network "my net"
set ns-x IPSET
set nslabel-none NESTEDIPSET
set "nslabel-{a=b}" NESTEDIPSET "podselector-x/app notin (a,b)",ns-x
set "podselector-x/app notin (a,b)" IPSET 9.0.0.0/8,10.0.0.9,10.0.0.10
set tag IPSET id=somebody-elses
endpoint "a,b" state=Degraded remote network="other net"
endpoint ep addrs=10.0.0.8,10.0.0.9
  acl In 222 Allow azure-acl-x.test proto=6 local-sets="nslabel-{a=b}",ns-x,tag remote=10.0.0.0/31,10.0.0.2 local-ports=80,8000-8080 remote-ports=1-2
  acl Out 0 Allow azure-acl-host rule=Host
  policy "SDN Route" "{\n}"
  policy ACL {"Action":"Allow","Direction":"In","Priority":65500}
`
	require.Empty(t, cmp.Diff(want, s.Dump()))
	again, err := ParseDump(want)
	require.NoError(t, err)
	require.Empty(t, cmp.Diff(want, again.Dump()))
	require.Equal(t, "my net", again.network)
	require.Equal(t, map[string]int{"ns-x": 1, "tag": 1, "podselector-x/app notin (a,b)": 0, "nslabel-none": 0, "nslabel-{a=b}": 1}, ruleCounts(again))
}

// ruleCounts returns how many rules name each set.
func ruleCounts(s *Sim) map[string]int {
	out := map[string]int{}
	for _, p := range s.Sets() {
		out[p.Name] = 0
		for _, e := range s.Endpoints() {
			for _, a := range rulesIn(e.Policies) {
				out[p.Name] += min(1, strings.Count(a.LocalAddresses+a.RemoteAddresses, p.ID))
			}
		}
	}
	return out
}

// TestDerivedID: a fixture without Ids gets those that WinNPM uses.
func TestDerivedID(t *testing.T) {
	for _, name := range []ipsets.Name{ipsets.Namespace("x"), ipsets.Empty(), ipsets.NestedLabel("app", "b", "a")} {
		require.Equal(t, name.ID(), derivedID(name.String()))
	}
}

func TestParseDumpSkipsCommentsAndTakesAnyOrder(t *testing.T) {
	s, err := ParseDump(`# a node
network azure

endpoint ep
  acl In 222 Allow azure-acl-x.y local-sets=group
set group NESTEDIPSET web
set web IPSET`)
	require.NoError(t, err)
	require.Equal(t, `network azure
set group NESTEDIPSET web
set web IPSET
endpoint ep
  acl In 222 Allow azure-acl-x.y local-sets=group
`, s.Dump())
}

func TestParseDumpErrors(t *testing.T) {
	for _, test := range []struct{ text, want string }{
		{"", `no network`},
		{"set a IPSET", `line 1: "set" before the network`},
		{"network", `line 1: want: network NAME`},
		{"network a=b", `line 1: want: network NAME`},
		{`network ""`, `line 1: want: network NAME`},
		{"network a\nnetwork b", `line 2: unexpected "network"`},
		{"network a\nfoo", `line 2: unexpected "foo"`},
		{"network a\n  acl In", `line 2: "acl" before an endpoint`},
		{"network a\nset b", `line 2: want: set NAME TYPE [VALUE,...] [id=ID]`},
		{"network a\nset b IPSET 10.0.0.1 10.0.0.2", `line 2: want: set NAME TYPE [VALUE,...] [id=ID]`},
		{"network a\nset b IPSET id=c,d", `line 2: want: set NAME TYPE [VALUE,...] [id=ID]`},
		{"network a\nset b IPSET ", `line 2: unexpected " "`},
		{"network a\nset  b IPSET", `line 2: "" must be quoted`},
		{"network a\nset b IPSET\r", `line 2: "IPSET\r" must be quoted`},
		{"network a\nset b IPSET id=c id=d", `line 2: id twice`},
		{"network a\nset b IPSET size=1", `line 2: unknown key "size"`},
		{"network a\nset \"b IPSET", `line 2: quoted text: invalid syntax`},
		{"network a\nset \"b\"c IPSET", `line 2: unexpected "c IPSET"`},
		{"network a\nset b LIST", `line 2: hnssim: put set "b": invalid: no such set type: "LIST" of set b`},
		{"network a\nset b IPSET\nset b IPSET", `line 3: a second set "b"`},
		{"network a\nset b IPSET 10.0.0", `line 2: hnssim: put set "b": invalid: a value that is no address and no block: "10.0.0" of set b`},
		{"network a\n\nset b NESTEDIPSET c", `line 3: no set "c"`},
		{"network a\nset b NESTEDIPSET b", `line 2: hnssim: put set "b": invalid: a set that contains itself: b`},
		{"network a\nendpoint", `line 2: want: endpoint ID [addrs=IP,...] [state=STATE] [remote] [network=NAME]`},
		{"network a\nendpoint b local", `line 2: want: endpoint ID [addrs=IP,...] [state=STATE] [remote] [network=NAME]`},
		{"network a\nendpoint b,c", `line 2: a list as ID`},
		{"network a\nendpoint b addrs=c", `line 2: ParseAddr("c"): unable to parse IP`},
		{"network a\nendpoint b state=Gone", `line 2: no state "Gone"`},
		{"network a\nendpoint b\nendpoint b", `line 3: hnssim: create endpoint b: already exists`},
		{"network a\nendpoint b\n  acl In 222 Allow", `line 3: want: acl DIRECTION PRIORITY ACTION ID, then words KEY=VALUE`},
		{"network a\nendpoint b\n  acl In x Allow azure-acl-c", `line 3: priority: strconv.ParseUint: parsing "x": invalid syntax`},
		{"network a\nendpoint b\n  acl In 222 Allow c", `line 3: rule "c" is not ours: write it as policy`},
		{"network a\nendpoint b\n  acl In 222 Allow azure-acl-c local=10.0.0.1 local-sets=d", `line 3: both local and local-sets`},
		{"network a\nendpoint b\n  acl In 222 Allow azure-acl-c local-sets=d", `line 3: no set "d"`},
		{"network a\nendpoint b\n  acl In 0 Allow azure-acl-c", `line 3: hnssim: change endpoint b: invalid: a Switch rule of priority 0: azure-acl-c`},
		{"network a\nendpoint b\n  policy ACL", `line 3: want a blank after "ACL"`},
		{"network a\nendpoint b\n  policy ACL {", `line 3: hnssim: change endpoint b: invalid: settings that do not decode: decode ACL: unexpected end of JSON input`},
		{"network a\nendpoint b\n  policy ACL \"{", `line 3: settings: invalid syntax`},
	} {
		_, err := ParseDump(test.text)
		require.EqualError(t, err, test.want, "%q", test.text)
	}
}

// TestDumpRoundTrip builds nodes through the front door and reads their dumps.
func TestDumpRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := drawNode(t)
		text := s.Dump()
		again, err := ParseDump(text)
		require.NoError(t, err, text)
		require.Empty(t, cmp.Diff(text, again.Dump()))
		require.Empty(t, cmp.Diff(ruleCounts(s), ruleCounts(again)))
	})
}

// drawNode returns a random node.
func drawNode(t *rapid.T) *Sim {
	s := New(Options{Network: rapid.StringN(1, 5, -1).Filter(validName).Draw(t, "network")})
	var leaves, all []string
	name := rapid.OneOf(rapid.StringMatching(`[a-c]{1,2}`), rapid.StringN(1, 6, -1)).Filter(validName)
	for range rapid.IntRange(0, 4).Draw(t, "leaves") {
		p := leaf(name.Draw(t, "leaf"))
		for range rapid.IntRange(0, 3).Draw(t, "values") {
			p.Values = append(p.Values, fmt.Sprintf("10.0.0.%d", rapid.IntRange(0, 12).Draw(t, "value")))
		}
		if rapid.Bool().Draw(t, "foreign id") {
			p.ID = fmt.Sprintf("id-%d", len(leaves))
		}
		if s.PutSet(p) == nil {
			leaves, all = append(leaves, p.ID), append(all, p.ID)
		}
	}
	for range rapid.IntRange(0, 2).Draw(t, "lists") {
		p := list(name.Draw(t, "list"))
		if len(leaves) > 0 {
			p.Values = rapid.SliceOfN(rapid.SampledFrom(leaves), 0, 3).Draw(t, "members")
		}
		if s.PutSet(p) == nil {
			all = append(all, p.ID)
		}
	}
	for i := range rapid.IntRange(0, 3).Draw(t, "endpoints") {
		id := fmt.Sprintf("ep %d", i)
		require.NoError(t, s.CreateEndpoint(hnssim.NewEndpoint{
			ID: id, Addrs: rapid.SliceOfN(rapid.SampledFrom([]netip.Addr{
				netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.0.0.2"), netip.MustParseAddr("fd00::1"),
			}), 0, 2).Draw(t, "addrs"),
			Remote: rapid.Bool().Draw(t, "remote"),
		}))
		require.NoError(t, s.SetState(id, rapid.SampledFrom([]hnssim.EndpointState{hnssim.Uninitialized, hnssim.Attached, hnssim.AttachedSharing, hnssim.Destroyed}).Draw(t, "state")))
		var policies []hns.EndpointPolicy
		for range rapid.IntRange(0, 4).Draw(t, "policies") {
			a := allow(func(a *hns.ACL) {
				a.ID = rapid.SampledFrom([]string{"azure-acl-a.b", "azure-acl-c d", "other", ""}).Draw(t, "acl")
				a.LocalAddresses = ""
				a.RemoteAddresses = rapid.SampledFrom([]string{"", "10.0.0.1", "10.2.0.0/16,10.1.0.0/16"}).Draw(t, "remote")
				if len(all) > 0 {
					a.LocalAddresses = rapid.SampledFrom(all).Draw(t, "local") + "," + rapid.SampledFrom(all).Draw(t, "local")
				}
			})
			policies = append(policies, hns.NewACLPolicy(a))
		}
		if rapid.Bool().Draw(t, "nat") {
			policies = append(policies, hns.EndpointPolicy{Type: "NAT", Settings: []byte(" {\"a\":\n\"" + `\n"}`)})
		}
		require.NoError(t, s.SetPolicies(id, policies))
	}
	return s
}

func validName(s string) bool { return s != "" }

func FuzzParseDump(f *testing.F) {
	f.Add(town)
	f.Add("network \"a b\"\nset \"x,y\" IPSET id=z 10.0.0.0/8\nendpoint e state=Created remote network=o\n  policy A \"{}\"\n")
	f.Add("network a\nset w IPSET\nendpoint e addrs=::1\n  acl Out 1 Block azure-acl-x rule=Host proto=17 remote-sets=w remote=1.2.3.4\n")
	f.Fuzz(func(t *testing.T, text string) {
		s, err := ParseDump(text)
		if err != nil {
			return
		}
		first := s.Dump()
		again, err := ParseDump(first)
		if err != nil {
			t.Fatalf("%v\n%s", err, first)
		}
		if diff := cmp.Diff(first, again.Dump()); diff != "" {
			t.Fatal(diff)
		}
	})
}
