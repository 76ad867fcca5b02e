package dataplane

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"pgregory.net/rapid"
	"sigs.k8s.io/yaml"

	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/pkg/hns/hnssim"
	"github.com/winnpm/winnpm/pkg/ipsets"
	"github.com/winnpm/winnpm/pkg/policy"
	"github.com/winnpm/winnpm/pkg/state"
)

// portModel is a local client pod, policies that let it out through the named
// port http, and remote pods that serve it: what is wanted, kept naively.
type portModel struct {
	t        require.TestingT
	sim      *hnssim.Sim
	dp       *Dataplane
	tx       *Transaction
	now      time.Time
	pods     map[string]modelPod
	policies map[string]string // name → where its peers are, a key of modelPlaces
	team     map[string]bool   // namespaces with label team=a
}

type modelPod struct {
	namespace string
	addr      netip.Addr
	number    uint16 // 0: it does not serve the port
}

// modelPlaces are the peers of a policy in namespace x, as text, and who is among them.
var modelPlaces = map[string]struct {
	peer  string
	reach reach
	has   func(*portModel, modelPod) bool
}{
	"everyone": {"", reach{own: "x"}, func(*portModel, modelPod) bool { return true }},
	"block": {
		"{ipBlock: {cidr: 10.0.0.0/24}}", reach{own: "x", blocks: "10.0.0.0/24"},
		func(_ *portModel, p modelPod) bool { return netip.MustParsePrefix("10.0.0.0/24").Contains(p.addr) },
	},
	"own": {
		"{podSelector: {}}", reach{own: "x", among: ipsets.Namespace("x")},
		func(_ *portModel, p modelPod) bool { return p.namespace == "x" },
	},
	"team": {
		"{namespaceSelector: {matchLabels: {team: a}}}", reach{own: "x", among: ipsets.NamespaceLabel("team", "a")},
		func(m *portModel, p modelPod) bool { return m.team[p.namespace] },
	},
}

func newPortModel(t require.TestingT) *portModel {
	m := &portModel{
		t: t, sim: hnssim.New(hnssim.Options{Foreign: hnssim.DefaultForeign()}), now: time.Unix(1_700_000_000, 0),
		pods: map[string]modelPod{}, policies: map[string]string{}, team: map[string]bool{"x": false}, tx: NewTransaction(),
	}
	m.dp = New(Config{Client: m.sim, Now: func() time.Time { return m.now }})
	require.NoError(t, m.sim.CreateEndpoint(hnssim.NewEndpoint{ID: "ep", Addrs: ipv4Addrs("10.0.9.9")}))
	m.client()
	return m
}

func (m *portModel) client() {
	m.tx.SetPod(Pod{Namespace: "x", Name: "client", UID: "client", Local: true, Addr: netip.MustParseAddr("10.0.9.9")})
}

// restart is a new process that learns of everything at once.
func (m *portModel) restart() {
	m.dp = New(Config{Client: m.sim, Now: func() time.Time { return m.now }})
	m.tx = NewTransaction()
	m.client()
	for name, team := range m.team {
		m.namespace(name, team)
	}
	for name, p := range m.pods {
		m.pod(name, p.namespace, int(p.addr.As4()[3]), p.number)
	}
	for name, where := range m.policies {
		m.namedPolicy(name, where, true)
	}
}

// modelAddrs is the number of addresses of remote pods.
const modelAddrs = 12

// modelAddr returns one of them; half of them are inside 10.0.0.0/24.
func modelAddr(i int) netip.Addr { return netip.AddrFrom4([4]byte{10, 0, byte(i % 2), byte(i)}) }

// namespace sets a namespace.
func (m *portModel) namespace(name string, team bool) {
	m.team[name] = team
	ns := Namespace{Name: name}
	if team {
		ns.Labels = map[string]string{"team": "a"}
	}
	m.tx.SetNamespace(ns)
}

