package dataplane

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"pgregory.net/rapid"
	"sigs.k8s.io/yaml"

	"github.com/winnpm/winnpm/pkg/desired"
	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/pkg/policy"
	"github.com/winnpm/winnpm/pkg/state"
	"github.com/winnpm/winnpm/test/hnsfault"
	"github.com/winnpm/winnpm/tool/hnssim"
)

// portModel is a local client pod, policies that let it out through the named
// port http, and remote pods that serve it: what is wanted, kept naively.
type portModel struct {
	t        require.TestingT
	sim      *hnsfault.Sim
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
	peer string
	has  func(*portModel, modelPod) bool
}{
	"everyone": {"", func(*portModel, modelPod) bool { return true }},
	"block": {
		"{ipBlock: {cidr: 10.0.0.0/24}}",
		func(_ *portModel, p modelPod) bool { return netip.MustParsePrefix("10.0.0.0/24").Contains(p.addr) },
	},
	"own": {
		"{podSelector: {}}",
		func(_ *portModel, p modelPod) bool { return p.namespace == "x" },
	},
	"team": {
		"{namespaceSelector: {matchLabels: {team: a}}}",
		func(m *portModel, p modelPod) bool { return m.team[p.namespace] },
	},
}

func newPortModel(t require.TestingT) *portModel {
	m := &portModel{
		t: t, sim: hnsfault.New(hnsfault.Options{Foreign: hnssim.DefaultForeign()}), now: time.Unix(1_700_000_000, 0),
		pods: map[string]modelPod{}, policies: map[string]string{}, team: map[string]bool{"x": false}, tx: NewTransaction(),
	}
	m.dp = New(Config{Client: m.sim, Now: func() time.Time { return m.now }})
	require.NoError(t, m.sim.CreateEndpoint(hnssim.NewEndpoint{ID: "ep", Addrs: []netip.Addr{netip.MustParseAddr("10.0.9.9")}}))
	m.client()
	return m
}

func (m *portModel) client() {
	m.tx.SetPod(desired.Pod{Namespace: "x", Name: "client", UID: "client", Local: true, Addr: netip.MustParseAddr("10.0.9.9")})
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
	ns := desired.Namespace{Name: name}
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
	pod := desired.Pod{Namespace: namespace, Name: name, UID: types.UID(namespace + name), Addr: p.addr}
	if number > 0 {
		pod.Ports = []desired.PodPort{{Name: "http", Protocol: policy.TCP, Number: number}, {Name: "http", Protocol: policy.UDP, Number: 53}}
	}
	m.tx.SetPod(pod)
}

func (m *portModel) deletePod(name string) {
	m.tx.DeleteFinishedPod(desired.PodKey{Namespace: m.pods[name].namespace, Name: name})
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
	if len(m.policies) == 0 {
		for _, set := range m.sim.Sets() {
			require.NotContains(m.t, set.Name, "namedport", "no set outlives its rules")
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
