package e2e

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/winnpm/winnpm/test/servers"
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
			member.traces(t, c.code, c.says, c.from, c.to)
		})
	}

	t.Run("how the agents are", func(t *testing.T) {
		servers.Eventually(t, settle, func() string {
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
		servers.Eventually(t, settle, func() string {
			code, _, stderr := member.trace(t, "front/web", "back/db:80/TCP")
			if code == 1 && strings.Contains(stderr, `azure-npm-win-trace-1" is forbidden: User "somebody" cannot`) {
				return ""
			}
			return fmt.Sprint(code, " ", stderr)
		})
	})
}

// person is somebody with a kubeconfig and the plugin.
type person struct{ plugin, kubeconfig string }

// newPerson returns a member of a group.
func newPerson(t *testing.T, group string) person {
	t.Helper()
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	require.NoError(t, os.WriteFile(kubeconfig, fmt.Appendf(nil, `{apiVersion: v1, kind: Config, current-context: c,
 contexts: [{name: c, context: {cluster: c, user: u}}],
 clusters: [{name: c, cluster: {server: %q, certificate-authority-data: %s}}],
 users: [{name: u, user: {token: %s, as: somebody, as-groups: [%s]}}]}
`, admin.Host, base64.StdEncoding.EncodeToString(admin.CAData), admin.BearerToken, group), 0o600))
	return withPlugin(t, kubeconfig)
}

// withPlugin returns the person of a kubeconfig.
func withPlugin(t *testing.T, kubeconfig string) person {
	t.Helper()
	p := person{filepath.Join(t.TempDir(), "kubectl-npm"), kubeconfig}
	require.NoError(t, os.Symlink(filepath.Join(bin, "kubectl-npm"), p.plugin))
	return p
}

// trace runs the plugin as kubectl does.
func (p person) trace(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	return p.npm(t, append([]string{"trace"}, args...)...)
}

// traces waits until a trace ends with a code and says everything: agents may not have the policies yet.
func (p person) traces(t *testing.T, code int, says []string, args ...string) {
	t.Helper()
	servers.Eventually(t, settle, func() string {
		got, stdout, stderr := p.trace(t, args...)
		if got != code || stderr != "" {
			return fmt.Sprintf("exit code %d\n%s%s", got, stdout, stderr)
		}
		for _, part := range says {
			if !strings.Contains(stdout, part) {
				return fmt.Sprintf("it does not say %q:\n%s", part, stdout)
			}
		}
		return ""
	})
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

// role lets a ServiceAccount use resources of a namespace, as kubectl create role and rolebinding do.
func (w *world) role(namespace string, account rbacv1.Subject, verbs, resources []string) {
	w.t.Helper()
	roles, bindings := w.kube.RbacV1().Roles(namespace), w.kube.RbacV1().RoleBindings(namespace)
	_, err := roles.Create(w.t.Context(), &rbacv1.Role{
		ObjectMeta: metav1.ObjectMeta{Name: "npm-trace"},
		Rules:      []rbacv1.PolicyRule{{APIGroups: []string{""}, Verbs: verbs, Resources: resources}},
	}, metav1.CreateOptions{})
	require.NoError(w.t, err)
	_, err = bindings.Create(w.t.Context(), &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "npm-trace"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "npm-trace"},
		Subjects:   []rbacv1.Subject{account},
	}, metav1.CreateOptions{})
	require.NoError(w.t, err)
	w.t.Cleanup(func() {
		require.NoError(w.t, bindings.Delete(context.Background(), "npm-trace", metav1.DeleteOptions{}))
		require.NoError(w.t, roles.Delete(context.Background(), "npm-trace", metav1.DeleteOptions{}))
	})
}

// service creates a Service that leads to the pods with a label.
func (w *world) service(namespace, name, app string, port, target int32) {
	w.t.Helper()
	services := w.kube.CoreV1().Services(namespace)
	_, err := services.Create(w.t.Context(), &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.ServiceSpec{
		Selector: map[string]string{"app": app}, Ports: []corev1.ServicePort{{Port: port, TargetPort: intstr.FromInt32(target)}},
	}}, metav1.CreateOptions{})
	require.NoError(w.t, err)
	w.t.Cleanup(func() { require.NoError(w.t, services.Delete(context.Background(), name, metav1.DeleteOptions{})) })
}

