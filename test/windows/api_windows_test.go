package windows

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"

	"github.com/winnpm/winnpm/test/servers"
)

var (
	serversFlag    = flag.String("servers", "", "`program` apiserver-up, an API server: tests of the agent start it")
	kubeconfigFlag = flag.String("kubeconfig", "", "`file` of an API server that nobody needs, in place of -servers")
)

// api is an API server, asked with JSON: nothing of client-go gets into this program.
type api struct {
	kubeconfig, server, token string
	client                    *http.Client
}

// newAPI starts an API server, or takes the one that it is told. Without either the test is
// not for this run.
func newAPI(t *testing.T) *api {
	t.Helper()
	file := *kubeconfigFlag
	switch {
	case file != "":
	case *serversFlag != "":
		kubeconfig, stop, err := servers.Start(*serversFlag)
		require.NoError(t, err)
		t.Cleanup(stop)
		file = kubeconfig
	default:
		t.Skip("an agent needs an API server: -servers or -kubeconfig (docs/windows.md)")
	}
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	var config struct {
		Clusters []struct {
			Cluster struct {
				Server string `json:"server"`
				CA     []byte `json:"certificate-authority-data"`
			} `json:"cluster"`
		} `json:"clusters"`
		Users []struct {
			User struct {
				Token string `json:"token"`
			} `json:"user"`
		} `json:"users"`
	}
	require.NoError(t, yaml.Unmarshal(text, &config))
	require.Len(t, config.Clusters, 1)
	require.Len(t, config.Users, 1)
	roots := x509.NewCertPool()
	require.True(t, roots.AppendCertsFromPEM(config.Clusters[0].Cluster.CA))
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}}
	t.Cleanup(transport.CloseIdleConnections)
	return &api{
		kubeconfig: file, server: config.Clusters[0].Cluster.Server, token: config.Users[0].User.Token,
		client: &http.Client{Transport: transport, Timeout: time.Minute},
	}
}

// do makes a request that must succeed.
func (a *api) do(t *testing.T, method, path, kind, body string) {
	t.Helper()
	// Also in a cleanup, when the test's own context has ended.
	request, err := http.NewRequestWithContext(context.WithoutCancel(t.Context()), method, a.server+path, bytes.NewReader([]byte(body)))
	require.NoError(t, err)
	request.Header.Set("Authorization", "Bearer "+a.token)
	request.Header.Set("Content-Type", kind)
	answer, err := a.client.Do(request)
	require.NoError(t, err)
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	require.NoError(t, err)
	require.Less(t, answer.StatusCode, 300, "%s %s: %s", method, path, text)
}

// create makes an object and takes it away when the test ends.
func (a *api) create(t *testing.T, path, name, body string) {
	t.Helper()
	a.do(t, http.MethodPost, path, "application/json", body)
	t.Cleanup(func() { a.remove(t, path+"/"+name) })
}

// remove deletes an object that may be gone, as no kubelet does it.
func (a *api) remove(t *testing.T, path string) {
	t.Helper()
	request, err := http.NewRequestWithContext(context.WithoutCancel(t.Context()), http.MethodDelete, a.server+path+"?gracePeriodSeconds=0", nil)
	require.NoError(t, err)
	request.Header.Set("Authorization", "Bearer "+a.token)
	answer, err := a.client.Do(request)
	require.NoError(t, err)
	defer answer.Body.Close()
	require.Contains(t, []int{http.StatusOK, http.StatusAccepted, http.StatusNotFound}, answer.StatusCode, path)
}

// Places of objects. The suite's namespace is one that every cluster has: nothing has to end it.
const (
	nodesPath    = "/api/v1/nodes"
	podsPath     = "/api/v1/namespaces/default/pods"
	accountsPath = "/api/v1/namespaces/default/serviceaccounts"
	policiesPath = "/apis/networking.k8s.io/v1/namespaces/default/networkpolicies"
	mergePatch   = "application/merge-patch+json"
)

// cluster makes a node and pods on it, by name with their addresses. Each has its name as label app.
func (a *api) cluster(t *testing.T, gateway string, pods map[string]string) {
	t.Helper()
	a.create(t, nodesPath, nodeName, fmt.Sprintf(`{"metadata":{"name":%q}}`, nodeName))
	a.do(t, http.MethodPatch, nodesPath+"/"+nodeName+"/status", mergePatch, fmt.Sprintf(`{"status":{"addresses":[{"type":"InternalIP","address":%q}]}}`, gateway))
	a.create(t, accountsPath, "default", `{"metadata":{"name":"default"}}`)
	for name, addr := range pods {
		a.create(t, podsPath, name, fmt.Sprintf(`{"metadata":{"name":%q,"labels":{"app":%q}},"spec":{"nodeName":%q,"containers":[{"name":"c","image":"none"}]}}`, name, name, nodeName))
		a.do(t, http.MethodPatch, podsPath+"/"+name+"/status", mergePatch, fmt.Sprintf(`{"status":{"phase":"Running","podIP":%q,"podIPs":[{"ip":%q}]}}`, addr, addr))
	}
}

// onlyClient is the peer of a policy that lets client in.
const onlyClient = `{"podSelector":{"matchLabels":{"app":"client"}}}`

// isolate makes the policy by which a peer alone reaches server, on one port.
func (a *api) isolate(t *testing.T, peer string, port int) {
	t.Helper()
	a.create(t, policiesPath, "server", fmt.Sprintf(`{"metadata":{"name":"server"},"spec":{"podSelector":{"matchLabels":{"app":"server"}},`+
		`"ingress":[{"from":[%s],"ports":[{"port":%d}]}]}}`, peer, port))
}
