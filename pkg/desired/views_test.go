package desired

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/winnpm/winnpm/pkg/acl"

	"github.com/stretchr/testify/require"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"pgregory.net/rapid"
	"sigs.k8s.io/yaml"

	"github.com/winnpm/winnpm/pkg/ipsets"
	"github.com/winnpm/winnpm/pkg/policy"
)

// viewModel is a local client pod with policies that let it out through the named port
// http, and pods that serve it, kept naively.
type viewModel struct {
	d        *State
	client   netip.Addr
	holds    map[ipsets.Name]bool // what the rules of the client's endpoint name
	pods     map[int]Pod
	policies map[string]string // name → where its peers are, a key of viewPlaces
	team     map[string]bool   // namespaces with the label team=a
}

// viewPlaces are the peers of a policy in namespace x, as text, and who is among them.
var viewPlaces = map[string]struct {
	peer  string
	reach acl.Reach
	has   func(*viewModel, Pod) bool
}{
	"everyone": {"", acl.Reach{Own: "x"}, func(*viewModel, Pod) bool { return true }},
	"block": {
		"{ipBlock: {cidr: 10.0.0.0/24}}", acl.Reach{Own: "x", Blocks: "10.0.0.0/24"},
		func(_ *viewModel, p Pod) bool { return netip.MustParsePrefix("10.0.0.0/24").Contains(p.Addr) },
	},
	"own": {
		"{podSelector: {}}", acl.Reach{Own: "x", Among: ipsets.Namespace("x")},
		func(_ *viewModel, p Pod) bool { return p.Namespace == "x" },
	},
	"team": {
		"{namespaceSelector: {matchLabels: {team: a}}}", acl.Reach{Own: "x", Among: ipsets.NamespaceLabel("team", "a")},
		func(m *viewModel, p Pod) bool { return m.team[p.Namespace] },
	},
}

// httpTo is a policy of namespace x that allows http towards a place.
func httpTo(t require.TestingT, name, where string) *networkingv1.NetworkPolicy {
	http := intstr.FromString("http")
	rule := networkingv1.NetworkPolicyEgressRule{Ports: []networkingv1.NetworkPolicyPort{{Port: &http}}}
	if peer := viewPlaces[where].peer; peer != "" {
		rule.To = make([]networkingv1.NetworkPolicyPeer, 1)
		require.NoError(t, yaml.UnmarshalStrict([]byte(peer), &rule.To[0]))
	}
	return &networkingv1.NetworkPolicy{
		ObjectMeta: metav1.ObjectMeta{Namespace: "x", Name: name},
		Spec: networkingv1.NetworkPolicySpec{
			PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeEgress},
			Egress:      []networkingv1.NetworkPolicyEgressRule{rule},
		},
	}
}

// stage folds a change in, and has the client's endpoint hold what its rules name.
func (m *viewModel) stage(do func(*Objects)) {
	in := NewObjects()
	do(&in)
	m.d.Stage(&in, time.Time{})
	names := map[ipsets.Name]bool{}
	ref := ipsets.Ref{Kind: ipsets.RefRule, Owner: "ep"}
	for _, a := range m.d.ListOf(m.d.Home([]netip.Addr{m.client}), false).ACLs {
		for _, n := range a.Names {
			if names[n] = true; !m.holds[n] {
				m.d.Hold(n, ref)
			}
		}
	}
	for n := range m.holds {
		if !names[n] {
			m.d.Release(ref, n)
		}
	}
	m.holds = names
	m.d.TakeEffects()
}