// A developer with rights for one namespace, and with those to ask the agents, finds why a connection
// is blocked. What he may not know of the other end is UNKNOWN, never allowed.
func TestDeveloperOfOneNamespace(t *testing.T) {
	w := newWorld(t)
	w.namespace("dev-shop", "")
	w.namespace("dev-back", "")
	for _, node := range []string{"dev-1", "dev-2"} {
		w.windowsNode(node, startAgent(t, node, agentKubeconfig(t)).address())
		w.agentPod(node)
	}
	for i, p := range []pod{
		{namespace: "dev-shop", name: "web", ip: "10.72.0.1", labels: "app=web"},
		{namespace: "dev-shop", name: "db", ip: "10.72.0.2", labels: "app=db", ports: "sql=5432"},
		{namespace: "dev-back", name: "near", ip: "10.72.0.3", labels: "app=near"},
		{namespace: "dev-back", name: "far", ip: "10.72.0.4", labels: "app=far"},
	} {
		p.node = fmt.Sprintf("dev-%d", 1+i%2)
		w.pod(p)
	}
	w.service("dev-shop", "db", "db", 80, 5432)
	w.policy("dev-shop", "db", `{podSelector: {matchLabels: {app: db}}, ingress: [{from: [{podSelector: {matchLabels: {app: web}}}], ports: [{port: 5432}]}]}`)
	w.policy("dev-shop", "web", `{podSelector: {matchLabels: {app: web}}, policyTypes: [Egress], egress: [{ports: [{port: 5432}, {port: 443}]}]}`)

	developer := w.account("dev-shop", "ann")
	w.role("dev-shop", developer, []string{"get", "list"}, []string{"pods", "services"})
	w.role("kube-system", developer, []string{"get", "list", "create"}, []string{"pods", "pods/portforward"})
	ann := withPlugin(t, kubeconfigOf(t, "dev-shop", "ann", admin.Host, admin.CAData))
	for _, c := range []struct {
		name string
		args []string
		code int
		says []string
	}{
		{"allowed", []string{"-n", "dev-shop", "web", "db:5432"}, 0, []string{"ALLOWED  dev-shop/web -> dev-shop/db:5432/TCP", "out of dev-shop/web on dev-1: allowed, ", "into dev-shop/db on dev-2: allowed, "}},
		{"a Service", []string{"-n", "dev-shop", "web", "svc/db:80"}, 0, []string{"becomes one to dev-shop/db:5432/TCP (DNAT)", "into dev-shop/db on dev-2: allowed, "}},
		{"a port by name", []string{"-n", "dev-shop", "web", "db:sql"}, 0, []string{"into dev-shop/db on dev-2: allowed, "}},
		{"blocked", []string{"-n", "dev-shop", "web", "db:443"}, 3, []string{"into dev-shop/db on dev-2: BLOCKED, policy dev-shop/db isolates dev-shop/db for ingress", "One change would allow it into dev-shop/db:"}},
		{"blocked from elsewhere", []string{"dev-back/near", "dev-shop/db:5432"}, 3, []string{"out of dev-back/near: UNKNOWN, ", "into dev-shop/db on dev-2: BLOCKED, "}},
		{"from elsewhere on the pod's node", []string{"dev-back/far", "dev-shop/db:5432"}, 3, []string{"out of dev-back/far: allowed, ", "into dev-shop/db: BLOCKED, "}},
		{"out to where one may not look", []string{"dev-shop/web", "dev-back/far:443"}, 4, []string{
			"UNKNOWN  dev-shop/web -> dev-back/far:443/TCP", "out of dev-shop/web on dev-1: allowed, ",
			"into dev-back/far: UNKNOWN, looking for the node of dev-back/far: pods \"far\" is forbidden: ",
		}},
		{"not even out", []string{"dev-shop/web", "dev-back/far:80"}, 3, []string{"out of dev-shop/web on dev-1: BLOCKED, "}},
		{"to a pod of one's own node", []string{"dev-shop/web", "dev-back/near:443"}, 0, []string{"into dev-back/near: allowed, "}},
	} {
		t.Run(c.name, func(t *testing.T) {
			ann.traces(t, c.code, c.says, c.args...)
		})
	}

	t.Run("nothing is known", func(t *testing.T) {
		code, stdout, stderr := ann.trace(t, "dev-back/near", "dev-back/far:80")
		require.Equal(t, 1, code)
		require.Empty(t, stdout)
		require.Contains(t, stderr, `looking for the node of dev-back/near: pods "near" is forbidden: `)
	})
	t.Run("without the right to ask agents", func(t *testing.T) {
		w.role("dev-back", w.account("dev-back", "bob"), []string{"get", "list"}, []string{"pods"})
		bob := withPlugin(t, kubeconfigOf(t, "dev-back", "bob", admin.Host, admin.CAData))
		servers.Eventually(t, settle, func() string { // until the API server knows the role
			code, stdout, stderr := bob.trace(t, "dev-back/near", "dev-back/far:80")
			if code != 1 || stdout != "" || !strings.Contains(stderr, `looking for the agent on node dev-1: pods is forbidden: User "system:serviceaccount:dev-back:bob" cannot list resource`) {
				return fmt.Sprint(code, stdout, stderr)
			}
			return ""
		})
	})
}
