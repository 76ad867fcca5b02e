package e2e

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// applied applies an object for as long as the test takes.
func applied(t *testing.T, object *unstructured.Unstructured) {
	t.Helper()
	_, err := apply(t, object)
	require.NoError(t, err)
	t.Cleanup(func() {
		err := resourceOf(t, object).Delete(context.Background(), object.GetName(), metav1.DeleteOptions{})
		if !apierrors.IsNotFound(err) { // the test may have deleted it
			require.NoError(t, err)
		}
	})
}

// kubectl npm trace asks the agents of two nodes with the rights of
// deploy/trace, through the API server and their kubelets.
func TestKubectlTrace(t *testing.T) {
	for _, object := range render(t, "../../deploy/trace") {
		applied(t, object)
	}
	w := newWorld(t)
	w.node("trace-linux", "127.0.0.1")
	for _, node := range []string{"trace-1", "trace-2"} {
		w.windowsNode(node, startAgent(t, node, agentKubeconfig(t)).address())
		w.agentPod(node)
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
		out, err := exec.CommandContext(t.Context(), filepath.Join(bin, "kubectl-npm"), "trace", "front/web", "back/db:80/TCP", "--kubeconfig", member.kubeconfig).Output()
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
			if code == 1 && strings.Contains(stderr, `azure-npm-win-trace-1" is forbidden: User "somebody" cannot`) {
				return ""
			}
			return fmt.Sprint(code, " ", stderr)
		})
	})
}
