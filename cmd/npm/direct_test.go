package main

import (
	"crypto/tls"
	"encoding/pem"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/winnpm/winnpm/pkg/agents/agentstest"
	"github.com/winnpm/winnpm/pkg/debug/access"
	"github.com/winnpm/winnpm/pkg/simulate"
	"github.com/winnpm/winnpm/pkg/state"
)

// With --direct an agent is asked at its node, with the token of the kubeconfig, which nobody
// sees who has no certificate for the node's name.
func TestDirect(t *testing.T) {
	if !inOwnProcess(t) {
		return
	}
	certificate, _, err := access.SelfSigned("win-1")
	require.NoError(t, err)
	shown, err := certificate(nil)
	require.NoError(t, err)
	authority := filepath.Join(t.TempDir(), "ca.crt")
	require.NoError(t, os.WriteFile(authority, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: shown.Certificate[0]}), 0o600))
	tokens := []string{}
	pages := answering(func() state.Dump { return state.Dump{Node: "win-1"} }, nil)
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		tokens = append(tokens, r.Header.Get("Authorization"))
		if r.Header.Get("Authorization") != "Bearer secret" {
			http.Error(w, "who are you?", http.StatusUnauthorized)
			return
		}
		pages.ServeHTTP(w, r)
	}))
	server.TLS = &tls.Config{GetCertificate: certificate, MinVersion: tls.VersionTLS12}
	server.StartTLS()
	t.Cleanup(server.Close)
	_, port, err := net.SplitHostPort(server.Listener.Addr().String())
	require.NoError(t, err)

	fake := agentstest.New(t)
	at := func(node string) {
		fake.Pods = []corev1.Pod{agentstest.Agent("npm-win-1", node, func(p *corev1.Pod) { p.Status.HostIP = "127.0.0.1" })}
	}
	config, err := os.ReadFile(fake.Kubeconfig)
	require.NoError(t, err)
	// A kubeconfig shows its token to HTTPS alone.
	_, api, _ := strings.Cut(string(config), `server: "`)
	api, _, _ = strings.Cut(api, `"`)
	plain, err := url.Parse(api)
	require.NoError(t, err)
	secure := httptest.NewTLSServer(httputil.NewSingleHostReverseProxy(plain))
	t.Cleanup(secure.Close)
	text := strings.NewReplacer("context: {cluster: a", "context: {user: u, cluster: a", api+`"`, secure.URL+`", insecure-skip-tls-verify: true`,
		"apiVersion: v1,", "apiVersion: v1, users: [{name: u, user: {token: secret}}],").Replace(string(config))
	require.NoError(t, os.WriteFile(fake.Kubeconfig, []byte(text), 0o600))
	t.Setenv("KUBECONFIG", fake.Kubeconfig)

	at("win-1")
	code, stdout, stderr := plugin(t, "status", "--direct", "--agent-ca", authority, "--agent-port", port)
	require.Equal(t, 0, code, stdout+stderr)
	require.Contains(t, stdout, "\nwin-1  ready  v1.2.3 ")
	for _, call := range fake.Calls() {
		require.NotContains(t, call, "websocket", "no port-forward")
	}

	tokens = nil
	at("win-2")
	code, stdout, _ = plugin(t, "status", "--direct", "--agent-ca", authority, "--agent-port", port)
	require.Equal(t, exitUnknown, code)
	require.Contains(t, stdout, "certificate is valid for win-1, localhost, not win-2")
	require.Empty(t, tokens, "the token is for the node alone")

	code, _, stderr = plugin(t, "status", "--direct")
	require.Equal(t, simulate.ExitUsage, code)
	require.Contains(t, stderr, "give --agent-ca FILE with the authority of the agents' certificates")
	code, _, stderr = plugin(t, "trace", "x/a", "x/b:80", "--direct", "--agent-ca", "none")
	require.Equal(t, exitNoDump, code)
	require.Contains(t, stderr, "none: no such file")
}
