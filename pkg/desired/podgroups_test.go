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

	"github.com/winnpm/winnpm/pkg/ipsets"
	"github.com/winnpm/winnpm/pkg/policy"
)

// TestPodGroupsModel: after any history each pod is once in the index, with those that
// are like it and nobody else, and computed sets are known to the kin that they
// select; also when different kin have one hash.
func TestPodGroupsModel(t *testing.T) {
	hashes := map[string]func(*Pod) uint64{
		"hashed": hashPods(),
		"one":    func(*Pod) uint64 { return 1 },
		"two":    func(p *Pod) uint64 { return uint64(len(p.Labels) % 2) },
	}
	rapid.Check(t, func(t *rapid.T) {
		m := newMembers(ipsets.NewCache())
		m.podGroup = newPodGroups(hashes[rapid.SampledFrom(slices.Sorted(maps.Keys(hashes))).Draw(t, "hash")])
		namespace := rapid.SampledFrom([]string{"x", "y"})
		key := rapid.Custom(func(t *rapid.T) PodKey {
			return PodKey{namespace.Draw(t, "namespace"), fmt.Sprint("p", rapid.IntRange(0, 4).Draw(t, "pod"))}
		})
		selector := rapid.Custom(func(t *rapid.T) policy.SetDef {
			in := rapid.SampledFrom([]string{"", "x", "y"}).Draw(t, "in")
			app := rapid.SampledFrom([]string{"a", "b"}).Draw(t, "app")
			return policy.SetDef{Name: ipsets.PodSelector(in, "app!="+app), Namespace: in, Pods: appIsNot(app)}
		})
		ref := ipsets.Ref{Kind: ipsets.RefSelector, Owner: "x/p"}
		defined := map[ipsets.Name]policy.SetDef{}
		t.Repeat(map[string]func(*rapid.T){
			"put": func(t *rapid.T) {
				k := key.Draw(t, "key")
				pod := &Pod{Namespace: k.Namespace, Name: k.Name, Labels: map[string]string{}}
				for _, label := range []string{"app", "tier"} {
					if value := rapid.SampledFrom([]string{"", "a", "b"}).Draw(t, label); value != "" {
						pod.Labels[label] = value
					}
				}
				if rapid.Bool().Draw(t, "serves") {
					pod.Ports = []PodPort{{"http", policy.TCP, 80}}
				}
				m.put(&PodState{Pod: pod})
			},
			"drop": func(t *rapid.T) { m.drop(key.Draw(t, "key")) },
			"define": func(t *rapid.T) {
				def := selector.Draw(t, "set")
				m.define(def, ref, nameSet{})
				defined[def.Name] = def
			},
			"undefine": func(t *rapid.T) {
				n := selector.Draw(t, "set").Name
				if _, ok := defined[n]; ok {
					m.cache.Release(n, ref)
					m.undefine(nameSet{n: true})
					delete(defined, n)
				}
			},
			"": func(t *rapid.T) { checkPodGroups(t, m, defined) },
		})
	})
}

// appIsNot matches the pods without a value of the label app.
type appIsNot string

func (n appIsNot) Matches(labels map[string]string) bool { return labels["app"] != string(n) }

func checkPodGroups(t *rapid.T, m *members, defined map[ipsets.Name]policy.SetDef) {
	seen := map[*PodState]*podGroup{}
	for ns := range m.podGroup.byNS {
		require.NotEmpty(t, m.podGroup.byNS[ns])
		for k := range m.podGroup.in(ns) {
			require.NotEmpty(t, k.pods, "podGroup without pods")
			for i, p := range k.pods {
				require.Nil(t, seen[p], "twice")
				require.Equal(t, ns, p.Namespace)
				require.Same(t, k, p.podGroup)
				require.Equal(t, i, p.at)
				require.True(t, k.like(p.Pod))
				seen[p] = k
			}
			var want []ipsets.Name
			for n, def := range defined {
				if (def.Namespace == "" || def.Namespace == ns) && def.Pods.Matches(k.labels) {
					want = append(want, n)
				}
			}
			require.ElementsMatch(t, want, k.chosen)
		}
	}
	require.Len(t, seen, len(m.pods))
	for _, p := range m.pods {
		require.NotNil(t, seen[p])
		for _, other := range m.pods {
			alike := p.Namespace == other.Namespace && maps.Equal(p.Labels, other.Labels) && slices.Equal(p.Ports, other.Ports)
			require.Equal(t, alike, seen[p] == seen[other])
		}
	}
	serving := 0
	for p := range m.podGroup.serving("http", policy.TCP) {
		require.NotEmpty(t, p.Ports)
		serving++
	}
	for _, p := range m.pods {
		serving -= len(p.Ports)
	}
	require.Zero(t, serving)
}

