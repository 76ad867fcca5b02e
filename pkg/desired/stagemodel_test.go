package desired

import (
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
	"pgregory.net/rapid"
	"sigs.k8s.io/yaml"

	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/pkg/ipsets"
	"github.com/winnpm/winnpm/pkg/policy"
)

// stageModel is a State, and endpoints as careful as they may be: they are rendered when the
// effects of what was staged say so, and hold what their rules name.
type stageModel struct {
	d     *State
	pods  map[PodKey]Pod
	teams map[string]string // of namespaces, by the label team
	rules map[netip.Addr][]hns.ACL
	holds map[netip.Addr]map[ipsets.Name]bool
	texts map[policy.Key]string
}

// modelPolicies are specs of policies, with the sets that rules can be compared by.
var modelPolicies = []string{
	`{podSelector: {}}`,
	`{podSelector: {}, policyTypes: [Egress]}`,
	`{podSelector: {matchLabels: {app: a}}, ingress: [{from: [{podSelector: {matchLabels: {app: b}}}]}]}`,
	`{podSelector: {matchLabels: {app: b}}, ingress: [{from: [{podSelector: {matchLabels: {app: a}}}, {namespaceSelector: {matchLabels: {team: a}}}], ports: [{port: http}]}]}`,
	`{podSelector: {}, ingress: [{from: [{podSelector: {matchExpressions: [{key: app, operator: In, values: [a, b]}]}}], ports: [{port: 80}]}]}`,
	`{podSelector: {matchLabels: {app: a}}, policyTypes: [Egress], egress: [{to: [{namespaceSelector: {matchLabels: {team: b}}}], ports: [{port: http}]}]}`,
	`{podSelector: {matchExpressions: [{key: app, operator: NotIn, values: [a]}]}, ingress: [{from: [{podSelector: {matchExpressions: [{key: app, operator: Exists}]}, namespaceSelector: {}}]}]}`,
	`{podSelector: {}, ingress: [{from: [{podSelector: {matchExpressions: [{key: app, operator: DoesNotExist}]}}]}]}`,
}

func newStageModel() *stageModel {
	return &stageModel{
		d: newTestState(), pods: map[PodKey]Pod{}, teams: map[string]string{}, rules: map[netip.Addr][]hns.ACL{},
		holds: map[netip.Addr]map[ipsets.Name]bool{}, texts: map[policy.Key]string{},
	}
}

// stage folds objects in and follows the effects.
func (m *stageModel) stage(do func(*Objects)) {
	in := NewObjects()
	do(&in)
	m.d.Stage(&in, time.Time{})
	came := m.d.TakeEffects()
	for addr := range came.Changed {
		m.render(addr)
	}
	if came.All {
		for addr := range m.rules {
			m.render(addr)
		}
	}
}

// render gives the endpoint of an address the rules that it should have.
func (m *stageModel) render(addr netip.Addr) {
	rules, _, is := m.desired(addr)
	m.rules[addr] = rules
	ref := ipsets.Ref{Kind: ipsets.RefRule, Owner: addr.String()}
	for n := range is {
		if !m.holds[addr][n] {
			m.d.Hold(n, ref)
		}
	}
	for n := range m.holds[addr] {
		if !is[n] {
			m.d.Release(ref, n)
		}
	}
	m.holds[addr] = is
}

// desired returns the rules of an address, apart from these those that match nothing any
// more, and the sets of the former.
func (m *stageModel) desired(addr netip.Addr) (rules, unused []hns.ACL, names map[ipsets.Name]bool) {
	names = map[ipsets.Name]bool{}
	home := m.d.Home([]netip.Addr{addr})
	if len(home) == 0 {
		return nil, nil, names
	}
	all := m.d.ListOf(home, false)
	rules = slices.Clone(all.Shared)
	for _, a := range all.Unused {
		unused = append(unused, a.ACL)
	}
	for _, a := range all.ACLs {
		rules = append(rules, a.ACL)
		for _, n := range a.Names {
			names[n] = true
		}
	}
	return rules, unused, names
}

