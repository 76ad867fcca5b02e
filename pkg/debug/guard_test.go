package debug

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/winnpm/winnpm/pkg/state"
)

const (
	here  = "127.0.0.1:51234" // a client's address
	there = "10.1.2.3:51234"
)

// answer is what a request from an address, to a host name, gets.
func answer(ctx context.Context, h http.Handler, method, path, from, host string) *httptest.ResponseRecorder {
	req := httptest.NewRequestWithContext(ctx, method, path, nil)
	req.RemoteAddr, req.Host = from, host
	rec := httptest.NewRecorder()
	h.ServeHTTP(rec, req)
	return rec
}

func ask(t *testing.T, h http.Handler, path, from, host string) (int, string) {
	t.Helper()
	rec := answer(t.Context(), h, http.MethodGet, path, from, host)
	return rec.Code, rec.Body.String()
}

func page(text string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, text) })
}

func pages() Config {
	return Config{
		Dump: func() state.Dump { return state.Dump{Node: "n1"} }, Healthy: fine, Ready: fine,
		NodeMetrics: page("node"), ClusterMetrics: page("cluster"), PublicClusterMetrics: page("cluster"), Pprof: true,
		Recording: text("{}"),
	}
}

func full() http.Handler { return Handler(pages()) }

var (
	guarded = []string{ManagerPath, StatusPath, TransactionsPath, BundlePath, "/debug/pprof/", "/debug/pprof/cmdline", "/debug/pprof/symbol", "/debug/pprof/goroutine?debug=1",
		"/debug/pprof/profile?seconds=1", "/debug/pprof/trace?seconds=0.01"}
	open = []string{"/healthz", "/readyz", NodeMetricsPath, ClusterMetricsPath}
)

func TestWhoMayAsk(t *testing.T) {
	for _, path := range guarded {
		code, _ := ask(t, full(), path, here, "localhost:10091")
		require.Equal(t, http.StatusOK, code, path)
		code, body := ask(t, full(), path, there, "10.9.0.1:10091")
		require.Equal(t, http.StatusForbidden, code, path)
		require.Equal(t, "this page answers only clients on the node itself; use kubectl port-forward\n", body)
	}
	answers := map[string]string{"/healthz": "ok\n", "/readyz": "ok\n", NodeMetricsPath: "node", ClusterMetricsPath: "cluster"}
	for _, path := range open {
		code, body := ask(t, full(), path, there, "win-1:10091")
		require.Equal(t, http.StatusOK, code, path)
		require.Equal(t, answers[path], body, path)
	}
}

// TestNamesStayOnTheNode: other machines get numbers, and no text that may name objects of the cluster.
func TestNamesStayOnTheNode(t *testing.T) {
	cfg := pages()
	cfg.ClusterMetrics, cfg.PublicClusterMetrics = page("ns-shop"), page("others")
	named := func() error { return errors.New("read pod shop/db-0") }
	asks := func(from string) func(path string) (int, string) {
		h := Handler(cfg)
		host := map[string]string{here: "localhost", there: "win-1"}[from]
		return func(path string) (int, string) { return ask(t, h, path, from, host) }
	}
	local, remote := asks(here), asks(there)
	for path, want := range map[string]string{ClusterMetricsPath: "others", "/readyz": "ok\n", "/healthz": "ok\n"} {
		code, body := remote(path)
		require.Equal(t, http.StatusOK, code, path)
		require.Equal(t, want, body, path)
	}
	_, body := local(ClusterMetricsPath)
	require.Equal(t, "ns-shop", body)
	_, body = ask(t, Handler(cfg), ClusterMetricsPath, here, "evil.example")
	require.Equal(t, "others", body, "a name that a page on the internet points at this machine")

	cfg.Healthy, cfg.Ready = named, named
	local, remote = asks(here), asks(there)
	for _, path := range []string{"/readyz", "/healthz"} {
		code, body := remote(path)
		require.Equal(t, http.StatusServiceUnavailable, code, path)
		require.NotContains(t, body, "shop", path)
		code, body = local(path)
		require.Equal(t, http.StatusServiceUnavailable, code, path)
		require.Contains(t, body, "read pod shop/db-0", path)
	}
}

func TestWhereClientsAre(t *testing.T) {
	for from, want := range map[string]int{
		"127.0.0.1:1": 200, "127.9.8.7:1": 200, "[::1]:1": 200, "[::ffff:127.0.0.1]:1": 200,
		"10.0.0.1:1": 403, "[::ffff:10.0.0.1]:1": 403, "[fe80::1%eth0]:1": 403, "0.0.0.0:1": 403, "": 403, "@": 403, "localhost:1": 403,
	} {
		code, _ := ask(t, full(), ManagerPath, from, "127.0.0.1")
		require.Equal(t, want, code, from)
	}
}

// A page on the internet can make a browser on the node ask, under a name that
// it points at 127.0.0.1.
func TestNamesThatAreRefused(t *testing.T) {
	for host, want := range map[string]int{
		"localhost": 200, "LocalHost:10091": 200, "127.0.0.1": 200, "127.0.0.1:10091": 200, "[::1]": 200, "[::1]:10091": 200, "10.9.0.1:80": 200,
		"evil.example": 403, "evil.example:10091": 403, "localhost.evil.example": 403, "127.0.0.1.evil.example:10091": 403, "": 403, ":10091": 403,
	} {
		code, _ := ask(t, full(), ManagerPath, here, host)
		require.Equal(t, want, code, host)
	}
}

func TestPagesThatAreOff(t *testing.T) {
	h := Handler(Config{Healthy: fine, Ready: fine})
	for _, path := range append([]string{NodeMetricsPath, ClusterMetricsPath, "/", "/debug"}, guarded...) {
		code, _ := ask(t, h, path, here, "localhost")
		require.Equal(t, http.StatusNotFound, code, path)
	}
}

// A profile of the usual 30 seconds fits into what a response may take.
func TestProfileFitsTheWriteTimeout(t *testing.T) {
	require.Greater(t, newServer(t.Context(), page("")).WriteTimeout.Seconds(), 60.0)
}