// pod sets a remote pod; i is its address.
func (m *portModel) pod(name, namespace string, i int, number uint16) {
	if was, ok := m.pods[name]; ok && was.namespace != namespace {
		m.deletePod(name)
	}
	p := modelPod{namespace, modelAddr(i), number}
	m.pods[name] = p
	pod := Pod{Namespace: namespace, Name: name, UID: types.UID(namespace + name), Addr: p.addr}
	if number > 0 {
		pod.Ports = []PodPort{{Name: "http", Protocol: policy.TCP, Number: number}, {Name: "http", Protocol: policy.UDP, Number: 53}}
	}
	m.tx.SetPod(pod)
}

func (m *portModel) deletePod(name string) {
	m.tx.DeletePod(PodKey{Namespace: m.pods[name].namespace, Name: name})
	delete(m.pods, name)
}

// namedPolicy sets or deletes a policy that allows http towards a place.
func (m *portModel) namedPolicy(name, where string, there bool) {
	if !there {
		delete(m.policies, name)
		m.tx.DeletePolicy(policy.Key{Namespace: "x", Name: name})
		return
	}
	m.policies[name] = where
	http := intstr.FromString("http")
	rule := networkingv1.NetworkPolicyEgressRule{Ports: []networkingv1.NetworkPolicyPort{{Port: &http}}}
	if peer := modelPlaces[where].peer; peer != "" {
		rule.To = make([]networkingv1.NetworkPolicyPeer, 1)
		require.NoError(m.t, yaml.UnmarshalStrict([]byte(peer), &rule.To[0]))
	}
	m.tx.SetPolicy(&networkingv1.NetworkPolicy{
		ObjectMeta: metav1.ObjectMeta{Namespace: "x", Name: name},
		Spec: networkingv1.NetworkPolicySpec{
			PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeEgress},
			Egress:      []networkingv1.NetworkPolicyEgressRule{rule},
		},
	})
}

// stage folds the transaction in and reads the endpoints, without any write.
func (m *portModel) stage() {
	m.dp.core.cfg.DryRun = true
	m.apply()
	m.dp.core.cfg.DryRun = false
}

func (m *portModel) apply() state.Report {
	report, err := m.dp.ApplyDataplane(context.Background(), m.tx)
	require.NoError(m.t, err)
	require.Empty(m.t, report.Errors)
	m.tx = NewTransaction()
	return report
}

// allows says naively whether the client may reach an address.
func (m *portModel) allows(dst netip.Addr, port uint16) bool {
	for _, where := range m.policies {
		for _, p := range m.pods {
			if p.addr == dst && p.number > 0 && p.number == port && modelPlaces[where].has(m, p) {
				return true
			}
		}
	}
	return len(m.policies) == 0
}

// check compares the packets with the model, and the ports that pods serve with
// the rules.
func (m *portModel) check() {
	for i := range modelAddrs {
		dst := modelAddr(i)
		for port := uint16(80); port < 84; port++ {
			v, err := m.sim.Trace("ep", hns.Out, hnssim.Packet{Src: netip.MustParseAddr("10.0.9.9"), Dst: dst, Protocol: 6, DstPort: port})
			require.NoError(m.t, err)
			require.Equal(m.t, m.allows(dst, port), v.Allowed, "%s:%d\n%s", dst, port, m.sim.Dump())
		}
	}
	namedPorts, views := map[string]bool{}, 0
	for where, at := range modelPlaces {
		f := m.dp.core.namedPorts.byKey[portKey{"http", policy.TCP, at.reach.blocks}]
		if !slices.Contains(slices.Collect(maps.Values(m.policies)), where) {
			require.True(m.t, f == nil || f.views[viewKey{at.reach, "http", policy.TCP}] == nil, "a view without users is forgotten")
			continue
		}
		namedPorts[at.reach.blocks] = true
		views++
		numbers, all := map[uint16]bool{}, map[uint16]bool{}
		for _, p := range m.pods {
			all[p.number] = all[p.number] || at.reach.blocks == "" || at.has(m, p)
			if p.number > 0 && at.has(m, p) {
				numbers[p.number] = true
			}
		}
		v := f.views[viewKey{at.reach, "http", policy.TCP}]
		require.Equal(m.t, slices.Sorted(maps.Keys(numbers)), v.numbers, where)
		for defined := range f.defined {
			number := defined.number
			require.Equal(m.t, all[number], m.dp.core.cache.Len(f.set(number)) > 0)
			delete(numbers, number)
		}
		require.Empty(m.t, numbers, "a rule needs the set of each")
	}
	require.Len(m.t, m.dp.core.namedPorts.byKey, len(namedPorts), "a portSets without views and rules is forgotten")
	require.Empty(m.t, m.dp.core.namedPorts.stale)
	if views == 0 {
		require.Empty(m.t, m.dp.core.namedPorts.byPort)
		for _, set := range m.sim.Sets() {
			require.NotContains(m.t, set.Name, "namedport", "no set outlives its portSets")
		}
	}
}

