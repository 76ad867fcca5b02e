package controllers

import (
	"net/netip"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/winnpm/winnpm/pkg/dataplane"
	"github.com/winnpm/winnpm/pkg/policy"
)

func fullPod() *corev1.Pod {
	always := corev1.ContainerRestartPolicyAlways
	when := metav1.NewTime(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
	p := newPod("web", "10.0.0.1")
	p.CreationTimestamp, p.DeletionTimestamp = when, &when
	p.Spec.Containers = []corev1.Container{
		{Name: "one", Image: "image", Ports: []corev1.ContainerPort{
			{Name: "http", ContainerPort: 8080},
			{ContainerPort: 9999},
			{Name: "dns", ContainerPort: 53, Protocol: corev1.ProtocolUDP},
		}},
		{Name: "two", Ports: []corev1.ContainerPort{
			{Name: "http", ContainerPort: 8081, Protocol: corev1.ProtocolTCP},
			{Name: "dns", ContainerPort: 5353, Protocol: corev1.ProtocolTCP},
		}},
	}
	p.Spec.InitContainers = []corev1.Container{
		{Name: "once", Ports: []corev1.ContainerPort{{Name: "setup", ContainerPort: 1}}},
		{Name: "sidecar", RestartPolicy: &always, Ports: []corev1.ContainerPort{
			{Name: "http", ContainerPort: 1}, {Name: "metrics", ContainerPort: 9090},
		}},
	}
	p.Status.PodIPs = []corev1.PodIP{{IP: "fd00::1"}, {IP: "10.0.0.1"}}
	p.Status.StartTime = &when
	return p
}

func TestPodFrom(t *testing.T) {
	when := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	want := dataplane.Pod{
		Namespace: "x", Name: "web", UID: "uid-web", Labels: map[string]string{"app": "web"},
		Addr: netip.MustParseAddr("10.0.0.1"),
		Ports: []dataplane.PodPort{
			{Name: "http", Protocol: policy.TCP, Number: 8080},
			{Name: "dns", Protocol: policy.UDP, Number: 53},
			{Name: "dns", Protocol: policy.TCP, Number: 5353},
			{Name: "metrics", Protocol: policy.TCP, Number: 9090},
		},
		Local: true, Deleting: true, Started: when, Created: when,
	}
	for _, tc := range []struct {
		name string
		node string
		edit func(*corev1.Pod)
		want func(*dataplane.Pod)
	}{
		{name: "everything", node: "n1"},
		{name: "every pod is local", node: ""},
		{name: "of another node", node: "n2", want: func(p *dataplane.Pod) { p.Local = false }},
		{name: "not scheduled", node: "n1", edit: func(p *corev1.Pod) { p.Spec.NodeName = "" }, want: func(p *dataplane.Pod) { p.Local = false }},
		{name: "podIP alone", edit: func(p *corev1.Pod) { p.Status.PodIPs = nil }},
		{name: "IPv6 only", edit: func(p *corev1.Pod) { p.Status.PodIPs, p.Status.PodIP = p.Status.PodIPs[:1], "fd00::1" },
			want: func(p *dataplane.Pod) { p.Addr = netip.Addr{} }},
		{name: "no address yet", edit: func(p *corev1.Pod) { p.Status.PodIPs, p.Status.PodIP = nil, "" },
			want: func(p *dataplane.Pod) { p.Addr = netip.Addr{} }},
		{name: "succeeded", edit: func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded }, want: func(p *dataplane.Pod) { p.Finished = true }},
		{name: "failed", edit: func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed }, want: func(p *dataplane.Pod) { p.Finished = true }},
		{name: "pending with an address", edit: func(p *corev1.Pod) { p.Status.Phase = corev1.PodPending }},
		{name: "host network", edit: func(p *corev1.Pod) { p.Spec.HostNetwork = true }, want: func(p *dataplane.Pod) { p.HostNetwork = true }},
		{name: "not started", edit: func(p *corev1.Pod) { p.Status.StartTime = nil }, want: func(p *dataplane.Pod) { p.Started = time.Time{} }},
		{name: "port out of range", edit: func(p *corev1.Pod) { p.Spec.Containers[0].Ports[0].ContainerPort = 1<<16 + 80 },
			want: func(p *dataplane.Pod) {
				p.Ports = append([]dataplane.PodPort{p.Ports[1], {Name: "http", Protocol: policy.TCP, Number: 8081}}, p.Ports[2:]...)
			}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			object, want := fullPod(), want
			if tc.edit != nil {
				tc.edit(object)
			}
			if tc.want != nil {
				tc.want(&want)
			}
			before := object.DeepCopy()
			equal := cmp.Comparer(func(a, b netip.Addr) bool { return a == b })
			require.Empty(t, cmp.Diff(want, PodFrom(object, tc.node), equal))

			trimmed, err := trim(object)
			require.NoError(t, err)
			require.Empty(t, cmp.Diff(want, PodFrom(trimmed.(*corev1.Pod), tc.node), equal), "nothing that is read was trimmed")
			require.Empty(t, cmp.Diff(before, object), "the object was not changed")
		})
	}
}

func TestTrim(t *testing.T) {
	meta := fullPod().ObjectMeta
	meta.OwnerReferences = []metav1.OwnerReference{{Name: "owner"}}
	for _, obj := range []metav1.ObjectMetaAccessor{
		fullPod(),
		&corev1.Namespace{ObjectMeta: meta},
		newNode("n1", "10.9.0.1"),
		&networkingv1.NetworkPolicy{ObjectMeta: meta, Spec: networkingv1.NetworkPolicySpec{PolicyTypes: []networkingv1.PolicyType{"Egress"}}},
	} {
		once, err := trim(obj)
		require.NoError(t, err)
		m := once.(metav1.ObjectMetaAccessor).GetObjectMeta()
		require.Equal(t, obj.GetObjectMeta().GetName(), m.GetName())
		require.Equal(t, obj.GetObjectMeta().GetUID(), m.GetUID())
		require.Empty(t, m.GetAnnotations())
		require.Empty(t, m.GetManagedFields())
		require.Empty(t, m.GetOwnerReferences())
		twice, err := trim(once)
		require.NoError(t, err)
		require.Empty(t, cmp.Diff(once, twice))
	}
	np, err := trim(&networkingv1.NetworkPolicy{Spec: networkingv1.NetworkPolicySpec{PolicyTypes: []networkingv1.PolicyType{"Egress"}}})
	require.NoError(t, err)
	require.Equal(t, []networkingv1.PolicyType{"Egress"}, np.(*networkingv1.NetworkPolicy).Spec.PolicyTypes)

	tombstone := cache.DeletedFinalStateUnknown{Key: "x/a"}
	same, err := trim(tombstone)
	require.NoError(t, err)
	require.Equal(t, tombstone, same)
}

func TestKeyOf(t *testing.T) {
	for _, tc := range []struct {
		name string
		obj  any
		want Key
		ok   bool
	}{
		{"object", newPod("a", ""), Key{KindPod, "x", "a"}, true},
		{"tombstone", cache.DeletedFinalStateUnknown{Key: "x/a", Obj: newPod("a", "")}, Key{KindPod, "x", "a"}, true},
		{"tombstone without object", cache.DeletedFinalStateUnknown{Key: "x/a"}, Key{KindPod, "x", "a"}, true},
		{"no object", "x/a", Key{}, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, ok := keyOf(KindPod, tc.obj)
			require.Equal(t, tc.ok, ok)
			require.Equal(t, tc.want, got)
		})
	}
}
