package dataplane

import (
	"context"
	"fmt"
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

	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/pkg/hns/hnssim"
	"github.com/winnpm/winnpm/pkg/ipsets"
	"github.com/winnpm/winnpm/pkg/policy"
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
	policies map[string]string // name → block, "" for everywhere
}

type modelPod struct {
	addr   netip.Addr
	number uint16 // 0: it does not serve the port
}

func newPortModel(t require.TestingT) *portModel {
	m := &portModel{
		t: t, sim: hnssim.New(hnssim.Options{Foreign: hnssim.DefaultForeign()}), now: time.Unix(1_700_000_000, 0),
		pods: map[string]modelPod{}, policies: map[string]string{}, tx: NewTransaction(),
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
	for name, p := range m.pods {
		m.pod(name, int(p.addr.As4()[3]), p.number)
	}
	for name, block := range m.policies {
		m.namedPolicy(name, block, true)
	}
}

// modelAddrs is the number of addresses of remote pods.
const modelAddrs = 12

// modelAddr returns one of them; half of them are inside 10.0.0.0/24.
func modelAddr(i int) netip.Addr { return netip.AddrFrom4([4]byte{10, 0, byte(i % 2), byte(i)}) }

// pod sets a remote pod; i is its address.
func (m *portModel) pod(name string, i int, number uint16) {
	p := modelPod{modelAddr(i), number}
	m.pods[name] = p
	pod := Pod{Namespace: "x", Name: name, UID: types.UID(name), Addr: p.addr}
	if number > 0 {
		pod.Ports = []PodPort{{Name: "http", Protocol: policy.TCP, Number: number}, {Name: "http", Protocol: policy.UDP, Number: 53}}
	}
	m.tx.SetPod(pod)
}

func (m *portModel) deletePod(name string) {
	delete(m.pods, name)
	m.tx.DeletePod(PodKey{Namespace: "x", Name: name})
}

// namedPolicy sets or deletes a policy that allows http towards a block.
func (m *portModel) namedPolicy(name, block string, there bool) {
	if !there {
		delete(m.policies, name)
		m.tx.DeletePolicy(policy.Key{Namespace: "x", Name: name})
		return
	}
	m.policies[name] = block
	http := intstr.FromString("http")
	rule := networkingv1.NetworkPolicyEgressRule{Ports: []networkingv1.NetworkPolicyPort{{Port: &http}}}
	if block != "" {
		rule.To = []networkingv1.NetworkPolicyPeer{{IPBlock: &networkingv1.IPBlock{CIDR: block}}}
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
	m.dp.cfg.DryRun = true
	m.apply()
	m.dp.cfg.DryRun = false
}

func (m *portModel) apply() Report {
	report, err := m.dp.ApplyDataplane(context.Background(), m.tx)
	require.NoError(m.t, err)
	require.Empty(m.t, report.Errors)
	m.tx = NewTransaction()
	return report
}

// allows says naively whether the client may reach an address.
func (m *portModel) allows(dst netip.Addr, port uint16) bool {
	for _, block := range m.policies {
		for _, p := range m.pods {
			inside := block == "" || netip.MustParsePrefix(block).Contains(p.addr)
			if p.addr == dst && p.number > 0 && p.number == port && inside {
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
	families := 0
	for _, block := range []string{"", "10.0.0.0/24"} {
		used := false
		for _, b := range m.policies {
			used = used || b == block
		}
		f := m.dp.families.byKey[familyKey{"http", policy.TCP, block}]
		if !used {
			require.Nil(m.t, f, "a family without users and rules is forgotten")
			continue
		}
		families++
		numbers := map[uint16]bool{}
		for _, p := range m.pods {
			if p.number > 0 && (block == "" || netip.MustParsePrefix(block).Contains(p.addr)) {
				numbers[p.number] = true
			}
		}
		for number, inUse := range f.numbers {
			require.Equal(m.t, numbers[number], inUse, "number %d of %q", number, block)
			require.Equal(m.t, inUse, m.dp.cache.Len(f.set(number)) > 0)
			delete(numbers, number)
		}
		require.Empty(m.t, numbers)
	}
	require.Len(m.t, m.dp.families.byKey, families)
	if families == 0 {
		require.Empty(m.t, m.dp.families.byPort)
		require.Empty(m.t, m.sim.Sets(), "no set outlives its family")
	}
}

// TestFamiliesModel: pods come, go, move and change their number, policies come
// and go, and after every apply each packet does as the model says.
func TestFamiliesModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := newPortModel(t)
		t.Repeat(map[string]func(*rapid.T){
			"pod": func(t *rapid.T) {
				i, moved := rapid.IntRange(0, 3).Draw(t, "pod"), rapid.IntRange(0, 2).Draw(t, "moved")
				m.pod(fmt.Sprint("p", i), 3*i+moved, rapid.SampledFrom([]uint16{0, 80, 81, 82}).Draw(t, "number"))
			},
			"delete pod": func(t *rapid.T) { m.deletePod(fmt.Sprint("p", rapid.IntRange(0, 3).Draw(t, "pod"))) },
			"policy": func(t *rapid.T) {
				m.namedPolicy(
					rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "policy"),
					rapid.SampledFrom([]string{"", "10.0.0.0/24"}).Draw(t, "block"),
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

// TestFamilyBlocks: many blocks are cut short in a name but still told apart.
func TestFamilyBlocks(t *testing.T) {
	prefixes := func(n int) (out []netip.Prefix) {
		for i := range n {
			out = append(out, netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(i), 0, 0}), 16))
		}
		return out
	}
	require.Empty(t, familyBlocks(nil))
	require.Equal(t, "10.0.0.0/16,10.1.0.0/16,10.2.0.0/16,10.3.0.0/16", familyBlocks(prefixes(4)))
	long := prefixes(900)
	require.Regexp(t, `^10\.0\.0\.0/16\+899-[0-9a-f]{32}$`, familyBlocks(long))
	other := slices.Clone(long)
	other[899] = netip.MustParsePrefix("11.0.0.0/16")
	require.NotEqual(t, familyBlocks(long), familyBlocks(other))
	require.Len(t, familyBlocks(other), len(familyBlocks(long)))
}

// TestFamilyOfSetName: a family and its number are read off the name of the set, of
// many blocks only while the family is known; of any other name they are not.
func TestFamilyOfSetName(t *testing.T) {
	fs := func(known ...*family) *families {
		out := &families{byKey: map[familyKey]*family{}, byPort: map[PodPort][]*family{}}
		for _, f := range known {
			out.family(f.key, f.blocks)
		}
		return out
	}
	rapid.Check(t, func(t *rapid.T) {
		var blocks []netip.Prefix
		for i := range rapid.IntRange(0, 6).Draw(t, "blocks") {
			blocks = append(blocks, netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(i), 0, 0}), rapid.SampledFrom([]int{16, 31, 32}).Draw(t, "bits")))
		}
		f := &family{key: familyKey{"http", policy.TCP, familyBlocks(blocks)}, blocks: blocks}
		number := rapid.Uint16().Draw(t, "number")
		for _, known := range []*families{fs(), fs(f)} {
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

	f := &family{key: familyKey{port: "http", proto: policy.TCP}}
	number, ok = f.number(p)
	require.True(t, ok)
	require.Empty(t, cmp.Diff(uint16(80), number))
	p.member = false
	_, ok = f.number(p)
	require.False(t, ok, "who does not own its address serves nothing")
}
