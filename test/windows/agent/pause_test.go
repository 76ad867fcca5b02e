//go:build linux

package agent

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/client-go/rest"

	"github.com/winnpm/winnpm/pkg/controllers"
)

// A proxy before the API server answers the first watch of policies with 429 and asks for a pause
// of an hour. The policies are in force a minute later.
func TestOneWatchIsToPauseForAnHour(t *testing.T) {
	p := begin(t)
	h := newHost(t, azure())
	w := shop(t, h)

	cluster, err := controllers.RESTConfig(p.kubeconfig)
	require.NoError(t, err)
	server, err := url.Parse(cluster.Host)
	require.NoError(t, err)
	proxy := httputil.NewSingleHostReverseProxy(server)
	proxy.FlushInterval = -1 // events of watches
	proxy.Transport, err = rest.TransportFor(cluster)
	require.NoError(t, err)
	var paused atomic.Bool
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/apis/networking.k8s.io/v1/networkpolicies" && r.URL.Query().Has("watch") && paused.CompareAndSwap(false, true) {
			w.Header().Set("Retry-After", "3600")
			w.WriteHeader(http.StatusTooManyRequests)
			return
		}
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(web.Close)
	t.Cleanup(web.CloseClientConnections)
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	require.NoError(t, os.WriteFile(kubeconfig, fmt.Appendf(nil,
		`{apiVersion: v1, kind: Config, current-context: a, contexts: [{name: a, context: {cluster: a}}], clusters: [{name: a, cluster: {server: %q}}]}`, web.URL), 0o600))

	const pause = 30 * time.Second
	n := start(t, ownNode, h.addr, options{flags: []string{"--kubeconfig", windowsPath(kubeconfig)}})
	eventually(t, pause+settle, func() string { return n.check("/readyz") })
	require.True(t, paused.Load())
	h.waitVerdicts(w.kube, ownAddr)
}
