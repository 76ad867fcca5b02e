package debug

import (
	"context"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/winnpm/winnpm/pkg/state"
)

// blocked is a page that answers when it is told to.
type blocked struct{ began, release chan struct{} }

func newBlocked() blocked { return blocked{make(chan struct{}), make(chan struct{})} }

func (b blocked) ServeHTTP(http.ResponseWriter, *http.Request) {
	b.began <- struct{}{}
	<-b.release
}

// asks sends a request from this machine.
func asks(ctx context.Context, h http.Handler, path string) *httptest.ResponseRecorder {
	req := httptest.NewRequestWithContext(ctx, http.MethodGet, path, nil)
	req.RemoteAddr, req.Host = here, "localhost"
	rec := httptest.NewRecorder()
	h.ServeHTTP(rec, req)
	return rec
}

// Each kind of page has its own slots, so requests that wait for one kind do not delay other kinds.
func TestPlaces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		heavy, open, light := newBlocked(), newBlocked(), newBlocked()
		cfg := pages()
		cfg.Pages = []Page{
			{Path: "/heavy", Handler: heavy, Heavy: true}, {Path: "/open", Handler: open, Open: true}, {Path: "/light", Handler: light},
		}
		h := Handler(cfg)
		var running sync.WaitGroup
		for _, tc := range []struct {
			path   string
			page   blocked
			most   int
			full   string   // another page of this kind
			others []string // still answer
		}{
			{"/heavy", heavy, 2, ManagerPath, []string{"/healthz", NodeMetricsPath}},
			{"/open", open, 8, ClusterMetricsPath, []string{"/healthz"}},
			{"/light", light, 32, "/light", []string{"/healthz", "/readyz"}},
		} {
			for range tc.most {
				running.Go(func() {
					if code := asks(t.Context(), h, tc.path).Code; code != http.StatusOK {
						t.Errorf("%s: %d", tc.path, code)
					}
				})
				<-tc.page.began
			}
			began := time.Now()
			rec := asks(t.Context(), h, tc.full)
			require.LessOrEqual(t, time.Since(began), heavyWait)
			require.Equal(t, http.StatusServiceUnavailable, rec.Code, tc.path)
			require.Equal(t, "5", rec.Header().Get("Retry-After"))
			for _, path := range tc.others {
				code, _ := ask(t, h, path, here, "localhost")
				require.Equal(t, http.StatusOK, code, "%s while %s is full", path, tc.path)
			}
		}
		close(heavy.release)
		close(open.release)
		close(light.release)
		running.Wait()
		code, _ := ask(t, h, ManagerPath, here, "localhost")
		require.Equal(t, http.StatusOK, code, "places are given back")
	})
}

// Two heavy pages are answered at the same time, and two more requests wait for up to heavyWait.
func TestHeavyPagesWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		heavy := newBlocked()
		cfg := pages()
		cfg.Pages = []Page{{Path: "/heavy", Handler: heavy, Heavy: true}}
		h := Handler(cfg)
		ctx, leaves := context.WithCancel(t.Context())
		codes := make(chan int, 10)
		for range cap(codes) {
			go func() { codes <- asks(ctx, h, "/heavy").Code }()
		}
		<-heavy.began
		<-heavy.began
		synctest.Wait()
		require.Len(t, codes, 6, "refused at once")

		heavy.release <- struct{}{}
		<-heavy.began // one of those that waited
		time.Sleep(heavyWait)
		synctest.Wait()
		require.Len(t, codes, 8, "one was answered, one has waited long enough")
		before := time.Now()
		go func() { codes <- asks(ctx, h, "/heavy").Code }()
		synctest.Wait()
		leaves()
		synctest.Wait()
		require.Zero(t, time.Since(before), "who has gone does not wait")
		require.Len(t, codes, 9)
		close(heavy.release)
		synctest.Wait()
		got := map[int]int{}
		for range cap(codes) + 1 {
			got[<-codes]++
		}
		require.Equal(t, map[int]int{http.StatusOK: 3, http.StatusServiceUnavailable: 8}, got)
	})
}

// Who may not see a page takes no place.
func TestRefusalTakesNoPlace(t *testing.T) {
	h := Handler(Config{Healthy: fine, Ready: fine, Dump: func() state.Dump {
		t.Error("the dump was made")
		return state.Dump{}
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
