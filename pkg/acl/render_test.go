package acl

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	networkingv1 "k8s.io/api/networking/v1"
	"sigs.k8s.io/yaml"

	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/pkg/ipsets"
	"github.com/winnpm/winnpm/pkg/policy"
)

// fakePorts resolves http to 8080 on the pod itself and, towards peers, to 8080
// and to 9090, which nobody serves any more.
type fakePorts struct{}

func (fakePorts) Own(name string, proto policy.Protocol) (uint16, bool) {
	return 8080, name == "http" && proto == policy.TCP
}

func (fakePorts) Served(at Reach) []ServedPort {
	http := policy.Port{Protocol: policy.TCP, Name: "http"}
	return []ServedPort{
		{Port: policy.Port{Protocol: policy.TCP, Name: "other"}, Set: ipsets.NamedPort("other", "TCP", 1), Number: 1},
		{Port: http, Set: ipsets.NamedPortIn(at.Blocks, "http", "TCP", 8080), Number: 8080},
		{Port: http, Set: ipsets.NamedPortIn(at.Blocks, "http", "TCP", 9090), Number: 9090, Unused: true},
	}
}

func compiled(t testing.TB, spec string) policy.Policy {
	var np networkingv1.NetworkPolicy
	require.NoError(t, yaml.UnmarshalStrict([]byte("metadata: {namespace: x, name: p}\nspec: "+spec), &np))
	return policy.Compile(&np)
}

func aclsOf(c policy.Policy, id func(ipsets.Name) string) []*SourcedACL {
	var rules []ResolvedRule
	for _, r := range c.Rules {
		rules = append(rules, Resolve(r, Source{Tier: policy.Namespaced, Key: c.Key, Index: r.Index}, c.Key.Namespace, fakePorts{}))
	}
	acls, _ := Render(rules, Options{ID: id, Limit: 1 << 20})
	return acls
}

// TestRenderPlain: rules to ACLs, with set names in place of ids.
func TestRenderPlain(t *testing.T) {
	for _, tc := range []struct{ name, spec, want string }{
		{"deny", `{podSelector: {}}`, ""},
		{"everyone", `{podSelector: {}, ingress: [{}]}`, "222 allow in azure-acl-x.p\n"},
		{
			"ingress sets are the source",
			`{podSelector: {}, ingress: [{from: [{podSelector: {matchLabels: {a: b}}}], ports: [{port: 80}]}]}`,
			"222 allow in azure-acl-x.p proto=6 local=ns-x,podlabel-a:b lports=80\n",
		},
		{
			"egress sets are the destination",
			`{podSelector: {}, policyTypes: [Egress], egress: [{to: [{podSelector: {matchLabels: {a: b}}}], ports: [{port: 80, protocol: UDP}]}]}`,
			"222 allow out azure-acl-x.p proto=17 remote=ns-x,podlabel-a:b rports=80\n",
		},
		{
			"literals are always remote",
			`{podSelector: {}, policyTypes: [Ingress, Egress], ingress: [{from: [{ipBlock: {cidr: 10.0.0.0/30, except: [10.0.0.1/32]}}]}], egress: [{to: [{ipBlock: {cidr: 10.0.0.8/32}}]}]}`,
			"222 allow in azure-acl-x.p remote=10.0.0.0,10.0.0.2/31\n222 allow out azure-acl-x.p remote=10.0.0.8\n",
		},
		{
			"one rule for each protocol, ports in a list",
			`{podSelector: {}, ingress: [{ports: [{port: 80}, {port: 90, endPort: 99}, {port: 80}, {port: 53, protocol: UDP}, {port: 7, protocol: SCTP}]}]}`,
			"222 allow in azure-acl-x.p proto=132 lports=7\n222 allow in azure-acl-x.p proto=6 lports=80,90-99\n222 allow in azure-acl-x.p proto=17 lports=53\n",
		},
		{
			"every port of a protocol wins over numbers",
			`{podSelector: {}, ingress: [{ports: [{port: 80}, {protocol: TCP}]}]}`,
			"222 allow in azure-acl-x.p proto=6\n",
		},
		{
			"a named ingress port is the pod's own",
			`{podSelector: {}, ingress: [{ports: [{port: http}, {port: 80}]}]}`,
			"222 allow in azure-acl-x.p proto=6 lports=80,8080\n",
		},
		{
			"what the pod's own number touches is one range",
			`{podSelector: {}, ingress: [{ports: [{port: http}, {port: 8081, endPort: 8090}, {port: 8000, endPort: 8079}, {port: 9000}]}]}`,
			"222 allow in azure-acl-x.p proto=6 lports=8000-8090,9000\n",
		},
		{
			"one that is in a range is not named twice",
			`{podSelector: {}, ingress: [{ports: [{port: http}, {port: 8080, endPort: 8082}]}]}`,
			"222 allow in azure-acl-x.p proto=6 lports=8080-8082\n",
		},
		{
			"one that the pod does not have removes the rule",
			`{podSelector: {}, ingress: [{ports: [{port: dns}]}, {ports: [{port: http, protocol: UDP}]}]}`,
			"",
		},
		{
			"a named egress port is a set and a number",
			`{podSelector: {}, policyTypes: [Egress], egress: [{to: [{podSelector: {}}], ports: [{port: http}, {port: 80}]}]}`,
			"222 allow out azure-acl-x.p proto=6 remote=namedport:http:TCP:8080@,ns-x rports=8080\n" +
				"unused 222 allow out azure-acl-x.p proto=6 remote=namedport:http:TCP:9090@,ns-x rports=9090\n" +
				"222 allow out azure-acl-x.p proto=6 remote=ns-x rports=80\n",
		},
		{
			"towards an ipBlock its literals become a set",
			`{podSelector: {}, policyTypes: [Egress], egress: [{to: [{ipBlock: {cidr: 10.0.0.0/24}}], ports: [{port: http}]}]}`,
			"222 allow out azure-acl-x.p proto=6 remote=namedport:http:TCP:8080@10.0.0.0/24 rports=8080\n" +
				"unused 222 allow out azure-acl-x.p proto=6 remote=namedport:http:TCP:9090@10.0.0.0/24 rports=9090\n",
		},
		{
			"a rule that is there twice is there once",
			`{podSelector: {}, ingress: [{ports: [{port: 80}]}, {ports: [{port: 80}]}]}`,
			"222 allow in azure-acl-x.p proto=6 lports=80\n",
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var b strings.Builder
			for _, r := range aclsOf(compiled(t, tc.spec), ipsets.Name.String) {
				if r.Unused {
					b.WriteString("unused ")
				}
				fmt.Fprintln(&b, RuleText(r.ACL))
			}
			require.Empty(t, cmp.Diff(tc.want, b.String()))
		})
	}
}

