package controllers

import (
	"encoding/pem"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/client-go/rest"
)

// A HostProcess container has its credentials below a mount point.
func TestHostProcessCredentials(t *testing.T) {
	var token string // of the last request
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		token = r.Header.Get("Authorization")
		_, _ = io.WriteString(w, "hello")
	}))
	defer server.Close()
	at, err := url.Parse(server.URL)
	require.NoError(t, err)
	t.Setenv("KUBERNETES_SERVICE_HOST", at.Hostname())
	t.Setenv("KUBERNETES_SERVICE_PORT", at.Port())
	root := t.TempDir()
	t.Setenv(mountPointEnv, root)
	dir := filepath.Join(root, "var", "run", "secrets", "kubernetes.io", "serviceaccount")
	require.NoError(t, os.MkdirAll(dir, 0o700))
	tokenFile, caFile := filepath.Join(dir, "token"), filepath.Join(dir, "ca.crt")
	write := func(file, text string) { require.NoError(t, os.WriteFile(file, []byte(text), 0o600)) }
	write(tokenFile, "first")

	_, err = RESTConfig("")
	require.ErrorIs(t, err, os.ErrNotExist, "no certificate, no trust")
	require.ErrorContains(t, err, caFile)
	write(caFile, "none")
	_, err = RESTConfig("")
	require.ErrorContains(t, err, "no kubeconfig given and not in a cluster: ")
	write(caFile, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})))

	cfg, err := RESTConfig("")
	require.NoError(t, err)
	require.Equal(t, "https://"+at.Host, cfg.Host)
	require.Equal(t, "first", cfg.BearerToken)
	write(tokenFile, "second") // as the kubelet does when the first one is about to end
	client, err := rest.HTTPClientFor(cfg)
	require.NoError(t, err)
	defer client.CloseIdleConnections()
	resp, err := client.Get(cfg.Host)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.Equal(t, "Bearer second", token)

	t.Setenv("KUBERNETES_SERVICE_PORT", "")
	_, err = RESTConfig("")
	require.ErrorIs(t, err, rest.ErrNotInCluster)
}

// Newer versions of containerd put the files where every pod has them.
func TestHostProcessCredentialsElsewhere(t *testing.T) {
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	t.Setenv(mountPointEnv, t.TempDir())
	_, err := RESTConfig("")
	require.EqualError(t, err, "no kubeconfig given and not in a cluster: "+rest.ErrNotInCluster.Error())
}
