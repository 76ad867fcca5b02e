package e2e

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/streaming/pkg/httpstream"
	"k8s.io/streaming/pkg/httpstream/spdy"
)

// kubelet is as much of one as a port-forward needs.
type kubelet struct {
	t        *testing.T
	backends map[string]string // host:port by namespace/pod:port
	running  sync.WaitGroup
}

// kubelet starts the kubelet of a node that is there.
func (w *world) kubelet(node string, backends map[string]string) {
	w.t.Helper()
	k := &kubelet{t: w.t, backends: backends}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /portForward/{namespace}/{pod}", k.forward)
	server := httptest.NewTLSServer(mux)
	w.t.Cleanup(func() {
		server.Close()
		k.running.Wait() // each ends with its client's connection
	})
	patch := fmt.Sprintf(`[{"op":"add","path":"/status/daemonEndpoints","value":{"kubeletEndpoint":{"Port":%d}}}]`,
		server.Listener.Addr().(*net.TCPAddr).Port)
	_, err := w.kube.CoreV1().Nodes().Patch(w.t.Context(), node, types.JSONPatchType, []byte(patch), metav1.PatchOptions{}, "status")
	require.NoError(w.t, err)
}

func (k *kubelet) forward(w http.ResponseWriter, r *http.Request) {
	if _, err := httpstream.Handshake(r, w, []string{portforward.PortForwardProtocolV1Name}); err != nil {
		return // it has answered
	}
	streams := make(chan httpstream.Stream, 2)
	conn := spdy.NewResponseUpgrader().UpgradeResponse(w, r, func(s httpstream.Stream, _ <-chan struct{}) error {
		streams <- s
		return nil
	})
	if conn != nil {
		k.running.Go(func() { k.connect(conn, streams, r.PathValue("namespace")+"/"+r.PathValue("pod")) })
	}
}

func (k *kubelet) connect(conn httpstream.Connection, streams <-chan httpstream.Stream, pod string) {
	defer conn.Close()
	byType := map[string]httpstream.Stream{}
	for len(byType) < 2 {
		select {
		case s := <-streams:
			byType[s.Headers().Get(corev1.StreamType)] = s
		case <-conn.CloseChan():
			return
		}
	}
	data, reasons := byType[corev1.StreamTypeData], byType[corev1.StreamTypeError]
	target := pod + ":" + data.Headers().Get(corev1.PortHeader)
	backend := io.Discard
	remote, err := net.Dial("tcp", k.backends[target])
	if err != nil {
		_, _ = fmt.Fprintf(reasons, "nobody listens at %s", target)
		_ = data.Close()
		_ = reasons.Close()
	} else {
		backend = remote
		k.running.Go(func() {
			_, _ = io.Copy(data, remote)
			_ = data.Close()
			_ = reasons.Close()
		})
		defer remote.Close()
	}
	// The API server keeps the connection for a minute after its client has gone.
	_, _ = io.Copy(backend, data)
}

// windowsNode creates a Node of Windows, and has the kubelet of it forward to the agent there.
func (w *world) windowsNode(name, agent string) {
	w.t.Helper()
	w.node(name, "127.0.0.1")
	w.relabelNode(name, "windows")
	w.kubelet(name, map[string]string{"kube-system/" + agentOn(name) + ":10091": agent})
}

// relabelNode gives a Node another operating system.
func (w *world) relabelNode(name, system string) {
	w.t.Helper()
	patch := fmt.Sprintf(`{"metadata":{"labels":{%q:%q}}}`, corev1.LabelOSStable, system)
	_, err := w.kube.CoreV1().Nodes().Patch(w.t.Context(), name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	require.NoError(w.t, err)
}

// agentOn is the name of the agent's pod on a node.
func agentOn(node string) string { return "azure-npm-win-" + node }

// agentPod makes the pod of an agent, as the DaemonSet of deploy/ has it, and lets it be ready.
func (w *world) agentPod(node string) {
	w.t.Helper()
	template := into[appsv1.DaemonSet](w.t, render(w.t, overlays["azure"])["DaemonSet"]).Spec.Template
	object := &corev1.Pod{ObjectMeta: template.ObjectMeta, Spec: template.Spec}
	object.Name, object.Spec.NodeName = agentOn(node), node
	pods := w.kube.CoreV1().Pods("kube-system")
	object, err := pods.Create(w.t.Context(), object, metav1.CreateOptions{})
	require.NoError(w.t, err)
	w.t.Cleanup(func() { w.removeAgent(node) })
	object.Status = corev1.PodStatus{
		Phase: corev1.PodRunning, HostIP: "127.0.0.1", PodIP: "127.0.0.1", PodIPs: []corev1.PodIP{{IP: "127.0.0.1"}}, HostIPs: []corev1.HostIP{{IP: "127.0.0.1"}},
		Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}},
	}
	_, err = pods.UpdateStatus(w.t.Context(), object, metav1.UpdateOptions{})
	require.NoError(w.t, err)
}

// removeAgent deletes the pod of an agent, if it is there.
func (w *world) removeAgent(node string) {
	w.t.Helper()
	err := w.kube.CoreV1().Pods("kube-system").Delete(context.Background(), agentOn(node), now)
	if !apierrors.IsNotFound(err) {
		require.NoError(w.t, err)
	}
}
