package main

import (
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/winnpm/winnpm/pkg/debug"
	"github.com/winnpm/winnpm/pkg/state"
	"github.com/winnpm/winnpm/tool/cluster"
)

// twoNodes has a client and a database on nodes of their own, a policy at each
// of them, and a pod on a Linux node.
const twoNodes = `
{apiVersion: v1, kind: Pod, metadata: {name: web, namespace: x, labels: {app: web}}, spec: {nodeName: win-1, containers: [{name: c, image: i}]}}
---
{apiVersion: v1, kind: Pod, metadata: {name: db, namespace: z, labels: {app: db}}, spec: {nodeName: win-2, containers: [{name: c, image: i}]}}
---
{apiVersion: v1, kind: Pod, metadata: {name: lin, namespace: z, labels: {app: web}}, spec: {nodeName: linux-1, containers: [{name: c, image: i}]}}
---
{apiVersion: v1, kind: Pod, metadata: {name: penguin, namespace: z}, spec: {nodeName: linux-2, containers: [{name: c, image: i}]}}
---
{apiVersion: v1, kind: Pod, metadata: {name: late, namespace: z}, spec: {nodeName: win-3, containers: [{name: c, image: i}]}}
---
kind: NetworkPolicy
apiVersion: networking.k8s.io/v1
metadata: {name: web, namespace: x}
spec: {podSelector: {}, policyTypes: [Egress], egress: [{ports: [{port: 5432}, {port: 80}]}]}
---
kind: NetworkPolicy
apiVersion: networking.k8s.io/v1
metadata: {name: db, namespace: z}
spec: {podSelector: {matchLabels: {app: db}}, ingress: [{from: [{namespaceSelector: {}, podSelector: {matchLabels: {app: web}}}], ports: [{port: 5432}, {port: 443}]}]}
`

// fakeCluster has an agent on the nodes win-1 to win-3; the last one has no
// port that anybody listens on.
func fakeCluster(t *testing.T) *apiServer {
	t.Helper()
	file := filepath.Join(t.TempDir(), "two.yaml")
	require.NoError(t, os.WriteFile(file, []byte(twoNodes), 0o600))
	fake := newAPIServer(t)
	fine := func() error { return nil }
	for _, node := range []string{"win-1", "win-2"} {
		d, _, err := cluster.Snapshot(t.Context(), cluster.Options{Manifests: []string{file}, Node: node})
		require.NoError(t, err)
		// Not exposed: the agent answers to its own node only.
		server := httptest.NewServer(debug.Handler(debug.Config{Dump: func() state.Dump { return d }, Healthy: fine, Ready: fine}))
		t.Cleanup(server.Close)
		fake.Backends["kube-system/npm-"+node+":10091"] = server.Listener.Addr().String()
	}
	for pod, node := range map[string]string{"x/web": "win-1", "z/db": "win-2", "z/lin": "linux-1", "z/penguin": "linux-2", "z/late": "win-3", "z/new": "win-2"} {
		namespace, name, _ := strings.Cut(pod, "/")
		fake.Pods = append(fake.Pods, podOn(namespace, name, node))
	}
	for _, node := range []string{"win-1", "win-2", "win-3"} {
		fake.Pods = append(fake.Pods, agentOn("npm-"+node, node))
	}
	return fake
}

// inOwnProcess runs a test in a process of its own, and reports whether this is
// that one. Other tests set klog's logger, which must not change any more once
// client-go is at work: what it runs beside a connection outlives it a little.
func inOwnProcess(t *testing.T) bool {
	t.Helper()
	const env = "NPM_TEST_IN_OWN_PROCESS"
	if os.Getenv(env) != "" {
		return true
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$")
	cmd.Env = append(os.Environ(), env+"=1")
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, string(out))
	return false
}

