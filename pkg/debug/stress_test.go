package debug

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"net"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	authenticationv1 "k8s.io/api/authentication/v1"
	"k8s.io/klog/v2"

	"github.com/winnpm/winnpm/pkg/controllers"
	"github.com/winnpm/winnpm/pkg/dataplane"
	"github.com/winnpm/winnpm/pkg/debug/access"
	"github.com/winnpm/winnpm/pkg/metrics"
)

// anybody is an API server that lets everybody see everything.
type anybody struct{}

func (anybody) ClientCAs(context.Context) ([]byte, error) { return nil, nil }

func (anybody) Authenticate(_ context.Context, token string) (authenticationv1.UserInfo, bool, error) {
	return authenticationv1.UserInfo{Username: token}, true, nil
}

func (anybody) Authorize(context.Context, authenticationv1.UserInfo, string) (bool, error) {
	return true, nil
}

// endpoint is a running one.
type endpoint struct {
	url    string
	client *http.Client
}

// both serves pages on this machine, without encryption and with it.
func both(t *testing.T, cfg Config) [2]endpoint {
	t.Helper()
	plain, guarded := Handlers(cfg, access.New(anybody{}, klog.Logger{}).Page)
	certificate, _, err := access.SelfSigned("n1")
	require.NoError(t, err)
	own, err := certificate(nil)
	require.NoError(t, err)
	roots := x509.NewCertPool()
	roots.AddCert(own.Leaf)
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, ServerName: "n1", MinVersion: tls.VersionTLS12}}
	t.Cleanup(transport.CloseIdleConnections)
	client := &http.Client{Transport: transport}

	listen := func() net.Listener {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		return l
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 2)
	clear, encrypted := listen(), listen()
	go func() { ended <- Serve(ctx, clear, plain) }()
	go func() { ended <- ServeTLS(ctx, encrypted, certificate, guarded) }()
	t.Cleanup(func() {
		cancel()
		require.NoError(t, <-ended)
		require.NoError(t, <-ended)
	})
	return [2]endpoint{{"http://" + clear.Addr().String(), client}, {"https://" + encrypted.Addr().String(), client}}
}

func (e endpoint) get(t *testing.T, path string, use func(code int, body io.Reader)) {
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, e.url+path, nil)
	if err != nil {
		t.Error(err)
		return
	}
	req.Header.Set("Authorization", "Bearer t")
	resp, err := e.client.Do(req)
	if err != nil {
		t.Error(err)
		return
	}
	defer resp.Body.Close()
	use(resp.StatusCode, resp.Body)
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		t.Error(err)
	}
}

// Many clients ask for every page, on both listeners, while transactions run and
// one client does not read: every answer is whole or 503, and transactions go on.
func TestPagesWhileTransactionsRun(t *testing.T) {
	dp, change := cluster(t, 100)
	m := metrics.New(metrics.Options{
		Stats: dp.Stats, Staleness: func() map[controllers.Kind]time.Duration { return map[controllers.Kind]time.Duration{} }, Now: time.Now,
	})
	at := both(t, Config{
		Dump: dp.Dump, Healthy: fine, Ready: fine, Pprof: true, NodeMetrics: m.Node(), ClusterMetrics: m.Cluster(), PublicClusterMetrics: m.PublicCluster(),
	})

	slow, err := net.Dial("tcp", at[0].url[len("http://"):])
	require.NoError(t, err)
	defer slow.Close()
	require.NoError(t, slow.(*net.TCPConn).SetReadBuffer(1))
	_, err = io.WriteString(slow, "GET "+ManagerPath+" HTTP/1.1\r\nHost: localhost\r\n\r\n")
	require.NoError(t, err)

	paths := slices.Concat(open, []string{ManagerPath, "/debug/pprof/", "/debug/pprof/heap?debug=1", "/debug/pprof/goroutine?debug=2", "/debug/pprof/cmdline"})
	var clients sync.WaitGroup
	var whole, busy atomic.Int64
	for i := range 8 {
		clients.Go(func() {
			for _, path := range slices.Repeat(paths, 2) {
				at[i%2].get(t, path, func(code int, body io.Reader) {
					switch {
					case code == http.StatusServiceUnavailable && !slices.Contains([]string{"/healthz", "/readyz"}, path):
						busy.Add(1)
					case code != http.StatusOK:
						t.Errorf("%s: %d", path, code)
					case path == ManagerPath:
						d, err := ReadManager(body)
						if err != nil || len(d.Pods) != 100 {
							t.Errorf("%d pods, %v", len(d.Pods), err)
						}
						whole.Add(1)
					}
				})
			}
		})
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		clients.Wait()
	}()
	transactions := 0
	for running := true; running; transactions++ {
		change(transactions % 100)
		select {
		case <-done:
			running = false
		default:
		}
	}
	t.Logf("%d transactions, %d dumps, %d times busy", transactions, whole.Load(), busy.Load())
	require.Positive(t, whole.Load())
	require.Greater(t, transactions, 10)
	require.EqualValues(t, transactions+1, generation(dp))
}

func generation(dp *dataplane.Dataplane) uint64 {
	reports := dp.Dump().Reports
	return uint64(reports[len(reports)-1].Generation)
}

// The encrypted listener speaks TLS 1.2 and later, and nothing else.
func TestEncryption(t *testing.T) {
	at := both(t, pages())[1]
	at.get(t, ManagerPath, func(code int, _ io.Reader) { require.Equal(t, http.StatusOK, code) })
	address := at.url[len("https://"):]
	for version, want := range map[uint16]bool{tls.VersionTLS11: false, tls.VersionTLS12: true, tls.VersionTLS13: true} {
		c, err := tls.Dial("tcp", address, &tls.Config{InsecureSkipVerify: true, MinVersion: version, MaxVersion: version, NextProtos: []string{"h2", "http/1.1"}})
		require.Equal(t, want, err == nil, "%x: %v", version, err)
		if err == nil {
			require.Empty(t, c.ConnectionState().NegotiatedProtocol, "HTTP/2 would have its own limits")
			require.NoError(t, c.Close())
		}
	}
	resp, err := at.client.Get("http://" + address + ManagerPath)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.Equal(t, http.StatusBadRequest, resp.StatusCode)
}

// A connection that is being answered keeps its place under encryption too.
func TestBusyUnderEncryption(t *testing.T) {
	seen := make(chan bool, 2)
	look := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		c, ok := r.Context().Value(connKey{}).(*conn)
		if ok {
			c.crowd.mu.Lock()
			defer c.crowd.mu.Unlock()
		}
		seen <- ok && c.busy
	})
	for _, e := range both(t, Config{Healthy: fine, Ready: fine, Pages: []Page{{Path: "/look", Handler: look}}}) {
		e.get(t, "/look", func(code int, _ io.Reader) { require.Equal(t, http.StatusOK, code) })
		require.True(t, <-seen, e.url)
	}
}
