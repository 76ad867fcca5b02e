package controllers

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/winnpm/winnpm/pkg/desired"
	"github.com/winnpm/winnpm/pkg/policy"
	"github.com/winnpm/winnpm/test/effort"
)

// largest is what an API server takes of one object, in bytes.
const largest = 3 << 19

// hostile are texts of policies that cost much in memory for their size: of one item
// each, by its number.
var hostile = map[string]func(np *networkingv1.NetworkPolicySpec, i int){
	"empty rules": func(s *networkingv1.NetworkPolicySpec, _ int) {
		s.Ingress = append(s.Ingress, networkingv1.NetworkPolicyIngressRule{})
	},
	"empty peers": func(s *networkingv1.NetworkPolicySpec, _ int) { addPeer(s, networkingv1.NetworkPolicyPeer{}) },
	"empty selectors": func(s *networkingv1.NetworkPolicySpec, _ int) {
		addPeer(s, networkingv1.NetworkPolicyPeer{PodSelector: &metav1.LabelSelector{}, NamespaceSelector: &metav1.LabelSelector{}})
	},
	"labels": func(s *networkingv1.NetworkPolicySpec, i int) {
		addPeer(s, networkingv1.NetworkPolicyPeer{PodSelector: &metav1.LabelSelector{MatchLabels: map[string]string{fmt.Sprint("k", i): ""}}})
	},
	"terms": func(s *networkingv1.NetworkPolicySpec, i int) {
		addPeer(s, networkingv1.NetworkPolicyPeer{NamespaceSelector: &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
			{Key: fmt.Sprint("k", i), Operator: metav1.LabelSelectorOpNotIn, Values: []string{"a", "b"}},
		}}})
	},
	"blocks": func(s *networkingv1.NetworkPolicySpec, i int) {
		addPeer(s, networkingv1.NetworkPolicyPeer{IPBlock: &networkingv1.IPBlock{CIDR: fmt.Sprintf("10.%d.%d.0/24", i>>8&255, i&255), Except: []string{""}}})
	},
	"ports": func(s *networkingv1.NetworkPolicySpec, i int) {
		if len(s.Ingress) == 0 {
			s.Ingress = append(s.Ingress, networkingv1.NetworkPolicyIngressRule{})
		}
		port, end := intstr.FromInt32(int32(i%65535)), int32(i%65535)
		s.Ingress[0].Ports = append(s.Ingress[0].Ports, networkingv1.NetworkPolicyPort{Port: &port, EndPort: &end})
	},
	"a subject of labels": func(s *networkingv1.NetworkPolicySpec, i int) {
		if s.PodSelector.MatchLabels == nil {
			s.PodSelector.MatchLabels = map[string]string{}
		}
		s.PodSelector.MatchLabels[fmt.Sprint("k", i)] = ""
	},
}

func addPeer(s *networkingv1.NetworkPolicySpec, p networkingv1.NetworkPolicyPeer) {
	if len(s.Ingress) == 0 {
		s.Ingress = append(s.Ingress, networkingv1.NetworkPolicyIngressRule{})
	}
	s.Ingress[0].From = append(s.Ingress[0].From, p)
}

// bomb is a policy of so many bytes, or items, whichever there are first.
func bomb(add func(*networkingv1.NetworkPolicySpec, int), bytes, items int) *networkingv1.NetworkPolicySpec {
	s := &networkingv1.NetworkPolicySpec{}
	for i, weigh := 0, 0; i < items; i++ {
		if add(s, i); i < weigh {
			continue
		}
		size := s.Size() // which looks at all items
		room := bytes - 4096*8 - size
		if room < 0 {
			break
		}
		weigh = i + max(512, room/2*(i+1)/size)
	}
	return s
}

