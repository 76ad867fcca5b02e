package e2e

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/yaml"
)

// world is what one test puts into the cluster, through kube. All of it is
// removed when the test ends.
type world struct {
	t    *testing.T
	kube kubernetes.Interface
}

func newWorld(t *testing.T) *world { return &world{t: t, kube: kube} }

// node creates a Node with an address.
func (w *world) node(name, ip string) {
	w.t.Helper()
	ctx := w.t.Context()
	node, err := w.kube.CoreV1().Nodes().Create(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	require.NoError(w.t, err)
	w.t.Cleanup(func() {
		require.NoError(w.t, w.kube.CoreV1().Nodes().Delete(context.Background(), name, metav1.DeleteOptions{}))
	})
	w.nodeAddress(node.Name, ip)
}

// nodeAddress gives a Node its only address.
func (w *world) nodeAddress(name, ip string) {
	w.t.Helper()
	patch := fmt.Sprintf(`[{"op":"add","path":"/status/addresses","value":[{"type":"InternalIP","address":%q}]}]`, ip)
	_, err := w.kube.CoreV1().Nodes().Patch(w.t.Context(), name, types.JSONPatchType, []byte(patch), metav1.PatchOptions{}, "status")
	require.NoError(w.t, err)
}

// namespace creates a namespace with labels like "team=a,tier=b" and what a
// controller manager would put into it.
func (w *world) namespace(name, labels string) {
	w.t.Helper()
	ctx := w.t.Context()
	_, err := w.kube.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: parseLabels(w.t, labels)}}, metav1.CreateOptions{})
	require.NoError(w.t, err)
	w.t.Cleanup(func() { w.removeNamespace(name) })
	_, err = w.kube.CoreV1().ServiceAccounts(name).Create(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "default"}}, metav1.CreateOptions{})
	require.NoError(w.t, err)
}

// removeNamespace deletes a namespace and its contents, as the namespace
// controller would, or does nothing if there is none.
func (w *world) removeNamespace(name string) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	core := w.kube.CoreV1()
	err := core.Namespaces().Delete(ctx, name, metav1.DeleteOptions{})
	if errors.IsNotFound(err) {
		return
	}
	require.NoError(w.t, err)
	require.NoError(w.t, core.Pods(name).DeleteCollection(ctx, now, metav1.ListOptions{}))
	require.NoError(w.t, w.kube.NetworkingV1().NetworkPolicies(name).DeleteCollection(ctx, now, metav1.ListOptions{}))
	require.NoError(w.t, w.kube.EventsV1().Events(name).DeleteCollection(ctx, now, metav1.ListOptions{}))
	require.NoError(w.t, core.ServiceAccounts(name).DeleteCollection(ctx, now, metav1.ListOptions{}))
	namespace, err := core.Namespaces().Get(ctx, name, metav1.GetOptions{})
	require.NoError(w.t, err)
	namespace.Spec.Finalizers = nil
	_, err = core.Namespaces().Finalize(ctx, namespace, metav1.UpdateOptions{})
	require.NoError(w.t, err)
}

// now deletes without waiting for a kubelet.
var now = metav1.DeleteOptions{GracePeriodSeconds: new(int64)}

// pod describes a pod that is to be made.
type pod struct {
	namespace, name string
	node, ip        string
	labels          string // "app=web,tier=front"
	ports           string // "http=8080,..."
}

// pod creates a pod and gives it the status that a kubelet would.
func (w *world) pod(p pod) {
	w.t.Helper()
	container := corev1.Container{Name: "c", Image: "none"}
	for name, number := range parseLabels(w.t, p.ports) {
		port := corev1.ContainerPort{Name: name}
		_, err := fmt.Sscan(number, &port.ContainerPort)
		require.NoError(w.t, err)
		container.Ports = append(container.Ports, port)
	}
	pods := w.kube.CoreV1().Pods(p.namespace)
	object, err := pods.Create(w.t.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: p.name, Labels: parseLabels(w.t, p.labels)},
		Spec:       corev1.PodSpec{NodeName: p.node, Containers: []corev1.Container{container}},
	}, metav1.CreateOptions{})
	require.NoError(w.t, err)
	started := metav1.Now()
	object.Status = corev1.PodStatus{Phase: corev1.PodRunning, StartTime: &started, PodIP: p.ip, PodIPs: []corev1.PodIP{{IP: p.ip}}}
	_, err = pods.UpdateStatus(w.t.Context(), object, metav1.UpdateOptions{})
	require.NoError(w.t, err)
}

func (w *world) deletePod(namespace, name string) {
	w.t.Helper()
	require.NoError(w.t, w.kube.CoreV1().Pods(namespace).Delete(w.t.Context(), name, now))
}

// finishPod lets a pod end as a job's does.
func (w *world) finishPod(namespace, name string) {
	w.t.Helper()
	_, err := w.kube.CoreV1().Pods(namespace).Patch(w.t.Context(), name, types.MergePatchType, []byte(`{"status":{"phase":"Succeeded"}}`), metav1.PatchOptions{}, "status")
	require.NoError(w.t, err)
}

// relabelPod gives a pod other labels; a label with an empty value goes.
func (w *world) relabelPod(namespace, name, labels string) {
	w.t.Helper()
	_, err := w.kube.CoreV1().Pods(namespace).Patch(w.t.Context(), name, types.MergePatchType, labelPatch(w.t, labels), metav1.PatchOptions{})
	require.NoError(w.t, err)
}

// relabelNamespace does the same to a namespace.
func (w *world) relabelNamespace(name, labels string) {
	w.t.Helper()
	_, err := w.kube.CoreV1().Namespaces().Patch(w.t.Context(), name, types.MergePatchType, labelPatch(w.t, labels), metav1.PatchOptions{})
	require.NoError(w.t, err)
}

// policy creates the policy, or puts it in the place of the one with its name.
func (w *world) policy(namespace, name, spec string) {
	w.t.Helper()
	ctx := w.t.Context()
	object := &networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Name: name}}
	require.NoError(w.t, yaml.UnmarshalStrict([]byte(spec), &object.Spec))
	policies := w.kube.NetworkingV1().NetworkPolicies(namespace)
	_, err := policies.Create(ctx, object, metav1.CreateOptions{})
	if errors.IsAlreadyExists(err) {
		_, err = policies.Update(ctx, object, metav1.UpdateOptions{})
	}
	require.NoError(w.t, err)
}

func (w *world) deletePolicy(namespace, name string) {
	w.t.Helper()
	require.NoError(w.t, w.kube.NetworkingV1().NetworkPolicies(namespace).Delete(w.t.Context(), name, metav1.DeleteOptions{}))
}

func parseLabels(t *testing.T, text string) map[string]string {
	t.Helper()
	set, err := labels.ConvertSelectorToLabelsMap(text)
	require.NoError(t, err)
	return set
}

func labelPatch(t *testing.T, text string) []byte {
	t.Helper()
	set := map[string]any{}
	for key, value := range parseLabels(t, text) {
		set[key] = value
		if value == "" {
			set[key] = nil
		}
	}
	patch, err := yaml.Marshal(map[string]any{"metadata": map[string]any{"labels": set}})
	require.NoError(t, err)
	patch, err = yaml.YAMLToJSON(patch)
	require.NoError(t, err)
	return patch
}
