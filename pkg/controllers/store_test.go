package controllers

import (
	"maps"
	"slices"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"pgregory.net/rapid"

	"github.com/winnpm/winnpm/pkg/desired"
	"github.com/winnpm/winnpm/pkg/policy"
)

// keys is where a store under test enqueues.
type keys struct{ all []ObjectKey }

// storeOf returns a store that enqueues into keys.
func storeOf[O metav1.Object, T any](what kept[O, T], k *keys) *store[O, T] {
	return newStore(what, func(key ObjectKey, _, _ *T) { k.all = append(k.all, key) })
}

// set and remove pass an object to a store as the events of a watch do.
func (s *store[O, T]) set(object runtime.Object) error {
	_, err := s.apply(watch.Event{Type: watch.Modified, Object: object})
	return err
}

func (s *store[O, T]) remove(object runtime.Object) error {
	_, err := s.apply(watch.Event{Type: watch.Deleted, Object: object})
	return err
}

// wantsList reports whether a list would open closed objects.
func (s *store[O, T]) wantsList() bool {
	room, _ := s.apply(watch.Event{}) // it changes nothing
	return room
}

// relist has a store take a list of all objects.
func relist[O metav1.Object, T any](s *store[O, T], all ...runtime.Object) error {
	add, end := s.list()
	for _, object := range all {
		if err := add(object); err != nil {
			return err
		}
	}
	end()
	return nil
}

// take returns what was enqueued since, by name.
func (k *keys) take() []string {
	var names []string
	for _, key := range k.all {
		names = append(names, key.Kind.String()+" "+key.String())
	}
	k.all = nil
	slices.Sort(names)
	return names
}

func podStore() (*store[*corev1.Pod, desired.Pod], *keys) {
	k := &keys{}
	return storeOf(keptPods("n1", policy.DefaultBudgets()), k), k
}

// What the dataplane does not want to know changes nothing: no key, and the
// value stays the one that the dataplane has.
func TestStoreKnowsWhatIsNews(t *testing.T) {
	for _, tc := range []struct {
		name string
		edit func(*corev1.Pod)
		news bool
	}{
		{"nothing", func(*corev1.Pod) {}, false},
		{"version", func(p *corev1.Pod) { p.ResourceVersion = "9" }, false},
		{"annotation", func(p *corev1.Pod) { p.Annotations["note"] = "longer" }, false},
		{"heartbeat", func(p *corev1.Pod) {
			p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
		}, false},
		{"phase that says nothing", func(p *corev1.Pod) { p.Status.Phase = corev1.PodPending }, false},
		{"finished", func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed }, true},
		{"label", func(p *corev1.Pod) { p.Labels["app"] = "other" }, true},
		{"address", func(p *corev1.Pod) { p.Status.PodIP, p.Status.PodIPs = "10.0.0.9", nil }, true},
		{"another pod of the name", func(p *corev1.Pod) { p.UID = "other" }, true},
		{"port", func(p *corev1.Pod) { p.Spec.Containers[0].Ports[0].ContainerPort = 1 }, true},
		{"node", func(p *corev1.Pod) { p.Spec.NodeName = "n2" }, true},
		{"going", func(p *corev1.Pod) { p.DeletionTimestamp = nil }, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s, k := podStore()
			require.NoError(t, s.set(fullPod()))
			require.Equal(t, []string{"pods x/web"}, k.take())
			before := s.get(cache.ObjectName{Namespace: "x", Name: "web"})

			p := fullPod()
			tc.edit(p)
			require.NoError(t, s.set(p))
			after := s.get(cache.ObjectName{Namespace: "x", Name: "web"})
			require.NotNil(t, after)
			require.Equal(t, tc.news, before != after)
			require.Equal(t, tc.news, len(k.take()) == 1)

			before = after
			require.NoError(t, relist(s, p.DeepCopy()))
			after = s.get(cache.ObjectName{Namespace: "x", Name: "web"})
			require.Same(t, before, after, "a list of the same")
			require.Empty(t, k.take())
		})
	}
}