func TestTraceCluster(t *testing.T) {
	if !inOwnProcess(t) {
		return
	}
	unready := func(c *apiServer) {
		for i := range c.Pods {
			if c.Pods[i].Name == "npm-win-2" {
				c.Pods[i].Status.Conditions = nil
			}
		}
	}
	hideZ := func(c *apiServer) { c.Forbidden = []string{"get pods z", "list pods z"} }
	for _, tc := range []struct {
		name   string
		args   []string
		change func(*apiServer)
		code   int
		stdout []string // parts of it; nil for nothing at all
		stderr string   // a part of the line; "" for nothing at all
		asked  []string // the agents
	}{
		{"allowed", []string{"x/web", "z/db:5432/TCP"}, nil, exitAllowed, []string{
			"ALLOWED  x/web -> z/db:5432/TCP  (10.",
			"\nout of x/web on win-1: allowed, policy x/web spec.egress[0] allows it\n",
			"\ninto z/db on win-2: allowed, policy z/db spec.ingress[0] allows it\n",
		}, "", []string{"npm-win-1", "npm-win-2"}},
		{"blocked at the source", []string{"x/web", "z/db:443/TCP"}, nil, exitBlocked, []string{
			"\nout of x/web on win-1: BLOCKED, ", "\ninto z/db on win-2: allowed, ", "\nOne change would allow it out of x/web:\n",
		}, "", []string{"npm-win-1", "npm-win-2"}},
		{"blocked at the destination", []string{"x/web", "z/db:80/TCP"}, nil, exitBlocked, []string{
			"\nout of x/web on win-1: allowed, ", "\ninto z/db on win-2: BLOCKED, ",
		}, "", []string{"npm-win-1", "npm-win-2"}},
		{"JSON", []string{"x/web", "z/db:80/TCP", "-o", "json"}, nil, exitBlocked, []string{
			`"node":"","time":"`, `"egress":{"end":"x/web","pod":"x/web","node":"win-1",`, `"ingress":{"end":"z/db","pod":"z/db","node":"win-2",`,
		}, "", []string{"npm-win-1", "npm-win-2"}},
		{"from an address", []string{"10.1.2.3", "z/db:5432/TCP"}, nil, exitBlocked, []string{"\ninto z/db: BLOCKED, "}, "", []string{"npm-win-2"}},
		{"to an address", []string{"x/web", "10.1.2.3:80/TCP"}, nil, exitAllowed, []string{"\nout of x/web: allowed, "}, "", []string{"npm-win-1"}},
		{"to itself", []string{"x/web", "x/web:81/TCP"}, nil, exitAllowed, []string{"does not pass the switch"}, "", []string{"npm-win-1"}},
		{"one agent alone", []string{"x/web", "z/db:80/TCP", "--node", "win-1"}, nil, exitUnknown, []string{"UNKNOWN  ", "\nThis node knows one half only, which allows it; the other one may block it.\n"}, "", []string{"npm-win-1"}},
		{"from a Linux node", []string{"z/lin", "z/db:5432/TCP"}, nil, exitUnknown, []string{
			"\nThe nodes know one half only, which allows it; the other one may block it.\nout of z/lin on linux-1: not judged, no agent on node linux-1\ninto z/db on win-2: allowed, ",
		}, "", []string{"npm-win-2"}},
		{"to a Linux node", []string{"x/web", "z/lin:81/TCP"}, nil, exitBlocked, []string{
			"\ninto z/lin on linux-1: not judged, no agent on node linux-1\n",
		}, "", []string{"npm-win-1"}},
		{"an agent without an answer", []string{"x/web", "z/late:80/TCP"}, nil, exitUnknown, []string{
			"\nout of x/web on win-1: allowed, ",
			"\ninto z/late on win-3: UNKNOWN, the agent kube-system/npm-win-3 on win-3: port-forward to kube-system/npm-win-3: connect to kube-system/npm-win-3:10091: connection refused",
		}, "", []string{"npm-win-1", "npm-win-3"}},
		{"an agent that is not needed", []string{"x/web", "z/late:81/TCP"}, nil, exitBlocked, []string{
			"\nout of x/web on win-1: BLOCKED, ", "\ninto z/late on win-3: UNKNOWN, ",
		}, "", []string{"npm-win-1", "npm-win-3"}},
		{"an agent that is not ready", []string{"x/web", "z/db:80/TCP"}, unready, exitBlocked, []string{
			"\nwarning: the agent kube-system/npm-win-2 on win-2 is not ready, what it says may be incomplete: kubectl -n kube-system logs npm-win-2 says why\n",
		}, "", []string{"npm-win-1", "npm-win-2"}},
		{"a pod that its agent does not know yet", []string{"x/web", "z/new:80/TCP"}, nil, exitNoDump, nil, "the agent kube-system/npm-win-2 on win-2: z/new cannot be asked about: there is no such pod", []string{"npm-win-1", "npm-win-2"}},

		{"Linux alone", []string{"z/lin", "z/penguin:80/TCP"}, nil, exitNoDump, nil, "kubectl npm: trace: no agent on node linux-1, and no agent on node linux-2: kubectl -n kube-system get pods -o wide -l k8s-app=azure-npm shows where they are", nil},
		{"agents elsewhere", []string{"x/web", "z/db:80/TCP", "--agent-namespace", "other", "--selector", "a=b"}, nil, exitNoDump, nil, "no agent on node win-2: kubectl -n other get pods -o wide -l a=b shows", nil},
		{"no pod", []string{"x/web", "10.1.2.3:80/TCP", "--node", "win-9"}, nil, exitNoDump, nil, "trace: no agent on node win-9: kubectl ", nil},
		{"no such pod", []string{"x/wep", "z/db:80/TCP"}, nil, exitNoDump, nil, `there is no pod x/wep in the cluster`, nil},
		{"addresses", []string{"10.1.2.3", "10.1.2.4:80/TCP"}, nil, exitNoDump, nil, "neither end is a pod: say with --node which agent to ask", nil},
		{"no right", []string{"x/web", "x/web:80/TCP"}, func(c *apiServer) {
			c.Forbidden = []string{"get pods/portforward", "create pods/portforward"}
		}, exitNoDump, nil, "the agent kube-system/npm-win-1 on win-1: port-forward to kube-system/npm-win-1: unable to upgrade connection: pods/portforward is forbidden: nobody may create them; kubectl -n kube-system logs npm-win-1 says more", nil},
		{"to a namespace that one may not read", []string{"x/web", "z/db:5432/TCP"}, hideZ, exitUnknown, []string{
			"UNKNOWN  x/web -> z/db:5432/TCP", "\nout of x/web on win-1: allowed, ",
			"\ninto z/db: UNKNOWN, looking for the node of z/db: pods is forbidden: nobody may get them; deploy/trace has the rights that it takes\n",
		}, "", []string{"npm-win-1"}},
		{"blocked before it comes there", []string{"x/web", "z/db:443/TCP"}, hideZ, exitBlocked, []string{"\nout of x/web on win-1: BLOCKED, ", "\ninto z/db: UNKNOWN, "}, "", []string{"npm-win-1"}},
		{"from there", []string{"z/db", "x/web:80/TCP"}, hideZ, exitUnknown, []string{"\nout of z/db: UNKNOWN, ", "\ninto x/web on win-1: allowed, "}, "", []string{"npm-win-1"}},
		{"from there, JSON", []string{"z/db", "x/web:80/TCP", "-o", "json"}, hideZ, exitUnknown, []string{`"verdict":"unknown"`}, "", []string{"npm-win-1"}},
		{"from there, a workload's port by name", []string{"z/db", "deploy/web:http", "-n", "x"}, hideZ, exitNoDump, nil, "deployment x/web has no running pod", nil},
		{"there alone", []string{"z/lin", "z/db:443/TCP"}, hideZ, exitNoDump, nil, "looking for the node of z/lin: pods is forbidden: ", nil},
		{"from an address into there", []string{"10.1.2.3", "z/db:443/TCP"}, hideZ, exitNoDump, nil, "looking for the node of z/db: pods is forbidden: ", nil},
		{"no such context", []string{"x/web", "z/db:80/TCP", "--context", "prod"}, nil, exitNoDump, nil, `kubeconfig: context "prod" does not exist`, nil},
		{"no labels", []string{"x/web", "z/db:80/TCP", "--selector", "a in"}, nil, exitNoDump, nil, `selector "a in": `, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			fake := fakeCluster(t)
			if tc.change != nil {
				tc.change(fake)
			}
			t.Setenv("KUBECONFIG", fake.Kubeconfig)
			code, stdout, stderr := command(t, "", append([]string{"trace"}, tc.args...)...)
			require.Equal(t, tc.code, code, stdout+stderr)
			for _, part := range tc.stdout {
				require.Contains(t, stdout, part)
			}
			if tc.stdout == nil {
				require.Empty(t, stdout)
				require.Equal(t, 1, strings.Count(stderr, "\n"), stderr)
				require.True(t, strings.HasPrefix(stderr, "kubectl npm: "), stderr)
				require.Contains(t, stderr, tc.stderr)
			} else {
				require.Empty(t, stderr)
			}
			var asked []string
			for _, call := range fake.Calls() {
				if _, pod, ok := strings.Cut(call, "websocket kube-system/"); ok {
					asked = append(asked, strings.TrimSuffix(pod, ":10091"))
				}
			}
			require.ElementsMatch(t, tc.asked, asked)
		})
	}
}

