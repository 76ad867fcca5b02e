package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestCompletion: shells complete contexts, namespaces, pods and policies of the cluster, and
// nothing when the cluster does not answer.
func TestCompletion(t *testing.T) {
	names := map[string]string{
		"/api/v1/namespaces":                                             "shop",
		"/api/v1/namespaces/shop/pods":                                   "web-0",
		"/api/v1/namespaces/back/pods":                                   "db-0",
		"/apis/networking.k8s.io/v1/namespaces/shop/networkpolicies":     "default-deny",
		"/apis/networking.k8s.io/v1/namespaces/kube-sys/networkpolicies": "other",
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name, ok := names[r.URL.Path]
		if !ok {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"apiVersion":"meta.k8s.io/v1","kind":"PartialObjectMetadataList","metadata":{},"items":[{"metadata":{"name":"`+name+`"}}]}`)
	}))
	defer server.Close()
	kubeconfig := filepath.Join(t.TempDir(), "config")
	require.NoError(t, os.WriteFile(kubeconfig, []byte(`{apiVersion: v1, kind: Config, current-context: prod,
		contexts: [{name: prod, context: {cluster: a, namespace: shop}}, {name: dev, context: {cluster: a}}],
		clusters: [{name: a, cluster: {server: "`+server.URL+`"}}]}`), 0o600))
	t.Setenv("KUBECONFIG", kubeconfig)
	for _, tc := range []struct {
		args []string
		want string
	}{
		{[]string{"trace", ""}, "web-0"},
		{[]string{"trace", "back/"}, "back/db-0"},
		{[]string{"trace", "-n", "back", ""}, "db-0"},
		{[]string{"trace", "-n", ""}, "shop"},
		{[]string{"check", ""}, "default-deny"},
		{[]string{"check", "kube-sys/"}, "kube-sys/other"},
		{[]string{"status", "--context", ""}, "dev\nprod"},
		{[]string{"check", "gone/"}, ""},
	} {
		code, stdout, _ := command(t, "", append([]string{"__complete"}, tc.args...)...)
		require.Zero(t, code)
		got, _, _ := strings.Cut(stdout, ":4\n") // the directive: no names of files
		require.Equal(t, tc.want, strings.TrimSpace(got), tc.args)
	}
}
