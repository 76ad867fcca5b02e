package main

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/winnpm/winnpm/tool/agents"
)

// TestAgents: package agents finds the agents of a cluster and reaches them through its API server.
func TestAgents(t *testing.T) {
	if !inOwnProcess(t) {
		return
	}
	t.Run("Selector", testSelector)
	t.Run("NodeOf", testNodeOf)
	t.Run("Find", testFind)
	t.Run("Forward", testForward)
	t.Run("ForwardIsCut", testForwardIsCut)
	t.Run("ForwardEndsWithContext", testForwardEndsWithContext)
	t.Run("EndlessAnswers", testEndlessAnswers)
}

// clusterOf returns the client's side of a fake cluster.
func clusterOf(t *testing.T, fake *apiServer) *agents.Cluster {
	t.Helper()
	api, err := clientcmd.BuildConfigFromFlags("", fake.Kubeconfig)
	require.NoError(t, err)
	c, err := agents.New(api, agents.DefaultNamespace, agents.DefaultSelector)
	require.NoError(t, err)
	return c
}

func testSelector(t *testing.T) {
	_, err := agents.New(&rest.Config{}, "kube-system", "a in")
	require.ErrorContains(t, err, `selector "a in": `)
}

func testNodeOf(t *testing.T) {
	fake := newAPIServer(t)
	fake.Pods = []corev1.Pod{podOn("x", "web", "win-1"), podOn("x", "new", "")}
	c := clusterOf(t, fake)
	node, err := c.NodeOf(t.Context(), "x/web")
	require.NoError(t, err)
	require.Equal(t, "win-1", node)
	_, err = c.NodeOf(t.Context(), "x/new")
	require.EqualError(t, err, "x/new is on no node yet: kubectl -n x describe pod new says why")
	_, err = c.NodeOf(t.Context(), "x/old")
	require.EqualError(t, err, `there is no pod x/old in the cluster`)

	fake.Forbidden = []string{"get pods"}
	_, err = c.NodeOf(t.Context(), "x/web")
	require.EqualError(t, err, `looking for the node of x/web: pods is forbidden: nobody may get them; deploy/trace has the rights that it takes`)
}

func testFind(t *testing.T) {
	born := func(second int) func(*corev1.Pod) {
		return func(p *corev1.Pod) { p.CreationTimestamp = metav1.Unix(int64(second), 0) }
	}
	phase := func(phase corev1.PodPhase) func(*corev1.Pod) {
		return func(p *corev1.Pod) { p.Status.Phase = phase }
	}
	unready := func(p *corev1.Pod) { p.Status.Conditions[0].Status = corev1.ConditionFalse }
	port := func(text string) func(*corev1.Pod) {
		return func(p *corev1.Pod) { p.Annotations = map[string]string{agents.PortAnnotation: text} }
	}
	agent := func(name string, port uint16, ready bool) agents.Agent {
		return agents.Agent{Node: "win-1", Namespace: "kube-system", Name: name, Port: port, Ready: ready}
	}
	for _, tc := range []struct {
		name string
		pods []corev1.Pod
		want agents.Agent
		err  string
	}{
		{"one", []corev1.Pod{agentOn("a", "win-1"), agentOn("b", "win-2")}, agent("a", 10091, true), ""},
		{"the newest", []corev1.Pod{agentOn("a", "win-1", born(1)), agentOn("b", "win-1", born(2))}, agent("b", 10091, true), ""},
		{"the newest that runs", []corev1.Pod{agentOn("a", "win-1", born(1)), agentOn("b", "win-1", born(2), phase("Pending"))}, agent("a", 10091, true), ""},
		{"of one age", []corev1.Pod{agentOn("b", "win-1"), agentOn("a", "win-1")}, agent("a", 10091, true), ""},
		{"not ready", []corev1.Pod{agentOn("a", "win-1", unready)}, agent("a", 10091, false), ""},
		{"another port", []corev1.Pod{agentOn("a", "win-1", port("8"))}, agent("a", 8, true), ""},
		{"a wrong port", []corev1.Pod{agentOn("a", "win-1", port("65536"))}, agent("a", 10091, true), ""},
		{
			"none", []corev1.Pod{agentOn("b", "win-2"), podOn("kube-system", "c", "win-1"), podOn("x", "d", "win-1")},
			agents.Agent{}, "no agent on node win-1",
		},
		{
			"Azure NPM for Linux", []corev1.Pod{
				agentOn("a", "win-1", func(p *corev1.Pod) { p.Spec.OS.Name = corev1.Linux }),
				agentOn("b", "win-1", func(p *corev1.Pod) {
					p.Spec.OS, p.Spec.NodeSelector = nil, map[string]string{"kubernetes.io/os": "linux"}
				}),
			},
			agents.Agent{}, "no agent on node win-1",
		},
		{
			"none runs", []corev1.Pod{agentOn("a", "win-1", born(2), phase("Pending")), agentOn("b", "win-1", born(1), phase(""))},
			agents.Agent{}, "the agent kube-system/a on node win-1 does not run (Pending): kubectl -n kube-system describe pod a says why",
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			fake := newAPIServer(t)
			fake.Pods = tc.pods
			got, err := clusterOf(t, fake).Find(t.Context(), "win-1")
			if tc.err != "" {
				require.EqualError(t, err, tc.err)
				require.Equal(t, strings.HasPrefix(tc.err, "no agent"), errors.Is(err, agents.ErrNoAgent))
				return
			}
			require.NoError(t, err)
			require.Equal(t, tc.want, got)
			require.Equal(t, []string{"list kube-system win-1"}, fake.Calls())
		})
	}
	fake := newAPIServer(t)
	fake.Forbidden = []string{"list pods"}
	_, err := clusterOf(t, fake).Find(t.Context(), "win-1")
	require.EqualError(t, err, "looking for the agent on node win-1: pods is forbidden: nobody may list them; deploy/trace has the rights that it takes")
}