// TestNamedPortSetsModel: pods come, go, move and change their number, namespaces their
// label, policies come and go, and after every apply each packet does as the model says.
func TestNamedPortSetsModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := newPortModel(t)
		t.Repeat(map[string]func(*rapid.T){
			"pod": func(t *rapid.T) {
				i, moved := rapid.IntRange(0, 3).Draw(t, "pod"), rapid.IntRange(0, 2).Draw(t, "moved")
				namespace := rapid.SampledFrom([]string{"x", "y", "z"}).Draw(t, "namespace")
				m.pod(fmt.Sprint("p", i), namespace, 3*i+moved, rapid.SampledFrom([]uint16{0, 80, 81, 82}).Draw(t, "number"))
			},
			"delete pod": func(t *rapid.T) { m.deletePod(fmt.Sprint("p", rapid.IntRange(0, 3).Draw(t, "pod"))) },
			"namespace": func(t *rapid.T) {
				m.namespace(rapid.SampledFrom([]string{"x", "y", "z"}).Draw(t, "name"), rapid.Bool().Draw(t, "team"))
			},
			"delete namespace": func(t *rapid.T) {
				name := rapid.SampledFrom([]string{"y", "z"}).Draw(t, "name")
				delete(m.team, name)
				m.tx.DeleteNamespace(name)
			},
			"policy": func(t *rapid.T) {
				m.namedPolicy(
					rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "policy"),
					rapid.SampledFrom(slices.Sorted(maps.Keys(modelPlaces))).Draw(t, "where"),
					rapid.IntRange(0, 2).Draw(t, "there") > 0,
				)
			},
			"apply": func(*rapid.T) {
				require.True(t, m.apply().Converged())
				m.check()
			},
			"restart": func(*rapid.T) { m.restart() },
			"restart with nothing changed": func(*rapid.T) {
				require.True(t, m.apply().Converged())
				m.restart()
				report := m.apply()
				require.Empty(t, report.Plan)
				require.True(t, report.Converged())
				m.check()
			},
		})
	})
}

// TestNumbersAreShared: whatever numbers one namespace makes up, those of the policy's
// own namespace count, and so does the i-th of each other one as long as every namespace
// can have i of them.
func TestNumbersAreShared(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		number := rapid.Uint16Range(1, 200)
		f := &portSets{serving: map[string]map[uint16]int{}}
		for namespace, most := range map[string]int{"own": 20, "a": 30, "b": 30, "c": 30, "evil": 200} {
			for _, n := range rapid.SliceOfN(number, 0, most).Draw(t, namespace) {
				f.add(namespace, n)
			}
		}
		numbers, more := (&namedPortSets{}).choose(&view{key: viewKey{reach: reach{own: "own"}}, portSets: f})
		all := map[uint16]bool{}
		left := maxNumbers - len(f.serving["own"])
		for namespace, in := range f.serving {
			for i, n := range slices.Sorted(maps.Keys(in)) {
				all[n] = true
				if namespace == "own" || (i+1)*(len(f.serving)) <= left {
					require.Contains(t, numbers, n, "number %d of %s", i, namespace)
				}
			}
		}
		require.Equal(t, len(all) > maxNumbers, more)
		require.Len(t, numbers, min(len(all), maxNumbers))
		require.IsIncreasing(t, append([]uint16{0}, numbers...))
		for _, n := range numbers {
			require.True(t, all[n])
		}
	})
}