// TestTraceWhichSource: the agents of the cluster are asked unless a flag names another source.
func TestTraceWhichSource(t *testing.T) {
	if !inOwnProcess(t) {
		return
	}
	const question = "x/web->z/db:80/TCP"
	fake := fakeCluster(t)
	code, stdout, stderr := command(t, "", "trace", question, "--kubeconfig", fake.Kubeconfig)
	require.Equal(t, exitBlocked, code, stderr)
	t.Setenv("KUBECONFIG", fake.Kubeconfig)
	_, byDefault, _ := command(t, "", "trace", question)
	require.Equal(t, stdout, byDefault)
	_, byContext, _ := command(t, "", "trace", question, "--context", "test")
	require.Equal(t, stdout, byContext)

	called := len(fake.Calls())
	code, _, stderr = command(t, "", "trace", "shop/storefront-0->shop/db-0:5432/TCP", "--manifests", shop)
	require.Equal(t, exitBlocked, code, stderr)
	require.Len(t, fake.Calls(), called, "the cluster was not asked")
}

func TestConfigOfCluster(t *testing.T) {
	fake := newAPIServer(t)
	t.Setenv("KUBECONFIG", fake.Kubeconfig)
	of := func(file, context string) (*rest.Config, error) {
		c := clusterOptions{loading: clientcmd.NewDefaultClientConfigLoadingRules(), overrides: clientcmd.ConfigOverrides{CurrentContext: context}}
		c.loading.ExplicitPath = file
		return c.config()
	}
	api, err := of("", "test")
	require.NoError(t, err)
	require.NotEmpty(t, api.Host)
	_, err = of("", "other")
	require.EqualError(t, err, `kubeconfig: context "other" does not exist`)
	_, err = of("none", "")
	require.ErrorIs(t, err, os.ErrNotExist)
	empty := filepath.Join(t.TempDir(), "empty")
	require.NoError(t, os.WriteFile(empty, nil, 0o600))
	_, err = of(empty, "")
	require.EqualError(t, err, "no kubeconfig names a cluster: give --kubeconfig FILE, or set KUBECONFIG")
}
