package ui

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestOwnSite: what a browser asks on behalf of another site is refused; the page's own requests,
// and what a person typed, are answered.
func TestOwnSite(t *testing.T) {
	pages := OwnSite(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	for _, tc := range []struct {
		host, site, origin string
		want               int
	}{
		{"localhost:10091", "same-origin", "", 200},
		{"localhost:10091", "none", "", 200},
		{"LOCALHOST:8080", "same-origin", "http://localhost:8080", 200}, // a port-forward
		{"[::1]:10091", "", "http://[::1]:10091", 200},
		{"127.0.0.1:10091", "same-origin", "http://localhost:8080", 200}, // a proxy with a name of its own
		{"localhost:10091", "", "https://localhost:10091", 403},
		{"localhost:10091", "cross-site", "http://localhost:10091", 403},
		{"localhost:10091", "same-site", "", 403},
		{"localhost:10091", "", "https://evil.example", 403},
		{"localhost:10091", "", "null", 403},
		{"localhost:10091", "", "http://localhost:3000", 403},
		{"localhost:10091", "", "http://localhost:10091.evil.example", 403},
	} {
		req := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
		req.Host = tc.host
		for name, value := range map[string]string{"Sec-Fetch-Site": tc.site, "Origin": tc.origin} {
			if value != "" {
				req.Header.Set(name, value)
			}
		}
		rec := httptest.NewRecorder()
		pages.ServeHTTP(rec, req)
		require.Equal(t, tc.want, rec.Code, "%+v", tc)
	}
}