func TestStoresOfOtherKinds(t *testing.T) {
	meta := metav1.ObjectMeta{
		Namespace: "x", Name: "a", UID: "u", ResourceVersion: "1", Labels: map[string]string{"k": "v"},
		Annotations: map[string]string{"note": "long"}, ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "kubectl"}},
	}
	k := &keys{}

	policies := storeOf(keptPolicies(policy.DefaultBudgets()), k)
	np := &networkingv1.NetworkPolicy{ObjectMeta: meta, Spec: networkingv1.NetworkPolicySpec{PolicyTypes: []networkingv1.PolicyType{"Egress"}}}
	require.NoError(t, policies.set(np))
	require.NoError(t, policies.set(np.DeepCopy()), "as a relist does")
	require.Equal(t, []string{"networkpolicies x/a"}, k.take())
	kept := policies.get(cache.ObjectName{Namespace: "x", Name: "a"})
	require.Equal(t, np.Spec, kept.object.Spec)
	require.Empty(t, kept.object.Annotations)
	require.Empty(t, kept.object.Labels)
	require.Empty(t, kept.object.ManagedFields)
	require.NotEmpty(t, np.Annotations, "the object is not changed")
	np = np.DeepCopy()
	np.ResourceVersion = "2"
	require.NoError(t, policies.set(np))
	require.Equal(t, []string{"networkpolicies x/a"}, k.take())

	meta.Namespace = ""
	namespaces := storeOf(keptNamespaces(), k)
	ns := &corev1.Namespace{ObjectMeta: meta}
	require.NoError(t, namespaces.set(ns))
	require.Equal(t, []string{"namespaces a"}, k.take())
	ns = ns.DeepCopy()
	ns.ResourceVersion, ns.Annotations["note"] = "2", "longer"
	require.NoError(t, namespaces.set(ns))
	require.Empty(t, k.take())
	ns = ns.DeepCopy()
	ns.Labels["k"] = "w"
	require.NoError(t, namespaces.set(ns))
	require.Equal(t, []string{"namespaces a"}, k.take())

	nodes := storeOf(keptNodes(), k)
	n := newNode("n1", "10.9.0.1")
	require.NoError(t, nodes.set(n))
	require.Equal(t, []string{"nodes n1"}, k.take())
	n = n.DeepCopy()
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady}}
	require.NoError(t, nodes.set(n))
	require.Empty(t, k.take(), "a heartbeat")
	require.NoError(t, nodes.set(newNode("n1", "10.9.0.2")))
	require.Equal(t, []string{"nodes n1"}, k.take())

	require.EqualError(t, nodes.set(ns), "unexpected *v1.Namespace in the store of nodes")
}

// TestStoreModel holds the store against a map, and the keys against what
// changed between two looks.
func TestStoreModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, k := podStore()
		model := map[string]*corev1.Pod{}
		pod := func(t *rapid.T) *corev1.Pod {
			p := newPod(rapid.SampledFrom([]string{"a", "b", "c", "d"}).Draw(t, "name"), "10.0.0.1")
			p.UID = types.UID(rapid.SampledFrom([]string{"1", "2"}).Draw(t, "uid"))
			p.Labels = map[string]string{"app": rapid.SampledFrom([]string{"x", "y"}).Draw(t, "label")}
			p.ResourceVersion = strconv.Itoa(rapid.IntRange(1, 3).Draw(t, "version"))
			return p
		}
		// news is what a change of the model has to enqueue.
		news := func(change func()) []string {
			was := maps.Clone(model)
			change()
			var names []string
			for _, name := range []string{"a", "b", "c", "d"} {
				a, b := was[name], model[name]
				if (a == nil) != (b == nil) || a != nil && (a.UID != b.UID || a.Labels["app"] != b.Labels["app"]) {
					names = append(names, "pods x/"+name)
				}
			}
			return names
		}
		t.Repeat(map[string]func(*rapid.T){
			"put": func(t *rapid.T) {
				p := pod(t)
				want := news(func() { model[p.Name] = p })
				require.NoError(t, s.set(p.DeepCopy()))
				require.Equal(t, want, k.take())
			},
			"delete": func(t *rapid.T) {
				p := pod(t)
				want := news(func() { delete(model, p.Name) })
				require.NoError(t, s.remove(p))
				require.Equal(t, want, k.take())
			},
			"replace": func(t *rapid.T) {
				var list []runtime.Object
				want := news(func() {
					clear(model)
					for _, p := range rapid.SliceOfNDistinct(rapid.Custom(pod), 0, 4, func(p *corev1.Pod) string { return p.Name }).Draw(t, "list") {
						model[p.Name] = p
						list = append(list, p.DeepCopy())
					}
				})
				require.NoError(t, relist(s, list...))
				require.Equal(t, want, k.take())
			},
			"": func(t *rapid.T) {
				require.Len(t, s.all(), len(model))
				for name, p := range model {
					v := s.get(cache.ObjectName{Namespace: "x", Name: name})
					want := PodFrom(p, "n1")
					require.True(t, v != nil && v.Same(&want), name)
				}
			},
		})
	})
}
