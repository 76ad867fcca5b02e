package controllers

import (
	"fmt"
	"net/netip"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
	"pgregory.net/rapid"

	"github.com/winnpm/winnpm/pkg/desired"
	"github.com/winnpm/winnpm/pkg/policy"
	"github.com/winnpm/winnpm/test/effort"
)

// wide returns a pod of another node with 16 KiB of labels that no other pod has.
func wide(namespace string, i int, address string) *corev1.Pod {
	labels := map[string]string{}
	for j := range 255 {
		labels[fmt.Sprintf("k%d-%d", i, j)] = strings.Repeat(string(rune('a'+i%26)), 50)
	}
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: fmt.Sprintf("p%05d", i), Labels: labels},
		Spec: corev1.PodSpec{NodeName: "n2", Containers: []corev1.Container{{
			Ports: []corev1.ContainerPort{{Name: "web", ContainerPort: 80}},
		}}},
		Status: corev1.PodStatus{PodIP: address},
	}
}

// TestPendingPodsCostLittle: the store keeps the labels and ports of a pod of another node only
// while the pod has an address.
func TestPendingPodsCostLittle(t *testing.T) {
	k := &keys{}
	before := effort.Live()
	s := storeOf(keptPods("n1", policy.DefaultBudgets()), k)
	pods := effort.Of(1000, 2000)
	for i := range pods {
		require.NoError(t, s.set(wide("x", i, "")))
	}
	kept := effort.Live() - before
	t.Logf("%d pending pods with 16 KiB of labels: %d bytes", pods, kept)
	require.Less(t, kept, int64(pods)*1600)
	name := cache.ObjectName{Namespace: "x", Name: "p00000"}
	pod := s.get(name)
	require.Empty(t, pod.Labels)
	require.Empty(t, pod.Ports)
	require.Empty(t, pod.OverBudget, "it is not closed")

	k.take()
	require.NoError(t, s.set(wide("x", 0, "10.0.0.1")))
	require.Len(t, k.take(), 1)
	pod = s.get(name)
	require.Len(t, pod.Labels, 255)
	require.Len(t, pod.Ports, 1)
	require.NoError(t, s.set(wide("x", 0, "")))
	require.Len(t, k.take(), 1)
	pod = s.get(name)
	require.Empty(t, pod.Labels)

	local := wide("x", 0, "")
	local.Spec.NodeName = "n1"
	require.NoError(t, s.set(local))
	pod = s.get(name)
	require.Len(t, pod.Labels, 255, "a pod of this node waits for its address with all that its rules need")
	runtime.KeepAlive(s)
}

// TestPodsOfANamespaceCostLittle: a budget limits the labels of all pods of a namespace. Pods of
// other namespaces keep their labels.
func TestPodsOfANamespaceCostLittle(t *testing.T) {
	before := effort.Live()
	s := storeOf(keptPods("n1", policy.DefaultBudgets()), &keys{})
	require.NoError(t, s.set(wide("other", 1, "10.200.0.1")))
	pods := effort.Of(1100, 3000)
	for i := range pods {
		require.NoError(t, s.set(wide("x", i, fmt.Sprintf("10.1.%d.%d", i/250, i%250+1))))
	}
	kept := effort.Live() - before
	t.Logf("%d pods with 16 KiB of labels: %d bytes", pods, kept)
	require.Less(t, kept, int64(32<<20))
	other := s.get(cache.ObjectName{Namespace: "other", Name: "p00001"})
	require.Len(t, other.Labels, 255)
	runtime.KeepAlive(s)
}

// TestPodStoreModel: in any order of events, the pods of a namespace are closed if together they
// are over its limit, and open otherwise.
func TestPodStoreModel(t *testing.T) {
	b := policy.Budgets{NamespaceBytes: 200}.OrDefaults()
	namespaces, names := rapid.SampledFrom([]string{"x", "y"}), rapid.SampledFrom([]string{"a", "b", "c", "d"})
	rapid.Check(t, func(t *rapid.T) {
		s := storeOf(keptPods("n1", b), &keys{})
		cluster := map[cache.ObjectName]*corev1.Pod{}
		list := func() {
			add, end := s.list()
			for _, p := range cluster {
				require.NoError(t, add(p.DeepCopy()))
			}
			end()
			require.False(t, s.wantsList(), "a list leaves nothing closed that has room")
		}
		t.Repeat(map[string]func(*rapid.T){
			"set": func(t *rapid.T) {
				p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
					Namespace: namespaces.Draw(t, "namespace"), Name: names.Draw(t, "name"),
					Labels: map[string]string{"k": strings.Repeat("v", rapid.IntRange(0, 80).Draw(t, "size"))},
				}}
				p.Status.PodIP = rapid.SampledFrom([]string{"", "10.0.0.1"}).Draw(t, "address")
				cluster[cache.ObjectName{Namespace: p.Namespace, Name: p.Name}] = p
				require.NoError(t, s.set(p.DeepCopy()))
			},
			"delete": func(t *rapid.T) {
				name := cache.ObjectName{Namespace: namespaces.Draw(t, "namespace"), Name: names.Draw(t, "name")}
				if p, there := cluster[name]; there {
					delete(cluster, name)
					require.NoError(t, s.remove(p))
				}
			},
			"list": func(*rapid.T) { list() },
			"": func(t *rapid.T) {
				if s.wantsList() {
					list()
				}
				for _, namespace := range []string{"x", "y"} {
					checkClosed(t, s, b, cluster, namespace)
				}
			},
		})
	})
}

// checkClosed checks that the pods of a namespace have labels if and only if they are within its
// limit together.
func checkClosed(t *rapid.T, s *store[*corev1.Pod, desired.Pod], b policy.Budgets, cluster map[cache.ObjectName]*corev1.Pod, namespace string) {
	var pods []*corev1.Pod
	sum := 0
	for name, p := range cluster {
		if name.Namespace == namespace && p.Status.PodIP != "" {
			pods = append(pods, p)
			sum += 33 + len(p.Labels["k"])
		}
	}
	for _, p := range pods {
		is := s.get(cache.ObjectName{Namespace: p.Namespace, Name: p.Name})
		if sum <= b.NamespaceBytes {
			require.Equal(t, p.Labels, is.Labels)
			require.Empty(t, is.OverBudget)
			continue
		}
		require.Empty(t, is.Labels)
		require.Equal(t, b.ExcessOfNamespacePods(), is.OverBudget)
		require.Equal(t, netip.MustParseAddr("10.0.0.1"), is.Addr)
	}
}
