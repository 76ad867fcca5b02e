package debug

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/winnpm/winnpm/pkg/state"
)

// What a browser asks on behalf of another site is refused, whichever page it
// is, and costs nothing.
func TestOtherSites(t *testing.T) {
	cfg := pages()
	dumps := 0
	cfg.Dump = func() state.Dump {
		dumps++
		return state.Dump{}
	}
	h := Handler(cfg)
	for _, header := range [][2]string{
		{"Sec-Fetch-Site", "cross-site"}, {"Sec-Fetch-Site", "same-site"}, {"Sec-Fetch-Site", ""},
		{"Origin", "https://evil.example"}, {"Origin", "null"}, {"Origin", ""},
		{"Origin", "http://localhost:3000"}, {"Origin", "http://localhost:10091.evil.example"},
	} {
		for _, path := range slices.Concat(guarded, open) {
			req := httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil)
			req.RemoteAddr, req.Host = here, "localhost:10091"
			req.Header[header[0]] = []string{header[1]}
			rec := httptest.NewRecorder()
			h.ServeHTTP(rec, req)
			require.Equal(t, http.StatusForbidden, rec.Code, "%s %v", path, header)
		}
	}
	require.Zero(t, dumps)
}

// The page's own requests, and what a person typed, are answered.
func TestOwnSite(t *testing.T) {
	for _, tc := range []struct {
		host, site, origin string
		want               int
	}{
		{"localhost:10091", "same-origin", "", 200},
		{"localhost:10091", "none", "", 200},
		{"LOCALHOST:8080", "same-origin", "http://localhost:8080", 200}, // a port-forward
		{"[::1]:10091", "", "http://[::1]:10091", 200},
		{"localhost:10091", "", "https://localhost:10091", 403},
		{"127.0.0.1:10091", "same-origin", "http://localhost:8080", 200}, // a proxy with a name of its own
		{"localhost:10091", "cross-site", "http://localhost:10091", 403},
	} {
		req := httptest.NewRequestWithContext(t.Context(), http.MethodGet, TransactionsPath, nil)
		req.RemoteAddr, req.Host = here, tc.host
		for name, value := range map[string]string{"Sec-Fetch-Site": tc.site, "Origin": tc.origin} {
			if value != "" {
				req.Header.Set(name, value)
			}
		}
		rec := httptest.NewRecorder()
		full().ServeHTTP(rec, req)
		require.Equal(t, tc.want, rec.Code, "%+v", tc)
	}
}

// A page on the internet may have a name that leads here. Scrapers ask for
// addresses, or for names that nobody there can have.
func TestNamesOfOpenPages(t *testing.T) {
	cfg := pages()
	cfg.Node = "win-1.Corp.example"
	h := Handler(cfg)
	for host, want := range map[string]int{
		"10.9.0.1:10091": 200, "[fd00::1]:10091": 200, "localhost": 200, "win-1:10091": 200, "": 200,
		"npm-metrics-cluster-service.kube-system.svc:9000": 200, "a.b.svc.cluster.local": 200, "WIN-1.corp.example:10091": 200,
		"evil.example:10091": 403, "win-1.corp.example.evil.example": 403, "win-1.evil.example": 403, "a.svc.evil.example": 403, "10.9.0.1.evil.example": 403, "evil.": 403,
	} {
		for _, path := range open {
			code, _ := ask(t, h, path, there, host)
			require.Equal(t, want, code, "%s at %q", path, host)
		}
	}
}