// TestRenderManyLiterals: a rule has at most 4000 addresses, none is lost.
func TestRenderManyLiterals(t *testing.T) {
	var peers []string
	for i := range 2*hns.MaxAddressesPerACL + 1 {
		peers = append(peers, fmt.Sprintf("{ipBlock: {cidr: 10.%d.%d.%d/32}}", i>>14&255, i>>7&127, i<<1&255)) // none joins its neighbour
	}
	acls := aclsOf(compiled(t, `{podSelector: {}, ingress: [{from: [`+strings.Join(peers, ", ")+`]}]}`), ipsets.Name.ID)
	require.Len(t, acls, 3)
	seen := map[string]bool{}
	for _, r := range acls {
		texts := strings.Split(r.RemoteAddresses, ",")
		require.LessOrEqual(t, len(texts), hns.MaxAddressesPerACL)
		for _, text := range texts {
			require.False(t, seen[text])
			seen[text] = true
		}
	}
	require.Len(t, seen, len(peers))
}

// TestNamedPortBlocks: many blocks are cut short in a name but still told apart.
func TestNamedPortBlocks(t *testing.T) {
	prefixes := func(n int) (out []netip.Prefix) {
		for i := range n {
			out = append(out, netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(i), 0, 0}), 16))
		}
		return out
	}
	require.Empty(t, BlocksInName(nil))
	require.Equal(t, "10.0.0.0/16,10.1.0.0/16,10.2.0.0/16,10.3.0.0/16", BlocksInName(prefixes(4)))
	long := prefixes(900)
	require.Regexp(t, `^10\.0\.0\.0/16\+899-[0-9a-f]{32}$`, BlocksInName(long))
	other := slices.Clone(long)
	other[899] = netip.MustParsePrefix("11.0.0.0/16")
	require.NotEqual(t, BlocksInName(long), BlocksInName(other))
	require.Len(t, BlocksInName(other), len(BlocksInName(long)))
}
