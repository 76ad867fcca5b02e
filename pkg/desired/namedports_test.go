package desired

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/winnpm/winnpm/pkg/acl"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"
	"sigs.k8s.io/yaml"

	"github.com/winnpm/winnpm/pkg/ipsets"
	"github.com/winnpm/winnpm/pkg/policy"
)

// TestNumbersAreShared: the lowest 64 numbers of each namespace count, whatever numbers other
// namespaces use. Numbers of the policy's own namespace come first.
func TestNumbersAreShared(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		number := rapid.Uint16Range(1, 200)
		f := &namedPort{serving: map[string]map[uint16]int{}}
		for namespace, most := range map[string]int{"own": 100, "a": 30, "b": 30, "c": 30, "evil": 200} {
			for _, n := range rapid.SliceOfN(number, 0, most).Draw(t, namespace) {
				f.count(namespace, n, 1)
			}
		}
		numbers, rank, counts := (&namedPorts{}).choose(&view{key: viewKey{Reach: acl.Reach{Own: "own"}}, port: f})
		over := (&view{counts: counts}).above(maxNumbers)
		all, lowest := map[uint16]bool{}, map[uint16]int{}
		var tooMany []string
		for namespace, in := range f.serving {
			if len(in) > maxNumbers {
				tooMany = append(tooMany, namespace)
			}
			for i, n := range slices.Sorted(maps.Keys(in)) {
				if i == maxNumbers {
					break
				}
				if namespace == "own" {
					i = -1
				}
				if was, is := lowest[n]; !is || i < was {
					lowest[n] = i
				}
				all[n] = true
			}
		}
		require.ElementsMatch(t, tooMany, over)
		require.Equal(t, lowest, rank)
		require.Equal(t, slices.Sorted(maps.Keys(all)), numbers)
	})
}

// TestNamedPortSetName: a family and its number are read off the name of the set, of
// many blocks only while the family is known; of any other name they are not.
func TestNamedPortSetName(t *testing.T) {
	fs := func(known ...*namedPort) *namedPorts {
		out := newNamedPorts(newMembers(nil))
		for _, f := range known {
			out.get(f.portKey, f.prefixes)
		}
		return out
	}
	rapid.Check(t, func(t *rapid.T) {
		var blocks []netip.Prefix
		for i := range rapid.IntRange(0, 6).Draw(t, "blocks") {
			blocks = append(blocks, netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(i), 0, 0}), rapid.SampledFrom([]int{16, 31, 32}).Draw(t, "bits")))
		}
		f := &namedPort{portKey: portKey{"http", policy.TCP, acl.BlocksInName(blocks)}, prefixes: blocks}
		number := rapid.Uint16().Draw(t, "number")
		for _, known := range []*namedPorts{fs(), fs(f)} {
			set, ok := known.parse(f.set(number))
			require.Equal(t, len(blocks) <= 4 || len(known.byKey) > 0, ok)
			if ok {
				require.Equal(t, portSet{f.portKey, blocks, number}, set)
			}
		}
	})
	for _, set := range []ipsets.Name{
		ipsets.NamedPort("a:http", "TCP", 80), ipsets.NamedPort("http", "", 0), ipsets.NamedPortIn("", "http", "TCP", 80),
		ipsets.NamedPortIn("10.0.0.0/8,", "http", "TCP", 80), ipsets.NamedPortIn("10.0.0.1/32", "http", "TCP", 80),
		ipsets.NamedPortIn("10.0.0.0/16+899-00", "http", "TCP", 80), ipsets.PodLabel("a:b", "080"), ipsets.PodLabel("a:b", "x"), ipsets.PodLabelKey("http"),
	} {
		_, ok := fs().parse(set)
		require.Equal(t, set == ipsets.NamedPort("http", "", 0), ok, "%s", set)
	}
}

// TestPodPortOfOneName: of several ports with one name and protocol the first
// counts, for the pod itself and for its peers.
func TestPodPortOfOneName(t *testing.T) {
	p := &PodState{Pod: &Pod{Ports: []PodPort{{"http", policy.UDP, 53}, {"http", policy.TCP, 80}, {"http", policy.TCP, 81}}}, inSets: true}
	number, ok := p.port("http", policy.TCP)
	require.True(t, ok)
	require.Equal(t, uint16(80), number)
	_, ok = p.port("https", policy.TCP)
	require.False(t, ok)

	number, ok = p.serves(portKey{port: "http", proto: policy.TCP}, nil)
	require.True(t, ok)
	require.Empty(t, cmp.Diff(uint16(80), number))
	p.inSets = false
	_, ok = p.serves(portKey{port: "http", proto: policy.TCP}, nil)
	require.False(t, ok, "who does not own its address serves nothing")
}

// TestInBlocks compares the search with a look at every block.
func TestInBlocks(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var spec []string
		for i := range rapid.IntRange(0, 6).Draw(t, "blocks") {
			spec = append(spec, fmt.Sprintf("{ipBlock: {cidr: 10.0.%d.0/%d, except: [10.0.%d.%d/32]}}",
				rapid.IntRange(0, 4).Draw(t, "third"), rapid.SampledFrom([]int{22, 24, 28}).Draw(t, fmt.Sprint("bits", i)), i, rapid.IntRange(0, 15).Draw(t, "except")))
		}
		np := &networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "x", Name: "p"}}
		require.NoError(t, yaml.UnmarshalStrict([]byte("{podSelector: {}, ingress: [{from: ["+strings.Join(spec, ", ")+"]}]}"), &np.Spec))
		addr := netip.AddrFrom4([4]byte{10, 0, byte(rapid.IntRange(0, 4).Draw(t, "third of the address")), byte(rapid.IntRange(0, 20).Draw(t, "fourth"))})
		for _, rule := range policy.Compile(np).Rules {
			want := false
			for _, b := range rule.Peers[0].Blocks { // all blocks are one peer
				want = want || b.Contains(addr)
			}
			require.Equal(t, want, inBlocks(rule.Peers[0].Blocks, addr), "%v in %v", addr, rule.Peers[0].Blocks)
		}
	})
}