// modelAddrs are the two addresses that a pod may have, which no other one claims.
func modelAddrs(pod int) []netip.Addr {
	return []netip.Addr{netip.AddrFrom4([4]byte{10, 0, 0, byte(pod + 1)}), netip.AddrFrom4([4]byte{10, 0, 1, byte(pod + 1)})}
}

const modelPods = 5

// check compares rules, sets and references with what follows from the objects alone.
func (m *stageModel) check(t require.TestingT) {
	for pod := range modelPods {
		for _, addr := range modelAddrs(pod) {
			rules, unused, _ := m.desired(addr)
			is := slices.DeleteFunc(slices.Clone(m.rules[addr]), func(a hns.ACL) bool { // nobody is told of a number that went
				return slices.Contains(unused, a)
			})
			require.Equal(t, len(rules), len(is), addr)
			require.True(t, slices.Equal(rules, is), "the endpoint of %s was not told that its rules are others", addr)
		}
	}
	mentioned := map[ipsets.Name][]ipsets.Ref{} // by whom
	hold := func(n ipsets.Name, kind ipsets.RefKind, owner string) {
		mentioned[n] = append(mentioned[n], ipsets.Ref{Kind: kind, Owner: owner})
	}
	for key, text := range m.texts {
		np := modelPolicy(t, key, text)
		compiled := policy.Compile(np)
		selects := false
		for _, p := range m.pods {
			selects = selects || p.Local && p.Addr.IsValid() && !p.Finished && p.Namespace == key.Namespace && compiled.Subject.Matches(p.Labels)
		}
		for _, def := range compiled.Sets {
			if selects {
				hold(def.Name, ipsets.RefSelector, key.String())
			}
		}
	}
	for addr, names := range m.holds {
		for n := range names {
			hold(n, ipsets.RefRule, addr.String())
		}
	}
	for n, refs := range mentioned {
		require.True(t, m.d.cache.Has(n), n)
		var is []ipsets.Ref
		for _, ref := range m.d.cache.Refs(n) {
			if ref.Kind != ipsets.RefList {
				is = append(is, ref)
			}
		}
		require.ElementsMatch(t, refs, is, "who holds %s", n)
	}
	for _, app := range []string{"a", "b"} {
		m.checkMembers(t, ipsets.PodLabel("app", app), func(p Pod) bool { return p.Labels["app"] == app })
	}
	m.checkMembers(t, ipsets.PodLabelKey("app"), func(p Pod) bool { return p.Labels["app"] != "" })
	for _, ns := range modelNamespaces {
		m.checkMembers(t, ipsets.PodSelector(ns, "!app"), func(p Pod) bool { return p.Namespace == ns && p.Labels["app"] == "" })
		m.checkMembers(t, ipsets.Namespace(ns), func(p Pod) bool { return p.Namespace == ns })
		for _, team := range []string{"a", "b"} {
			nested := ipsets.NamespaceLabel("team", team)
			if m.d.cache.Has(nested) {
				require.Equal(t, m.teams[ns] == team, m.d.cache.HasMember(nested, ipsets.Namespace(ns)), "%s has %s", nested, ns)
			}
		}
	}
}

// checkMembers compares the members of a set with those that are to be in it.
func (m *stageModel) checkMembers(t require.TestingT, n ipsets.Name, in func(Pod) bool) {
	if !m.d.cache.Has(n) {
		return
	}
	count := 0
	for _, p := range m.pods {
		is := p.Addr.IsValid() && !p.Finished && in(p)
		require.Equal(t, is, p.Addr.IsValid() && m.d.cache.Contains(n, p.Addr), "%s: %+v", n, p)
		if is {
			count++
		}
	}
	require.Equal(t, count, m.d.cache.Len(n), "%s has addresses of nobody", n)
}

var modelNamespaces = []string{"x", "y"}

func modelPolicy(t require.TestingT, key policy.Key, text string) *networkingv1.NetworkPolicy {
	np := &networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}}
	require.NoError(t, yaml.UnmarshalStrict([]byte(text), &np.Spec))
	return np
}