// What one tenant can write in a hundred policies costs little, whatever their shape:
// as large as an API server takes them, and just within the budget of one policy. Of the
// large ones a change gets three, as they take their time to decode.
func TestHundredPoliciesCostLittle(t *testing.T) {
	b := policy.DefaultBudgets()
	for name, add := range effort.Some(effort.Of(1, 100), hostile) {
		for size, tc := range map[string]struct {
			spec     *networkingv1.NetworkPolicySpec
			policies int
		}{
			"largest": {bomb(add, largest, largest), effort.Of(3, 100)},
			"fitting": {bomb(add, b.ObjectBytes, b.ObjectBytes/64/4), effort.Of(25, 100)},
		} {
			t.Run(name+", "+size, func(t *testing.T) {
				data, err := (&networkingv1.NetworkPolicy{Spec: *tc.spec}).Marshal()
				require.NoError(t, err)
				tc.spec = nil
				before := effort.Live()
				s := storeOf(keptPolicies(b), &keys{})
				add, end := s.list()
				for i := range tc.policies {
					np := &networkingv1.NetworkPolicy{}
					require.NoError(t, np.Unmarshal(data))
					np.Namespace, np.Name = "x", fmt.Sprint("p", i)
					require.NoError(t, add(np))
				}
				listed := effort.Live() - before
				end()
				kept := effort.Live() - before
				t.Logf("%d x %d bytes: %d bytes while they are listed, %d bytes for good", tc.policies, len(data), listed, kept)
				require.Less(t, max(listed, kept), int64(12<<20))
				require.Len(t, s.all(), tc.policies)
				runtime.KeepAlive(s)
				runtime.KeepAlive(data)
			})
		}
	}
}

// A hundred pods with as many labels or ports as an API server takes cost little, and
// so does one whose labels change all the time.
func TestHundredPodsCostLittle(t *testing.T) {
	labels := map[string]string{}
	ports := []corev1.ContainerPort{}
	for i := range effort.Of(10_000, 40_000) {
		labels[fmt.Sprint("key-", i)] = "value"
		ports = append(ports, corev1.ContainerPort{Name: fmt.Sprint("port-", i), ContainerPort: int32(i%65535 + 1)})
	}
	fitting := map[string]string{}
	for i := range 128 {
		fitting[fmt.Sprint("k", i)] = strings.Repeat("x", 130)
	}
	for name, pod := range map[string]*corev1.Pod{
		"labels":         {ObjectMeta: metav1.ObjectMeta{Labels: labels}},
		"ports":          {Spec: corev1.PodSpec{Containers: []corev1.Container{{Ports: ports}}}},
		"fitting labels": {ObjectMeta: metav1.ObjectMeta{Name: "p0", Labels: fitting}},
	} {
		t.Run(name, func(t *testing.T) {
			before := effort.Live()
			s := storeOf(keptPods("n1", policy.DefaultBudgets()), &keys{})
			pod.Status.PodIP = "10.0.0.1" // without an address it would have no labels in the store
			data, err := pod.Marshal()
			require.NoError(t, err)
			put := func(name, unique string) {
				light := &corev1.Pod{}
				require.NoError(t, light.Unmarshal(data))
				light.Namespace, light.Name = "x", name
				if name == pod.Name {
					for k := range light.Labels {
						light.Labels[k] = fmt.Sprintf("%s-%-120s", unique, k)
					}
				}
				require.NoError(t, s.set(light))
			}
			pods, changes := 10, 0 // what is dropped is dropped, and slow to make
			if name == "fitting labels" {
				pods, changes = 100, 1500
			}
			for i := range pods {
				put(fmt.Sprint("p", i), fmt.Sprint(i))
			}
			kept := effort.Live() - before
			for i := range changes {
				put("p0", fmt.Sprint("again ", i))
			}
			changed := effort.Live() - before
			t.Logf("%d bytes, and after many changes %d", kept, changed)
			require.Less(t, kept, int64(4<<20))
			require.Less(t, changed, int64(20<<20))
			p := s.all()[0]
			require.Equal(t, changes == 0, p.OverBudget != "")
			require.True(t, p.OverBudget == "" || len(p.Labels) == 0 && len(p.Ports) == 0)
			runtime.KeepAlive(data)
		})
	}
}

// A Namespace object keeps no labels when it has too many, and that is news.
func TestNamespaceOverItsBudget(t *testing.T) {
	k := &keys{}
	s := storeOf(keptNamespaces(), k)
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "x", Labels: map[string]string{"a": strings.Repeat("b", policy.LabelBytes)}}}
	require.NoError(t, s.set(ns))
	require.Len(t, k.take(), 1)
	require.Equal(t, []*desired.Namespace{{Name: "x", OverBudget: "32801 bytes of labels and named ports, of which 32768 are read at most"}}, s.all())
	ns = ns.DeepCopy()
	ns.Labels = nil
	require.NoError(t, s.set(ns))
	require.Len(t, k.take(), 1, "without labels it is another thing than with too many")
}
