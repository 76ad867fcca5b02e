package controllers

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/winnpm/winnpm/pkg/desired"
)

// webServer answers lists over HTTP and keeps watches open.
type webServer struct {
	mu    sync.Mutex // guards following
	paths map[string]string
}

func (s *webServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if answersNoKind(w, r) {
		return
	}
	s.mu.Lock()
	s.paths[r.URL.Path] = r.URL.Query().Get("fieldSelector")
	s.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	if r.URL.Query().Get("watch") != "" {
		w.WriteHeader(http.StatusOK)
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
		return
	}
	list := metav1.ListMeta{ResourceVersion: "7"}
	var answer any
	switch r.URL.Path {
	case "/api/v1/pods":
		answer = corev1.PodList{TypeMeta: kind("v1", "PodList"), ListMeta: list, Items: []corev1.Pod{*newPod("a", "10.0.0.1")}}
	case "/api/v1/namespaces":
		answer = corev1.NamespaceList{TypeMeta: kind("v1", "NamespaceList"), ListMeta: list, Items: []corev1.Namespace{{ObjectMeta: metav1.ObjectMeta{Name: "x"}}}}
	case "/api/v1/nodes":
		answer = corev1.NodeList{TypeMeta: kind("v1", "NodeList"), ListMeta: list, Items: []corev1.Node{*newNode("n1", "10.9.0.1")}}
	case "/apis/networking.k8s.io/v1/networkpolicies":
		answer = networkingv1.NetworkPolicyList{TypeMeta: kind("networking.k8s.io/v1", "NetworkPolicyList"), ListMeta: list, Items: []networkingv1.NetworkPolicy{{ObjectMeta: metav1.ObjectMeta{Namespace: "x", Name: "deny"}}}}
	default:
		http.NotFound(w, r)
		return
	}
	_ = json.NewEncoder(w).Encode(answer)
}

func kind(apiVersion, name string) metav1.TypeMeta {
	return metav1.TypeMeta{APIVersion: apiVersion, Kind: name}
}

func writeKubeconfig(t *testing.T, server string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "config")
	text := `{apiVersion: v1, kind: Config, current-context: a, contexts: [{name: a, context: {cluster: a, user: a}}],
  users: [{name: a, user: {token: secret}}], clusters: [{name: a, cluster: {server: "` + server + `"}}]}`
	require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	return file
}

func TestClusterSource(t *testing.T) {
	for node, selector := range map[string]string{"n1": "metadata.name=n1", "": ""} {
		web := &webServer{paths: map[string]string{}}
		server := httptest.NewServer(web)
		cfg, err := RESTConfig(writeKubeconfig(t, server.URL))
		require.NoError(t, err)
		source, err := ClusterSource(cfg, node)
		require.NoError(t, err)

		r := &recorder{}
		agent := Config{Source: source, Applier: r, Node: node}
		applied := firstApplied(&agent)
		c := New(agent)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			c.Run(ctx)
		}()
		<-applied
		require.NoError(t, c.Ready())
		cancel()
		<-done
		server.CloseClientConnections()
		server.Close()

		calls := r.calls()
		require.Len(t, calls, 1)
		require.Equal(t, 4, calls[0].len)
		require.NotNil(t, calls[0].pods[desired.PodKey{Namespace: "x", Name: "a"}])
		require.Equal(t, map[string]string{
			"/api/v1/pods": "", "/api/v1/namespaces": "", "/apis/networking.k8s.io/v1/networkpolicies": "", "/api/v1/nodes": selector,
		}, web.paths)
	}
}

func TestRESTConfigErrors(t *testing.T) {
	dir := t.TempDir()
	empty, broken := filepath.Join(dir, "empty"), filepath.Join(dir, "broken")
	require.NoError(t, os.WriteFile(empty, nil, 0o600))
	require.NoError(t, os.WriteFile(broken, []byte("a: ["), 0o600))
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	for file, want := range map[string]string{
		dir + "/none": "kubeconfig " + dir + "/none: stat " + dir + "/none: no such file or directory",
		empty:         "kubeconfig " + empty + ": names no cluster; check its current-context",
		broken:        "kubeconfig " + broken + `: error loading config file "` + broken + `": yaml: line 1: did not find expected node content`,
		"":            "no kubeconfig given and not in a cluster: unable to load in-cluster configuration, KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT must be defined",
	} {
		_, err := RESTConfig(file)
		require.EqualError(t, err, want)
	}
}
