package windows

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/winnpm/winnpm/test/servers"
)

var (
	serversFlag    = flag.String("servers", "", "`program` apiserver-up, an API server: tests of the agent start it")
	kubeconfigFlag = flag.String("kubeconfig", "", "`file` of an API server that nobody needs, in place of -servers")
)

// api is an API server.
type api struct {
	*servers.Client
	kubeconfig string
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
	client, err := servers.NewClient(file)
	require.NoError(t, err)
	return &api{client, file}
}

// do makes a request that must succeed, with a body of JSON.
func (a *api) do(t *testing.T, method, path, body string) {
	t.Helper()
	// Also in a cleanup, when the test's own context has ended.
	require.NoError(t, a.Do(context.WithoutCancel(t.Context()), method, path, json.RawMessage(body), nil))
}

// create makes an object and takes it away when the test ends.
func (a *api) create(t *testing.T, path, name, body string) {
	t.Helper()
	a.do(t, http.MethodPost, path, body)
	t.Cleanup(func() { a.remove(t, path+"/"+name) })
}

// remove deletes an object that may be gone.
func (a *api) remove(t *testing.T, path string) {
	t.Helper()
	require.NoError(t, a.Remove(context.WithoutCancel(t.Context()), path))
}

// Places of objects. The suite's namespace is one that every cluster has: nothing has to end it.
const (
	nodesPath    = "/api/v1/nodes"
	podsPath     = "/api/v1/namespaces/default/pods"
	accountsPath = "/api/v1/namespaces/default/serviceaccounts"
	policiesPath = "/apis/networking.k8s.io/v1/namespaces/default/networkpolicies"
)

// cluster makes a node and pods on it, by name with their addresses. Each has its name as label app.
func (a *api) cluster(t *testing.T, gateway string, pods map[string]string) {
	t.Helper()
	a.create(t, nodesPath, nodeName, fmt.Sprintf(`{"metadata":{"name":%q}}`, nodeName))
	a.do(t, http.MethodPatch, nodesPath+"/"+nodeName+"/status", fmt.Sprintf(`{"status":{"addresses":[{"type":"InternalIP","address":%q}]}}`, gateway))
	a.create(t, accountsPath, "default", `{"metadata":{"name":"default"}}`)
	for name, addr := range pods {
		a.create(t, podsPath, name, fmt.Sprintf(`{"metadata":{"name":%q,"labels":{"app":%q}},"spec":{"nodeName":%q,"containers":[{"name":"c","image":"none"}]}}`, name, name, nodeName))
		a.do(t, http.MethodPatch, podsPath+"/"+name+"/status", fmt.Sprintf(`{"status":{"phase":"Running","podIP":%q,"podIPs":[{"ip":%q}]}}`, addr, addr))
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
