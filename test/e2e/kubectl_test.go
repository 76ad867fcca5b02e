package e2e

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
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

// agentPod makes the pod that stands for an agent of deploy/, which is ready.
func (w *world) agentPod(name, node, ip string) {
	w.t.Helper()
	w.pod(pod{namespace: "kube-system", name: name, node: node, ip: ip, labels: "k8s-app=azure-npm"})
	w.t.Cleanup(func() {
		require.NoError(w.t, w.kube.CoreV1().Pods("kube-system").Delete(context.Background(), name, now))
	})
	patch := `{"status":{"conditions":[{"type":"Ready","status":"True"}]}}`
	_, err := w.kube.CoreV1().Pods("kube-system").Patch(w.t.Context(), name, types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{}, "status")
	require.NoError(w.t, err)
}

// person is somebody with a kubeconfig and the plugin.
type person struct{ plugin, kubeconfig string }

// newPerson returns a member of a group.
func newPerson(t *testing.T, group string) person {
	t.Helper()
	p := person{filepath.Join(t.TempDir(), "kubectl-npm"), filepath.Join(t.TempDir(), "kubeconfig")}
	require.NoError(t, os.Symlink(filepath.Join(bin, "npm"), p.plugin))
	require.NoError(t, os.WriteFile(p.kubeconfig, fmt.Appendf(nil, `{apiVersion: v1, kind: Config, current-context: c,
 contexts: [{name: c, context: {cluster: c, user: u}}],
 clusters: [{name: c, cluster: {server: %q, certificate-authority-data: %s}}],
 users: [{name: u, user: {token: %s, as: somebody, as-groups: [%s]}}]}
`, admin.Host, base64.StdEncoding.EncodeToString(admin.CAData), admin.BearerToken, group), 0o600))
	return p
}

// trace runs the plugin as kubectl does.
func (p person) trace(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	return p.npm(t, append([]string{"trace"}, args...)...)
}

// npm runs a command of kubectl npm.
func (p person) npm(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs strings.Builder
	cmd := exec.CommandContext(t.Context(), p.plugin, args...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+p.kubeconfig)
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	if exited := (*exec.ExitError)(nil); errors.As(err, &exited) {
		return exited.ExitCode(), out.String(), errs.String()
	}
	require.NoError(t, err)
	return 0, out.String(), errs.String()
}