// TestNamedPortBlocks: many blocks are cut short in a name but still told apart.
func TestNamedPortBlocks(t *testing.T) {
	prefixes := func(n int) (out []netip.Prefix) {
		for i := range n {
			out = append(out, netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(i), 0, 0}), 16))
		}
		return out
	}
	require.Empty(t, blocksInName(nil))
	require.Equal(t, "10.0.0.0/16,10.1.0.0/16,10.2.0.0/16,10.3.0.0/16", blocksInName(prefixes(4)))
	long := prefixes(900)
	require.Regexp(t, `^10\.0\.0\.0/16\+899-[0-9a-f]{32}$`, blocksInName(long))
	other := slices.Clone(long)
	other[899] = netip.MustParsePrefix("11.0.0.0/16")
	require.NotEqual(t, blocksInName(long), blocksInName(other))
	require.Len(t, blocksInName(other), len(blocksInName(long)))
}

// TestNamedPortSetName: a family and its number are read off the name of the set, of
// many blocks only while the family is known; of any other name they are not.
func TestNamedPortSetName(t *testing.T) {
	fs := func(known ...*portSets) *namedPortSets {
		out := &namedPortSets{byKey: map[portKey]*portSets{}, byPort: map[PodPort][]*portSets{}}
		for _, f := range known {
			out.portSets(f.key, f.blocks)
		}
		return out
	}
	rapid.Check(t, func(t *rapid.T) {
		var blocks []netip.Prefix
		for i := range rapid.IntRange(0, 6).Draw(t, "blocks") {
			blocks = append(blocks, netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(i), 0, 0}), rapid.SampledFrom([]int{16, 31, 32}).Draw(t, "bits")))
		}
		f := &portSets{key: portKey{"http", policy.TCP, blocksInName(blocks)}, blocks: blocks}
		number := rapid.Uint16().Draw(t, "number")
		for _, known := range []*namedPortSets{fs(), fs(f)} {
			key, parts, n, ok := known.parse(f.set(number))
			require.Equal(t, len(blocks) <= 4 || len(known.byKey) > 0, ok)
			if ok {
				require.Equal(t, f.key, key)
				require.Equal(t, blocks, parts)
				require.Equal(t, number, n)
			}
		}
	})
	for _, set := range []ipsets.Name{
		ipsets.NamedPort("a:http", "TCP", 80), ipsets.NamedPort("http", "", 0), ipsets.NamedPortIn("", "http", "TCP", 80),
		ipsets.NamedPortIn("10.0.0.0/8,", "http", "TCP", 80), ipsets.NamedPortIn("10.0.0.1/32", "http", "TCP", 80),
		ipsets.NamedPortIn("10.0.0.0/16+899-00", "http", "TCP", 80), ipsets.PodLabel("a:b", "080"), ipsets.PodLabel("a:b", "x"), ipsets.PodLabelKey("http"),
	} {
		_, _, _, ok := fs().parse(set)
		require.Equal(t, set == ipsets.NamedPort("http", "", 0), ok, "%s", set)
	}
}

// TestPodPortOfOneName: of several ports with one name and protocol the first
// counts, for the pod itself and for its peers.
func TestPodPortOfOneName(t *testing.T) {
	p := &podState{Pod: &Pod{Ports: []PodPort{{"http", policy.UDP, 53}, {"http", policy.TCP, 80}, {"http", policy.TCP, 81}}}, member: true}
	number, ok := p.port("http", policy.TCP)
	require.True(t, ok)
	require.Equal(t, uint16(80), number)
	_, ok = p.port("https", policy.TCP)
	require.False(t, ok)

	f := &portSets{key: portKey{port: "http", proto: policy.TCP}}
	number, ok = f.number(p)
	require.True(t, ok)
	require.Empty(t, cmp.Diff(uint16(80), number))
	p.member = false
	_, ok = f.number(p)
	require.False(t, ok, "who does not own its address serves nothing")
}