// page is what the tests' agent answers: too large for one frame.
var page = strings.Repeat("0123456789abcdef", 1<<16)

// forwarded asks an agent through a fake cluster.
func forwarded(t *testing.T, change func(*apiServer)) (body string, calls []string, err error) {
	t.Helper()
	backend := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Host != "127.0.0.1:10091" || r.URL.Path != "/x" {
			t.Errorf("asked for %s of %s", r.URL.Path, r.Host)
		}
		_, _ = io.WriteString(w, page)
	}))
	t.Cleanup(backend.Close)
	fake := newAPIServer(t)
	fake.Pods = []corev1.Pod{agentOn("a", "win-1")}
	fake.Backends["kube-system/a:10091"] = backend.Listener.Addr().String()
	change(fake)
	agent := agents.Agent{Node: "win-1", Namespace: "kube-system", Name: "a", Port: 10091}
	// The end of the body ends the connection, not that of a context.
	req, err := http.NewRequestWithContext(context.WithoutCancel(t.Context()), http.MethodGet, "http://127.0.0.1:10091/x", nil)
	require.NoError(t, err)
	resp, err := clusterOf(t, fake).Transport(agent).RoundTrip(req)
	if err != nil {
		return "", fake.Calls(), err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	return string(text), fake.Calls(), err
}

func testForward(t *testing.T) {
	const address = "kube-system/a:10091"
	for _, tc := range []struct {
		name   string
		change func(*apiServer)
		calls  []string
		err    string // "" for the page
	}{
		{"WebSocket", func(*apiServer) {}, []string{"websocket " + address}, ""},
		{"an older API server", func(c *apiServer) { c.NoWebSocket = true }, []string{"spdy " + address}, ""},
		{
			"the right to SPDY only", func(c *apiServer) { c.Forbidden = []string{"get pods/portforward"} },
			[]string{"spdy " + address}, "",
		},
		{
			"no right", func(c *apiServer) { c.Forbidden = []string{"get pods/portforward", "create pods/portforward"} },
			nil, "port-forward to kube-system/a: unable to upgrade connection: pods/portforward is forbidden: nobody may create them",
		},
		{
			"an older API server and no right", func(c *apiServer) { c.NoWebSocket, c.Forbidden = true, []string{"create pods/portforward"} },
			nil, "port-forward to kube-system/a: unable to upgrade connection: pods/portforward is forbidden: nobody may create them",
		},
		{"the pod has gone", func(c *apiServer) { c.Pods = nil }, nil, `port-forward to kube-system/a: unable to upgrade connection: pods "a" not found`},
		{
			"nobody listens", func(c *apiServer) { clear(c.Backends) },
			[]string{"websocket " + address}, "port-forward to kube-system/a: connect to kube-system/a:10091: connection refused",
		},
		{
			"nobody listens, by SPDY", func(c *apiServer) { clear(c.Backends); c.NoWebSocket = true },
			[]string{"spdy " + address}, "port-forward to kube-system/a: connect to kube-system/a:10091: connection refused",
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			body, calls, err := forwarded(t, tc.change)
			require.Equal(t, tc.calls, calls)
			if tc.err != "" {
				require.EqualError(t, err, tc.err)
				return
			}
			require.NoError(t, err)
			require.Equal(t, page, body)
		})
	}
}

// An agent that goes in the middle of its answer is an error, not a short answer.
func testForwardIsCut(t *testing.T) {
	backend := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, page)
		panic(http.ErrAbortHandler)
	}))
	t.Cleanup(backend.Close)
	_, _, err := forwarded(t, func(c *apiServer) {
		c.Backends["kube-system/a:10091"] = backend.Listener.Addr().String()
	})
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
}

// A request ends with its context, also while the agent is silent.
func testForwardEndsWithContext(t *testing.T) {
	asked := make(chan struct{})
	backend := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		close(asked)
		<-r.Context().Done()
	}))
	t.Cleanup(backend.Close)
	fake := newAPIServer(t)
	fake.Pods = []corev1.Pod{agentOn("a", "win-1")}
	fake.Backends["kube-system/a:10091"] = backend.Listener.Addr().String()
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	go func() {
		<-asked
		cancel(iotest.ErrTimeout)
	}()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://127.0.0.1/", nil)
	require.NoError(t, err)
	began := time.Now()
	resp, err := clusterOf(t, fake).Transport(agents.Agent{Namespace: "kube-system", Name: "a", Port: 10091}).RoundTrip(req)
	if err == nil {
		_ = resp.Body.Close()
	}
	require.ErrorIs(t, err, iotest.ErrTimeout)
	require.Less(t, time.Since(began), 20*time.Second)
}

// endless answers every request with bytes that never end.
func endless(t *testing.T, head string) *httptest.Server {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return
		}
		defer conn.Close()
		_, err = io.WriteString(conn, head)
		for part := strings.Repeat("x", 64<<10); err == nil; {
			_, err = io.WriteString(conn, part)
		}
	}))
	t.Cleanup(server.Close)
	return server
}

// An agent does not fill the memory of who asks.
func testEndlessAnswers(t *testing.T) {
	_, _, err := forwarded(t, func(c *apiServer) {
		c.Backends["kube-system/a:10091"] = endless(t, "HTTP/1.1 200 OK\r\nX: ").Listener.Addr().String()
	})
	require.EqualError(t, err, "port-forward to kube-system/a: the headers of the answer are longer than 65536 bytes: this is no agent")
}
