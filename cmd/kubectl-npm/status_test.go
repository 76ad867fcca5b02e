package main

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/winnpm/winnpm/pkg/debug"
	"github.com/winnpm/winnpm/pkg/state"
	"github.com/winnpm/winnpm/tool/cluster"
)

// answering is an agent with a dump.
func answering(d func() state.Dump, ready error) http.Handler {
	return debug.Handler(debug.Config{Dump: d, Healthy: func() error { return nil }, Ready: func() error { return ready }, Version: "v1.2.3"})
}

// agentsInTrouble is a cluster with one agent that is well, one that hangs, one without the pages,
// one that may not read the cluster and one that may not be asked; and a node without an agent.
func agentsInTrouble(t *testing.T) (*apiServer, func(change func(*state.Dump))) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "two.yaml")
	require.NoError(t, os.WriteFile(file, []byte(twoNodes), 0o600))
	d, _, err := cluster.Snapshot(t.Context(), cluster.Options{Manifests: []string{file}, Node: "win-1"})
	require.NoError(t, err)
	var mu sync.Mutex
	dump := func() state.Dump {
		mu.Lock()
		defer mu.Unlock()
		return d
	}
	change := func(how func(*state.Dump)) {
		mu.Lock()
		defer mu.Unlock()
		how(&d)
	}
	hanging := make(chan struct{})
	t.Cleanup(func() { close(hanging) })
	fake := newAPIServer(t)
	for node, handler := range map[string]http.Handler{
		"win-1": answering(dump, nil),
		"win-2": http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			select {
			case <-hanging:
			case <-r.Context().Done():
			}
		}),
		"win-3": http.NotFoundHandler(),
		"win-4": answering(dump, errors.New("pods is forbidden: the agent may not list them")),
		"win-5": http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "nobody may", http.StatusForbidden) }),
	} {
		server := httptest.NewServer(handler)
		t.Cleanup(server.Close)
		fake.Backends["kube-system/npm-"+node+":10091"] = server.Listener.Addr().String()
		fake.Pods = append(fake.Pods, agentOn("npm-"+node, node))
	}
	fake.Nodes = []corev1.Node{{ObjectMeta: metav1.ObjectMeta{Name: "win-6"}}}
	t.Setenv("KUBECONFIG", fake.Kubeconfig)
	return fake, change
}

func TestStatus(t *testing.T) {
	if !inOwnProcess(t) {
		return
	}
	fake, change := agentsInTrouble(t)
	code, stdout, stderr := command(t, "", "status", "--timeout", "1s")
	require.Equal(t, exitUnknown, code, stderr)
	require.Equal(t, `NODE   STATE      VERSION  PENDING  NOT IN FORCE  WARNINGS
win-2  NO ANSWER  -        -        -             -
win-3  NO ANSWER  -        -        -             -
win-5  NO ANSWER  -        -        -             -
win-6  NO ANSWER  -        -        -             -
win-4  NOT READY  v1.2.3   0        0             0
win-1  ready      v1.2.3   0        0             0
win-2: no answer within 1s
win-3: the agent kube-system/npm-win-3 on win-3: 404 Not Found: its Toggles.EnableHTTPDebugAPI is off
win-5: the agent kube-system/npm-win-5 on win-5: 403 Forbidden: nobody may
win-6: no agent on node win-6
win-4: not ready: pods is forbidden: the agent may not list them
1 of 6 nodes are as they should be
`, stdout)
	code, stdout, _ = command(t, "", "status", "--timeout", "1s", "-o", "name")
	require.Equal(t, exitUnknown, code)
	require.Equal(t, "node/win-2\nnode/win-3\nnode/win-5\nnode/win-6\nnode/win-4\nnode/win-1\n", stdout)

	// Those that do not answer go, and then what is wrong is told by code 3.
	fake.Nodes, fake.Pods = nil, fake.Pods[:0:0]
	fake.Pods = append(fake.Pods, agentOn("npm-win-1", "win-1"))
	code, stdout, _ = command(t, "", "status", "-o", "wide")
	require.Equal(t, 0, code, stdout)
	require.Contains(t, stdout, "kube-system/npm-win-1\n1 of 1 nodes are as they should be\n")
	change(func(d *state.Dump) {
		d.Pending = []state.Pending{{Pod: "x/web", Endpoint: d.Endpoints[0].ID}}
		d.Warnings = []state.Warning{{Kind: "NetworkPolicy", Object: "x/web", Reason: "IPv6Peer", Message: "why\nFORGED\tline"}}
	})
	code, stdout, _ = command(t, "", "status")
	require.Equal(t, exitBlocked, code)
	require.Contains(t, stdout, "\nwin-1  ready  v1.2.3   1        1             1\n")
	require.Contains(t, stdout, "\nwin-1: NetworkPolicy x/web: IPv6Peer: why\uFFFDFORGED\uFFFDline\n0 of 1 nodes are as they should be\n")
	code, stdout, _ = command(t, "", "status", "-o", "json")
	require.Equal(t, exitBlocked, code)
	require.Contains(t, stdout, `"notInForce":["x/web"]`)

	fake.Forbidden = []string{"list nodes"}
	change(func(d *state.Dump) { d.Pending, d.Warnings = nil, nil })
	code, stdout, _ = command(t, "", "status")
	require.Equal(t, exitUnknown, code, "a node without an agent may be there")
	require.Contains(t, stdout, "\nnodes without an agent are not known: nodes is forbidden: ")
	fake.Forbidden = []string{"list pods"}
	code, _, stderr = command(t, "", "status")
	require.Equal(t, exitNoDump, code)
	require.Equal(t, "kubectl npm: status: looking for the agents: pods is forbidden: nobody may list them; deploy/trace has the rights that it takes\n", stderr)
	fake.Forbidden, fake.Pods = nil, nil
	code, _, _ = command(t, "", "status")
	require.Equal(t, exitUnknown, code, "a cluster without agents is not well")
}

