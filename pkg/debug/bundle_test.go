package debug

import (
	"archive/zip"
	"bytes"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/winnpm/winnpm/pkg/state"
)

func recorded() Config {
	return Config{
		Dump: sample, Healthy: func() error { return errors.New("it hangs") }, Ready: fine,
		NodeMetrics: page("node_metric 1\n"), ClusterMetrics: page("cluster_metric 1\n"),
		Recording: text("{\"node\":\"n1\"}\n"),
		Version:   "v1", Settings: map[string]int{"Port": 1},
	}
}

func TestTransactions(t *testing.T) {
	cfg := recorded()
	_, body := get(t, Handler(cfg), http.MethodGet, TransactionsPath)
	require.Equal(t, "{\"node\":\"n1\"}\n", body)

	cfg.Recording = func(w io.Writer) error {
		_, _ = io.WriteString(w, "half")
		return errGone
	}
	require.PanicsWithError(t, http.ErrAbortHandler.Error(), func() { get(t, Handler(cfg), http.MethodGet, TransactionsPath) })
}

func TestBundle(t *testing.T) {
	cfg := recorded()
	want := map[string]string{
		"version.txt": "v1\n", "config.json": "{\n  \"Port\": 1\n}\n", "recording.jsonl": "{\"node\":\"n1\"}\n",
		"health.txt": "healthz: it hangs\nreadyz: ok\n", "node-metrics.txt": "node_metric 1\n", "cluster-metrics.txt": "cluster_metric 1\n",
	}
	require.Equal(t, want, filesOf(t, cfg))
	cfg.NodeMetrics = nil
	delete(want, "node-metrics.txt")
	delete(want, "cluster-metrics.txt")
	require.Equal(t, want, filesOf(t, cfg), "metrics that are off have no file")
}

// filesOf returns the files of a bundle by name, without those whose content is checked here.
func filesOf(t *testing.T, cfg Config) map[string]string {
	t.Helper()
	_, manager := get(t, Handler(cfg), http.MethodGet, ManagerPath)
	_, body := get(t, Handler(cfg), http.MethodGet, BundlePath)
	z, err := zip.NewReader(bytes.NewReader([]byte(body)), int64(len(body)))
	require.NoError(t, err)
	got := map[string]string{}
	for _, f := range z.File {
		r, err := f.Open()
		require.NoError(t, err)
		text, err := io.ReadAll(r)
		require.NoError(t, err)
		got[f.Name] = string(text)
	}
	for name := range got {
		if name != "README.txt" {
			require.Contains(t, got["README.txt"], "\n"+name+" ")
		}
	}
	require.Contains(t, got["goroutines.txt"], "goroutine ")
	require.Equal(t, manager, got["dump.json"])
	for _, name := range []string{"README.txt", "goroutines.txt", "dump.json"} {
		delete(got, name)
	}
	return got
}

// Half a bundle is no answer.
func TestBundleThatCannotBeWritten(t *testing.T) {
	cfg := recorded()
	cfg.Dump = func() state.Dump { return state.Dump{Time: time.Date(10_000, 1, 1, 0, 0, 0, 0, time.UTC)} } // no text for it
	server := httptest.NewServer(Handler(cfg))
	defer server.Close()
	resp, err := server.Client().Get(server.URL + BundlePath)
	if err == nil {
		_, err = io.ReadAll(resp.Body)
		_ = resp.Body.Close()
	}
	require.Error(t, err)
	require.ErrorIs(t, WriteBundle(gone{}, recorded()), errGone)
}
