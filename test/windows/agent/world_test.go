//go:build linux

package agent

import (
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

// world is what one test puts into the cluster. All of it goes when the test
// ends.
type world struct {
	t    *testing.T
	kube *kube
}

func newWorld(t *testing.T) *world { return &world{t: t, kube: begin(t).kube} }

// pod is a pod that runs: scheduled, started, with an address.
type pod struct {
	namespace, name, node string
	addr                  netip.Addr
	labels                map[string]string
}

// node creates a Node with an address.
func (w *world) node(name, addr string) {
	w.t.Helper()
	require.NoError(w.t, w.kube.create(w.t.Context(), nodes, "", &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}))
	w.t.Cleanup(func() { require.NoError(w.t, w.kube.remove(context.Background(), nodes, "", name)) })
	status := fmt.Sprintf(`{"status":{"addresses":[{"type":"InternalIP","address":%q}]}}`, addr)
	require.NoError(w.t, w.kube.patch(w.t.Context(), nodes, "", name, "status", status))
}

// namespace creates a namespace, with what a controller manager puts into it.
func (w *world) namespace(name string, labels map[string]string) {
	w.t.Helper()
	ctx := w.t.Context()
	require.NoError(w.t, w.kube.create(ctx, namespaces, "", &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}))
	w.t.Cleanup(func() { require.NoError(w.t, w.kube.removeNamespace(context.Background(), name)) })
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "default"}} // that pods run as
	require.NoError(w.t, w.kube.create(ctx, accounts, name, account))
}

// pods creates pods, some at a time.
func (w *world) pods(all []pod) {
	w.t.Helper()
	const atOnce = 8
	errs := make([]error, len(all))
	tokens := make(chan struct{}, atOnce)
	var wg sync.WaitGroup
	for i, p := range all {
		tokens <- struct{}{}
		wg.Go(func() {
			errs[i] = w.kube.makePod(w.t.Context(), p)
			<-tokens
		})
	}
	wg.Wait()
	for _, err := range errs {
		require.NoError(w.t, err)
	}
}

// policy creates a policy from the text of its spec.
func (w *world) policy(namespace, name, spec string) {
	w.t.Helper()
	np := &networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace}}
	require.NoError(w.t, yaml.UnmarshalStrict([]byte(spec), &np.Spec))
	require.NoError(w.t, w.kube.create(w.t.Context(), policies, namespace, np))
}

// makePod creates a pod and gives it the status that a kubelet would.
func (k *kube) makePod(ctx context.Context, p pod) error {
	err := k.create(ctx, pods, p.namespace, &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: p.name, Labels: p.labels},
		Spec:       corev1.PodSpec{NodeName: p.node, Containers: []corev1.Container{{Name: "c", Image: "none"}}},
	})
	if err != nil {
		return err
	}
	return k.setStatus(ctx, p)
}

// setStatus says that the pod runs and has its address.
func (k *kube) setStatus(ctx context.Context, p pod) error {
	now := metav1.NewTime(time.Now())
	ip := p.addr.String()
	status, err := json.Marshal(map[string]corev1.PodStatus{"status": {
		Phase: corev1.PodRunning, StartTime: &now, PodIP: ip, PodIPs: []corev1.PodIP{{IP: ip}},
	}})
	if err != nil {
		return err
	}
	return k.patch(ctx, pods, p.namespace, p.name, "status", string(status))
}