// kubectl npm trace asks the agents of two nodes with the rights of
// deploy/trace, through the API server and their kubelets.
func TestKubectlTrace(t *testing.T) {
	for _, object := range render(t, "../../deploy/trace") {
		_, err := apply(t, object)
		require.NoError(t, err)
		t.Cleanup(func() {
			err := resourceOf(t, object).Delete(context.Background(), object.GetName(), metav1.DeleteOptions{})
			if !apierrors.IsNotFound(err) { // the last case deletes one
				require.NoError(t, err)
			}
		})
	}
	account := kube.CoreV1().ServiceAccounts("kube-system")
	_, err := account.Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "default"}}, metav1.CreateOptions{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, account.Delete(context.Background(), "default", metav1.DeleteOptions{})) })

	w := newWorld(t)
	for i, node := range []string{"trace-1", "trace-2", "trace-linux"} {
		w.node(node, "127.0.0.1")
		if i == 2 {
			continue
		}
		name := "azure-npm-" + node
		w.agentPod(name, node, fmt.Sprintf("10.70.9.%d", i+1))
		agent := startAgent(t, node, agentKubeconfig(t))
		w.kubelet(node, map[string]string{"kube-system/" + name + ":10091": strings.TrimPrefix(agent.url, "http://")})
	}
	w.namespace("front", "")
	w.namespace("back", "")
	w.pod(pod{namespace: "front", name: "web", node: "trace-1", ip: "10.70.0.1", labels: "app=web"})
	w.pod(pod{namespace: "back", name: "db", node: "trace-2", ip: "10.70.0.2", labels: "app=db"})
	w.pod(pod{namespace: "back", name: "penguin", node: "trace-linux", ip: "10.70.0.3"})
	w.policy("front", "out", `{podSelector: {}, policyTypes: [Egress], egress: [{ports: [{port: 5432}, {port: 80}]}]}`)
	w.policy("back", "in", `{podSelector: {matchLabels: {app: db}}, ingress: [{from: [{namespaceSelector: {}, podSelector: {matchLabels: {app: web}}}], ports: [{port: 5432}, {port: 443}]}]}`)

	member := newPerson(t, "npm-trace")
	for _, c := range []struct {
		name, from, to string
		code           int
		says           []string
	}{
		{"allowed by both", "front/web", "back/db:5432/TCP", 0, []string{
			"ALLOWED  front/web -> back/db:5432/TCP  (10.70.0.1 -> 10.70.0.2)\n",
			"out of front/web on trace-1: allowed, policy front/out spec.egress[0] allows it\n",
			"into back/db on trace-2: allowed, policy back/in spec.ingress[0] allows it\n",
		}},
		{"blocked where it ends", "front/web", "back/db:80/TCP", 3, []string{
			"out of front/web on trace-1: allowed, ", "into back/db on trace-2: BLOCKED, policy back/in isolates back/db for ingress, ",
		}},
		{"blocked where it begins", "front/web", "back/db:443/TCP", 3, []string{
			"out of front/web on trace-1: BLOCKED, policy front/out isolates front/web for egress, ", "into back/db on trace-2: allowed, ",
		}},
		{"from a node without an agent", "back/penguin", "back/db:5432/TCP", 3, []string{
			"out of back/penguin on trace-linux: not judged, no agent on node trace-linux\n", "into back/db on trace-2: BLOCKED, ",
		}},
		{"from an address", "192.0.2.1", "back/db:5432/TCP", 3, []string{"into back/db: BLOCKED, "}},
	} {
		t.Run(c.name, func(t *testing.T) {
			eventually(t, settle, func() string { // until the agents have the policies
				code, stdout, stderr := member.trace(t, c.from, c.to)
				if code != c.code || stderr != "" {
					return fmt.Sprintf("exit code %d\n%s%s", code, stdout, stderr)
				}
				for _, part := range c.says {
					if !strings.Contains(stdout, part) {
						return fmt.Sprintf("it does not say %q:\n%s", part, stdout)
					}
				}
				return ""
			})
		})
	}

	t.Run("how the agents are", func(t *testing.T) {
		eventually(t, settle, func() string {
			code, stdout, stderr := member.npm(t, "status")
			if code != 0 || !strings.Contains(stdout, "\ntrace-1  ready") || !strings.HasSuffix(stdout, "\n2 of 2 nodes are as they should be\n") {
				return fmt.Sprint(code, stdout, stderr)
			}
			return ""
		})
		code, stdout, stderr := member.npm(t, "check", "-n", "back", "in", "--wait")
		require.Equal(t, 0, code, stdout+stderr)
		require.Equal(t, "NetworkPolicy back/in: in force on 2 of 2 nodes\n", stdout)
	})
	t.Run("npm with a kubeconfig", func(t *testing.T) {
		_, plugin, _ := member.trace(t, "front/web", "back/db:80/TCP")
		out, err := exec.CommandContext(t.Context(), filepath.Join(bin, "npm"), "trace", "front/web", "back/db:80/TCP", "--kubeconfig", member.kubeconfig).Output()
		require.Error(t, err)
		require.Equal(t, plugin, string(out))
	})
	t.Run("without the rights", func(t *testing.T) {
		code, stdout, stderr := newPerson(t, "others").trace(t, "front/web", "back/db:80/TCP")
		require.Equal(t, 1, code)
		require.Empty(t, stdout)
		require.Contains(t, stderr, `kubectl npm: trace: looking for the node of front/web: pods "web" is forbidden: User "somebody" cannot get resource`)
		require.Contains(t, stderr, "; deploy/trace has the rights that it takes\n")
	})
	t.Run("without the right to forward", func(t *testing.T) {
		require.NoError(t, kube.RbacV1().RoleBindings("kube-system").Delete(t.Context(), "npm-trace", metav1.DeleteOptions{}))
		eventually(t, settle, func() string {
			code, _, stderr := member.trace(t, "front/web", "back/db:80/TCP")
			if code == 1 && strings.Contains(stderr, `azure-npm-trace-1" is forbidden: User "somebody" cannot`) {
				return ""
			}
			return fmt.Sprint(code, " ", stderr)
		})
	})
}