func TestCheck(t *testing.T) {
	if !inOwnProcess(t) {
		return
	}
	fake, change := agentsInTrouble(t)
	var np networkingv1.NetworkPolicy
	change(func(d *state.Dump) {
		for _, p := range d.Policies {
			if p.Policy == "x/web" {
				np = networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "x", Name: "web"}, Spec: *p.Spec.DeepCopy()}
			}
		}
	})
	require.NotEmpty(t, np.Name)
	fake.Policies = []networkingv1.NetworkPolicy{np}
	code, stdout, stderr := command(t, "", "check", "x/web", "--timeout", "1s")
	require.Equal(t, exitUnknown, code, stderr)
	require.Equal(t, `NetworkPolicy x/web: in force on 2 of 6 nodes, UNKNOWN on 4
  win-2: UNKNOWN: no answer within 1s
  win-3: UNKNOWN: the agent kube-system/npm-win-3 on win-3: 404 Not Found: its Toggles.EnableHTTPDebugAPI is off
  win-5: UNKNOWN: the agent kube-system/npm-win-5 on win-5: 403 Forbidden: nobody may
  win-6: UNKNOWN: no agent on node win-6
`, stdout)
	began := time.Now()
	code, _, _ = command(t, "", "check", "x/web", "--timeout", "1s", "--wait", "--wait-timeout", "1s")
	require.Equal(t, exitUnknown, code, "what nobody knows is not in force, however long it is waited for")
	require.Less(t, time.Since(began), 20*time.Second)

	fake.Nodes, fake.Pods = nil, []corev1.Pod{agentOn("npm-win-1", "win-1")}
	code, stdout, _ = command(t, "", "check", "-n", "x", "web")
	require.Equal(t, 0, code, stdout)
	require.Equal(t, "NetworkPolicy x/web: in force on 1 of 1 nodes\n", stdout)
	for form, want := range map[string]string{
		"name": "networkpolicy.networking.k8s.io/web\n",
		"wide": "NetworkPolicy x/web: in force on 1 of 1 nodes\n  win-1: in force\n",
		"json": `{"policy":"x/web","nodes":[{"node":"win-1","state":"inForce"}]}` + "\n",
	} {
		_, stdout, _ = command(t, "", "check", "x/web", "-o", form)
		require.Equal(t, want, stdout)
	}
	for name, tc := range map[string]struct {
		change func(*state.Dump)
		said   string
	}{
		"pending": {func(d *state.Dump) { d.Pending = []state.Pending{{Pod: "x/web", Error: "HNS is busy"}} }, "x/web: HNS has no endpoint for it yet: HNS is busy"},
		"problem": {func(d *state.Dump) { d.Policies[0].Problems = []string{"a problem"} }, "a problem"},
		"warning": {func(d *state.Dump) {
			d.Warnings = []state.Warning{{Kind: "NetworkPolicy", Object: "x/web", Reason: "R", Message: "m"}}
		}, "m"},
		"unknown": {func(d *state.Dump) { d.Policies = nil }, "the agent does not know the policy yet"},
		"older":   {func(d *state.Dump) { d.Policies[0].Spec = &networkingv1.NetworkPolicySpec{} }, "the agent knows an older version of the policy"},
		"a set": {func(d *state.Dump) {
			d.Sets = append([]state.SetDump{}, state.SetDump{Name: "ns-z", Missing: []string{"10.0.0.1"}, Holders: []string{"selector x/web"}})
		}, "HNS has the set ns-z not as it should be yet"},
	} {
		t.Run(name, func(t *testing.T) {
			var was state.Dump
			change(func(d *state.Dump) {
				was = *d
				for i, p := range d.Policies {
					if p.Policy == "x/web" {
						d.Policies = []state.PolicyDump{d.Policies[i]}
					}
				}
				tc.change(d)
			})
			code, stdout, _ := command(t, "", "check", "x/web")
			change(func(d *state.Dump) { *d = was })
			require.Equal(t, exitBlocked, code)
			require.Equal(t, "NetworkPolicy x/web: in force on 0 of 1 nodes\n  win-1: "+tc.said+"\n", stdout)
		})
	}

	var waits atomic.Int32
	late := []state.Pending{{Pod: "x/web"}}
	// What is not in force yet is waited for.
	change(func(d *state.Dump) { d.Pending = late })
	fake.OnCall = func(call string) {
		if strings.HasPrefix(call, "websocket") {
			change(func(d *state.Dump) { d.Pending = late[:min(len(late), max(0, int(4-waits.Add(1))))] })
		}
	}
	code, stdout, _ = command(t, "", "check", "x/web", "--wait", "--interval", "10ms")
	require.Equal(t, 0, code, stdout)
	require.EqualValues(t, 4, waits.Load())
	fake.OnCall = nil
	change(func(d *state.Dump) { d.Pending = late })
	code, _, _ = command(t, "", "check", "x/web", "--wait", "--interval", "10ms", "--wait-timeout", "50ms")
	require.Equal(t, exitBlocked, code, "not for ever")
	change(func(d *state.Dump) { d.Pending = nil })
	fake.Pods[0].Status.Conditions = nil
	code, stdout, _ = command(t, "", "check", "x/web")
	require.Equal(t, exitBlocked, code)
	require.Contains(t, stdout, "\n  win-1: the agent is not ready: kubectl npm status says why\n")

	code, _, stderr = command(t, "", "check", "x/none")
	require.Equal(t, exitNoDump, code)
	require.Equal(t, "kubectl npm: check: there is no NetworkPolicy x/none: kubectl -n x get networkpolicies lists them\n", stderr)
}
