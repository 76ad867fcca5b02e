package debug

import (
	"context"
	"fmt"
	"math/rand/v2"
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

// asks sends a request from the n-th client of this machine's.
func asks(ctx context.Context, h http.Handler, path string, n int) *httptest.ResponseRecorder {
	req := httptest.NewRequestWithContext(ctx, http.MethodGet, path, nil)
	req.RemoteAddr, req.Host = fmt.Sprintf("127.0.0.%d:1", n), "localhost"
	rec := httptest.NewRecorder()
	h.ServeHTTP(rec, req)
	return rec
}

// Each kind of page has its places, and what waits for one kind is in no other's way.
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
			{"/heavy", heavy, 4, ManagerPath, []string{"/healthz", NodeMetricsPath}},
			{"/open", open, 8, ClusterMetricsPath, []string{"/healthz"}},
			{"/light", light, 32, "/light", []string{"/healthz", "/readyz"}},
		} {
			for i := range tc.most {
				running.Go(func() {
					if code := asks(t.Context(), h, tc.path, i/2).Code; code != http.StatusOK {
						t.Errorf("%s: %d", tc.path, code)
					}
				})
				<-tc.page.began
			}
			began := time.Now()
			rec := asks(t.Context(), h, tc.full, 99)
			require.LessOrEqual(t, time.Since(began), placeWait)
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

// Of heavy pages a client has two at once, and two that wait a little while; it
// keeps nobody else from them.
func TestOneClientHasFewHeavyPages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		heavy := newBlocked()
		cfg := pages()
		cfg.Pages = []Page{{Path: "/heavy", Handler: heavy, Heavy: true}}
		h := Handler(cfg)
		ctx, leaves := context.WithCancel(t.Context())
		codes := make(chan int, 10)
		for range cap(codes) {
			go func() { codes <- asks(ctx, h, "/heavy", 1).Code }()
		}
		<-heavy.began
		<-heavy.began
		synctest.Wait()
		require.Len(t, codes, 6, "refused at once")
		require.Equal(t, http.StatusOK, asks(t.Context(), h, ManagerPath, 2).Code)

		heavy.release <- struct{}{}
		<-heavy.began // one of those that waited
		time.Sleep(placeWait)
		synctest.Wait()
		require.Len(t, codes, 8, "one was answered, one has waited long enough")
		before := time.Now()
		go func() { codes <- asks(ctx, h, "/heavy", 1).Code }()
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

// Whatever comes, waits and goes: never more at once than there are places, of
// one client and of all, and nothing is left of them.
func TestFairPlaces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fair := newFairPlaces(3, 2)
		random := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // the same in every run
		var clients sync.WaitGroup
		served, running := 0, map[int]int{}
		var mu sync.Mutex // guards them
		count := func(client, n int) {
			mu.Lock()
			defer mu.Unlock()
			served += max(n, 0)
			running[client] += n
			all := 0
			for client, n := range running {
				if all += n; n > 2 || all > 3 {
					t.Errorf("%d of %d, %d of all", n, client, all)
				}
			}
		}
		for range 500 {
			time.Sleep(time.Duration(random.IntN(300)) * time.Millisecond)
			ctx, cancel := context.WithTimeout(t.Context(), time.Duration(random.IntN(3000))*time.Millisecond)
			req := httptest.NewRequestWithContext(ctx, http.MethodGet, "/", nil)
			client := random.IntN(4)
			req.RemoteAddr = fmt.Sprintf("10.0.0.%d:1", client)
			takes := time.Duration(random.IntN(2000)) * time.Millisecond
			clients.Go(func() {
				defer cancel()
				leave, ok := fair.enter(req)
				if !ok {
					return
				}
				count(client, 1)
				time.Sleep(takes)
				count(client, -1)
				leave()
			})
		}
		clients.Wait()
		require.Greater(t, served, 200)
		untouched := newFairPlaces(3, 2)
		require.Equal(t, untouched.running, fair.running)
		require.Equal(t, untouched.waiting, fair.waiting)
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