// TestStageModel: whatever comes in which order, each endpoint that renders its rules only
// when the effects say so has those that the objects ask for, each set that a policy or a rule
// needs is held once by each of them and has the members that it should have, and when all
// objects are gone so are all sets.
func TestStageModel(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		m := newStageModel()
		namespace, names := rapid.SampledFrom(modelNamespaces), rapid.SampledFrom([]string{"p", "q"})
		t.Repeat(map[string]func(*rapid.T){
			"pod":    func(t *rapid.T) { m.drawPod(t, rapid.IntRange(0, modelPods-1).Draw(t, "pod")) },
			"remove": func(t *rapid.T) { m.removePod(rapid.IntRange(0, modelPods-1).Draw(t, "pod")) },
			"policy": func(t *rapid.T) {
				key := policy.Key{Namespace: namespace.Draw(t, "namespace"), Name: names.Draw(t, "name")}
				m.texts[key] = rapid.SampledFrom(modelPolicies).Draw(t, "text")
				m.stage(func(o *Objects) { o.SetPolicy(modelPolicy(t, key, m.texts[key])) })
			},
			"delete": func(t *rapid.T) {
				key := policy.Key{Namespace: namespace.Draw(t, "namespace"), Name: names.Draw(t, "name")}
				delete(m.texts, key)
				m.stage(func(o *Objects) { o.DeletePolicy(key) })
			},
			"namespace": func(t *rapid.T) {
				ns := namespace.Draw(t, "namespace")
				m.teams[ns] = rapid.SampledFrom([]string{"a", "b"}).Draw(t, "team")
				m.stage(func(o *Objects) { o.SetNamespace(Namespace{Name: ns, Labels: map[string]string{"team": m.teams[ns]}}) })
			},
			"node": func(t *rapid.T) {
				addr := netip.AddrFrom4([4]byte{192, 168, 0, byte(rapid.IntRange(1, 2).Draw(t, "address"))})
				m.stage(func(o *Objects) { o.SetNodeAddrs([]netip.Addr{addr}) })
			},
			"": func(t *rapid.T) { m.check(t) },
		})
		for pod := range modelPods {
			m.removePod(pod)
		}
		for key := range maps.Clone(m.texts) {
			delete(m.texts, key)
			m.stage(func(o *Objects) { o.DeletePolicy(key) })
		}
		m.check(t)
		for _, n := range []ipsets.Name{
			ipsets.PodLabel("app", "a"), ipsets.PodLabel("app", "b"), ipsets.PodLabelKey("app"), ipsets.Namespace("x"), ipsets.Namespace("y"),
			ipsets.NamespaceLabel("team", "a"), ipsets.NamespaceLabel("team", "b"), ipsets.AllNamespaces(), ipsets.NestedLabel("app", "a", "b"), ipsets.PodSelector("x", "!app"), ipsets.PodSelector("y", "!app"),
		} {
			require.False(t, m.d.cache.Has(n), "%s is held by %v", n, m.d.cache.Refs(n))
		}
		require.Empty(t, m.d.namedPorts.byKey)
		require.Empty(t, m.d.local)
	})
}

func (m *stageModel) drawPod(t *rapid.T, pod int) {
	p := Pod{
		Namespace: modelNamespaces[pod%2], Name: fmt.Sprint(pod), UID: types.UID(fmt.Sprint(pod, rapid.IntRange(0, 1).Draw(t, "anew"))), Local: pod < 3,
		Addr: rapid.SampledFrom(append(modelAddrs(pod), netip.Addr{})).Draw(t, "address"), Finished: rapid.IntRange(0, 5).Draw(t, "finished") == 0,
	}
	if app := rapid.SampledFrom([]string{"", "a", "b"}).Draw(t, "app"); app != "" {
		p.Labels = map[string]string{"app": app}
	}
	if port := rapid.SampledFrom([]uint16{0, 80, 81}).Draw(t, "http"); port > 0 {
		p.Ports = []PodPort{{Name: "http", Protocol: policy.TCP, Number: port}}
	}
	m.pods[p.Key()] = p
	m.stage(func(o *Objects) { o.SetPod(p) })
}

func (m *stageModel) removePod(pod int) {
	key := PodKey{modelNamespaces[pod%2], fmt.Sprint(pod)}
	delete(m.pods, key)
	m.stage(func(o *Objects) { o.DeletePod(key) })
}