// check compares the views and the sets that they have with the model.
func (m *viewModel) check(t require.TestingT) {
	named := m.d.namedPorts
	used := map[string]bool{}
	for where, at := range viewPlaces {
		f, key := named.byKey[portKey{"http", policy.TCP, at.reach.Blocks}], viewKey{at.reach, "http", policy.TCP}
		if !slices.Contains(slices.Collect(maps.Values(m.policies)), where) {
			require.True(t, f == nil || f.views[key] == nil, "a view without users is forgotten")
			continue
		}
		used[at.reach.Blocks] = true
		numbers := map[uint16]bool{}
		for _, p := range m.pods {
			if len(p.Ports) > 0 && at.has(m, p) {
				numbers[p.Ports[0].Number] = true
			}
		}
		require.Equal(t, slices.Sorted(maps.Keys(numbers)), f.views[key].numbers, where)
		for number := range numbers {
			require.Contains(t, f.sets[number], f.set(number), "a rule needs the set of each")
			require.Positive(t, m.d.cache.Len(f.set(number)))
		}
	}
	require.Len(t, named.byKey, len(used), "the sets of a port without views and rules are forgotten")
	require.Empty(t, named.stale)
	if len(used) == 0 {
		require.Empty(t, named.byPort)
	}
}

// TestViewsModel: pods come, go, move and change their number, namespaces their label,
// policies come and go, and after each change the numbers of every view are those that
// pods within its reach serve.
func TestViewsModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := &viewModel{
			d: newTestState(), client: netip.MustParseAddr("10.0.9.9"), pods: map[int]Pod{}, policies: map[string]string{}, team: map[string]bool{},
		}
		m.stage(func(o *Objects) {
			o.SetPod(Pod{Namespace: "x", Name: "client", UID: "client", Local: true, Addr: m.client})
		})
		namespace := rapid.SampledFrom([]string{"x", "y", "z"})
		t.Repeat(map[string]func(*rapid.T){
			"pod": func(t *rapid.T) {
				i := rapid.IntRange(0, 3).Draw(t, "pod")
				addr := byte(3*i + rapid.IntRange(0, 2).Draw(t, "moved"))
				p := Pod{Namespace: namespace.Draw(t, "namespace"), Name: fmt.Sprint("p", i), Addr: netip.AddrFrom4([4]byte{10, 0, addr % 2, addr})}
				p.UID = types.UID(p.Key().String())
				if number := rapid.SampledFrom([]uint16{0, 80, 81, 82}).Draw(t, "number"); number > 0 {
					p.Ports = []PodPort{{"http", policy.TCP, number}, {"http", policy.UDP, 53}}
				}
				m.stage(func(o *Objects) {
					if was, is := m.pods[i]; is && was.Namespace != p.Namespace {
						o.DeletePod(was.Key())
					}
					o.SetPod(p)
				})
				m.pods[i] = p
			},
			"delete pod": func(t *rapid.T) {
				i := rapid.IntRange(0, 3).Draw(t, "pod")
				m.stage(func(o *Objects) { o.DeletePod(m.pods[i].Key()) })
				delete(m.pods, i)
			},
			"namespace": func(t *rapid.T) {
				ns := Namespace{Name: namespace.Draw(t, "name")}
				if m.team[ns.Name] = rapid.Bool().Draw(t, "team"); m.team[ns.Name] {
					ns.Labels = map[string]string{"team": "a"}
				}
				m.stage(func(o *Objects) { o.SetNamespace(ns) })
			},
			"delete namespace": func(t *rapid.T) {
				name := namespace.Draw(t, "name")
				delete(m.team, name)
				m.stage(func(o *Objects) { o.DeleteNamespace(name) })
			},
			"policy": func(t *rapid.T) {
				name, where := rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "policy"), rapid.SampledFrom(slices.Sorted(maps.Keys(viewPlaces))).Draw(t, "where")
				if rapid.IntRange(0, 2).Draw(t, "there") == 0 {
					delete(m.policies, name)
					m.stage(func(o *Objects) { o.DeletePolicy(policy.Key{Namespace: "x", Name: name}) })
					return
				}
				m.policies[name] = where
				m.stage(func(o *Objects) { o.SetPolicy(httpTo(t, name, where)) })
			},
			"": func(t *rapid.T) { m.check(t) },
		})
	})
}
