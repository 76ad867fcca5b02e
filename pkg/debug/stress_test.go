package debug

import (
	"context"
	"io"
	"net"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/winnpm/winnpm/pkg/controllers"
	"github.com/winnpm/winnpm/pkg/dataplane"
	"github.com/winnpm/winnpm/pkg/metrics"
)

// fetch asks for a page, and fails the test when its answer is not whole.
func fetch(t *testing.T, client *http.Client, url string, use func(code int, body io.Reader)) {
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Error(err)
		return
	}
	resp, err := client.Do(req)
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

// Many clients ask for every page while transactions run and
// one client does not read: every answer is whole or 503, and transactions go on.
func TestPagesWhileTransactionsRun(t *testing.T) {
	dp, change := cluster(t, 100)
	m := metrics.New(metrics.Options{
		Stats: dp.Stats, Staleness: func() map[controllers.Kind]time.Duration { return map[controllers.Kind]time.Duration{} }, Now: time.Now,
	})
	address := loopback(t, func(ctx context.Context, l net.Listener) error {
		return Serve(ctx, l, Handler(Config{
			Dump: dp.Dump, Healthy: fine, Ready: fine, Pprof: true, NodeMetrics: m.Node(), ClusterMetrics: m.Cluster(), PublicClusterMetrics: m.PublicCluster(),
		}))
	})
	const clientsAtOnce = 6
	transport := &http.Transport{MaxIdleConnsPerHost: clientsAtOnce}
	t.Cleanup(transport.CloseIdleConnections)
	client := &http.Client{Transport: transport}

	slow, err := net.Dial("tcp", address)
	require.NoError(t, err)
	defer slow.Close()
	require.NoError(t, slow.(*net.TCPConn).SetReadBuffer(1))
	_, err = io.WriteString(slow, "GET "+ManagerPath+" HTTP/1.1\r\nHost: localhost\r\n\r\n")
	require.NoError(t, err)

	paths := slices.Concat(open, []string{ManagerPath, "/debug/pprof/", "/debug/pprof/heap?debug=1", "/debug/pprof/goroutine?debug=2", "/debug/pprof/cmdline"})
	var clients sync.WaitGroup
	var whole, busy atomic.Int64
	for range clientsAtOnce {
		clients.Go(func() {
			for _, path := range slices.Repeat(paths, 2) {
				fetch(t, client, "http://"+address+path, func(code int, body io.Reader) {
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
