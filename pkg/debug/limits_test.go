package debug

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
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
	return answer(ctx, h, http.MethodGet, path, here, "localhost")
}

// Each kind of page has its own slots, so requests that wait for one kind do not delay other kinds.
func TestSlots(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		heavy, metrics := newBlocked(), newBlocked()
		cfg := pages()
		cfg.Recording = func(io.Writer) error {
			heavy.ServeHTTP(nil, nil)
			return nil
		}
		cfg.NodeMetrics = metrics
		h := Handler(cfg)
		var running sync.WaitGroup
		for _, tc := range []struct {
			path   string
			page   blocked
			most   int
			full   []string // pages of this kind
			others []string // still answer
		}{
			{TransactionsPath, heavy, 2, []string{TransactionsPath, ManagerPath, StatusPath, BundlePath, "/debug/pprof/"}, []string{"/healthz", NodeMetricsPath, ClusterMetricsPath}},
			{NodeMetricsPath, metrics, 8, []string{NodeMetricsPath, ClusterMetricsPath}, []string{"/healthz", "/readyz"}},
		} {
			for range tc.most {
				running.Go(func() {
					if code := asks(t.Context(), h, tc.path).Code; code != http.StatusOK {
						t.Errorf("%s: %d", tc.path, code)
					}
				})
				<-tc.page.began
			}
			for _, path := range tc.full {
				began := time.Now()
				rec := asks(t.Context(), h, path)
				require.Equal(t, slotWait, time.Since(began))
				require.Equal(t, http.StatusServiceUnavailable, rec.Code, path)
				require.Equal(t, "5", rec.Header().Get("Retry-After"))
			}
			for _, path := range tc.others {
				go func() { // the metrics of this test answer when they are told to
					if path == NodeMetricsPath {
						<-metrics.began
						metrics.release <- struct{}{}
					}
				}()
				require.Equal(t, http.StatusOK, asks(t.Context(), h, path).Code, "%s while %s is full", path, tc.path)
			}
		}
		close(heavy.release)
		close(metrics.release)
		running.Wait()
		require.Equal(t, http.StatusOK, asks(t.Context(), h, ManagerPath).Code, "slots are given back")
	})
}

// A request waits for a slot, but not after the client has gone.
func TestRequestsWaitForSlots(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		heavy := newBlocked()
		cfg := pages()
		cfg.Recording = func(io.Writer) error {
			heavy.ServeHTTP(nil, nil)
			return nil
		}
		h := Handler(cfg)
		ctx, leaves := context.WithCancel(t.Context())
		codes := make(chan int, 10)
		for range heavyAtOnce {
			go func() { codes <- asks(t.Context(), h, TransactionsPath).Code }()
			<-heavy.began
		}
		go func() { codes <- asks(t.Context(), h, TransactionsPath).Code }()
		time.Sleep(slotWait / 2)
		heavy.release <- struct{}{}
		<-heavy.began // the one that waited
		require.Equal(t, http.StatusOK, <-codes)

		before := time.Now()
		gone := make(chan struct{})
		go func() {
			asks(ctx, h, ManagerPath)
			close(gone)
		}()
		synctest.Wait()
		leaves()
		<-gone
		require.Zero(t, time.Since(before))
		close(heavy.release)
		for range heavyAtOnce {
			require.Equal(t, http.StatusOK, <-codes)
		}
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
