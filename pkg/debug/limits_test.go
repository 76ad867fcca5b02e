package debug

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/winnpm/winnpm/pkg/dataplane"
)

// blocked is a page that answers when it is told to.
type blocked struct{ began, release chan struct{} }

func newBlocked() blocked { return blocked{make(chan struct{}), make(chan struct{})} }

func (b blocked) ServeHTTP(http.ResponseWriter, *http.Request) {
	b.began <- struct{}{}
	<-b.release
}

// Each kind of page has its places, on both handlers together, and what waits
// for one kind is in no other's way.
func TestPlaces(t *testing.T) {
	heavy, open, light := newBlocked(), newBlocked(), newBlocked()
	cfg := pages()
	cfg.Pages = []Page{
		{Path: "/heavy", Handler: heavy, Heavy: true}, {Path: "/open", Handler: open, Open: true}, {Path: "/light", Handler: light},
	}
	plain, guarded := Handlers(cfg, func(page http.Handler) http.Handler { return page })
	var running []chan int
	begin := func(h http.Handler, path string) {
		code := make(chan int, 1)
		running = append(running, code)
		go func() {
			req := httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil)
			req.RemoteAddr, req.Host = here, "localhost"
			rec := httptest.NewRecorder()
			h.ServeHTTP(rec, req)
			code <- rec.Code
		}()
	}
	for _, tc := range []struct {
		path   string
		page   blocked
		most   int
		full   string   // another page of this kind
		others []string // still answer
	}{
		{"/heavy", heavy, 4, ManagerPath, []string{"/healthz", NodeMetricsPath}},
		{"/open", open, 8, ClusterMetricsPath, []string{"/healthz"}},
		{"/light", light, 32, "/light", []string{"/healthz", "/readyz"}},
	} {
		for i := range tc.most {
			begin([]http.Handler{plain, guarded}[i%2], tc.path)
			<-tc.page.began
		}
		for _, h := range []http.Handler{plain, guarded} {
			req := httptest.NewRequestWithContext(t.Context(), http.MethodGet, tc.full, nil)
			req.RemoteAddr, req.Host = here, "localhost"
			rec := httptest.NewRecorder()
			h.ServeHTTP(rec, req)
			require.Equal(t, http.StatusServiceUnavailable, rec.Code, tc.path)
			require.Equal(t, "5", rec.Header().Get("Retry-After"))
			for _, path := range tc.others {
				code, _ := ask(t, h, path, here, "localhost")
				require.Equal(t, http.StatusOK, code, "%s while %s is full", path, tc.path)
			}
		}
	}
	close(heavy.release)
	close(open.release)
	close(light.release)
	for _, code := range running {
		require.Equal(t, http.StatusOK, <-code)
	}
	code, _ := ask(t, plain, ManagerPath, here, "localhost")
	require.Equal(t, http.StatusOK, code, "places are given back")
}

// Who may not see a page takes no place.
func TestRefusalTakesNoPlace(t *testing.T) {
	h := Handler(Config{Healthy: fine, Ready: fine, Dump: func() dataplane.Dump {
		t.Error("the dump was made")
		return dataplane.Dump{}
	}})
	for range 3 * heavyAtOnce {
		code, _ := ask(t, h, ManagerPath, there, "localhost")
		require.Equal(t, http.StatusForbidden, code)
	}
}

func TestRequestsAreSmall(t *testing.T) {
	h := full()
	long := ManagerPath + "?" + strings.Repeat("x", maxURLBytes)
	for _, path := range slices.Concat(guarded, open) {
		req := httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, strings.NewReader("{}"))
		req.RemoteAddr, req.Host = here, "localhost"
		rec := httptest.NewRecorder()
		h.ServeHTTP(rec, req)
		require.Equal(t, http.StatusRequestEntityTooLarge, rec.Code, path)
	}
	code, _ := ask(t, h, long, here, "localhost")
	require.Equal(t, http.StatusRequestURITooLong, code)
	code, _ = ask(t, h, long[:maxURLBytes], here, "localhost")
	require.Equal(t, http.StatusOK, code)
}