// counting counts what it is asked.
type counting struct{ asked *int }

func (c counting) Matches(map[string]string) bool { *c.asked++; return true }

// TestPodEventAsksNoSelector: the first pod of a workload is asked of every
// computed set, those that are like it of none; and a set asks once for them all.
func TestPodEventAsksNoSelector(t *testing.T) {
	m, asked := newMembers(ipsets.NewCache()), 0
	define := func(n int) {
		set := ipsets.PodSelector("", fmt.Sprint("selector-", n))
		m.define(policy.SetDef{Name: set, Pods: counting{&asked}}, ipsets.Ref{Kind: ipsets.RefSelector, Owner: "x/p"}, nameSet{})
	}
	for n := range 10 {
		define(n)
	}
	pod := func(n int, app string) {
		p := &PodState{member: true, Pod: &Pod{
			Namespace: "x", Name: fmt.Sprint("p", n), Addr: netip.AddrFrom4([4]byte{10, 0, 0, byte(n)}), Labels: map[string]string{"app": app},
		}}
		m.leave(m.pods[p.Key()])
		m.put(p)
		m.enter(p)
	}
	pod(0, "a")
	require.Equal(t, 10, asked)
	for n := 1; n < 100; n++ {
		pod(n, "a")
	}
	require.Equal(t, 10, asked, "replicas")
	pod(0, "b")
	require.Equal(t, 20, asked, "labels that no pod had")
	pod(1, "b")
	require.Equal(t, 20, asked, "labels that a pod has")
	define(10)
	require.Equal(t, 22, asked, "a new set")
	require.Equal(t, 100, m.cache.Len(ipsets.PodSelector("", "selector-10")))
}

// TestStagingAllocates as much for a pod in a large cluster as in a small one.
func TestStagingAllocates(t *testing.T) {
	staged := func(workloads int) float64 {
		d, tx := newTestState(), NewObjects()
		pod := func(n int, labels map[string]string) *Pod {
			return &Pod{
				Namespace: fmt.Sprint("ns-", n%10), Name: fmt.Sprint("p", n), UID: types.UID(fmt.Sprint(n)),
				Addr: netip.AddrFrom4([4]byte{10, 0, byte(n / 256), byte(n)}), Labels: labels,
			}
		}
		labels := map[string]string{"app": "a", "hash": "1"}
		here := pod(0, nil) // the policies are active, by it
		here.Namespace, here.Local = "x", true
		tx.SharePod(here)
		tx.SharePod(pod(1, labels))
		tx.SharePod(pod(21, labels))
		tx.SharePod(pod(11, map[string]string{"app": "b"}))
		for n := range workloads {
			app := fmt.Sprint("app-", n)
			tx.SharePod(pod(100+n, map[string]string{"app": app}))
			tx.SetPolicy(&networkingv1.NetworkPolicy{
				ObjectMeta: metav1.ObjectMeta{Namespace: "x", Name: app},
				Spec: networkingv1.NetworkPolicySpec{Ingress: []networkingv1.NetworkPolicyIngressRule{{From: []networkingv1.NetworkPolicyPeer{
					{PodSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}}},
					{PodSelector: &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
						{Key: "app", Operator: metav1.LabelSelectorOpNotIn, Values: []string{app}},
					}}, NamespaceSelector: &metav1.LabelSelector{}},
				}}}},
			})
		}
		d.Stage(&tx, time.Time{})
		there, back := NewObjects(), NewObjects()
		there.SharePod(pod(1, map[string]string{"app": "b"}))
		back.SharePod(pod(1, labels))
		return testing.AllocsPerRun(20, func() {
			d.Stage(&there, time.Time{})
			d.Stage(&back, time.Time{})
			d.TakeEffects()
		})
	}
	small, large := staged(5), staged(300)
	t.Logf("%.0f allocations among 5 workloads and policies, %.0f among 300", small, large)
	require.LessOrEqual(t, large, small+2)
}
