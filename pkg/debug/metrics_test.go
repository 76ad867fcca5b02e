package debug

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	dto "github.com/prometheus/client_model/go"
	"github.com/stretchr/testify/require"

	"github.com/winnpm/winnpm/pkg/state"
)

// quiet is an agent that has done nothing yet, but for one set, and one refusal.
func quiet() MetricsConfig {
	return MetricsConfig{
		Version: "1.2.3",
		Stats: func() state.Stats {
			return state.Stats{Sets: []state.SetStats{{ID: "id", Name: "ns-x"}}}
		},
		Staleness: func() map[string]time.Duration {
			return map[string]time.Duration{
				"pods": 0, "namespaces": 0, "networkpolicies": 0, "nodes": 0, "clusternetworkpolicies": 0,
			}
		},
		Now: time.Now,
	}
}

func gather(t *testing.T, g prometheus.Gatherer) []*dto.MetricFamily {
	t.Helper()
	metrics, err := g.Gather()
	require.NoError(t, err)
	return metrics
}

// TestMetrics: an agent that has done nothing yet has all series of test/monitoring/testdata/series.txt, where cmd/npm
// writes the names, types, labels and help of what a working agent has.
func TestMetrics(t *testing.T) {
	t.Parallel()
	m := NewMetrics(quiet())
	page := ""
	for _, handler := range []http.Handler{m.NodePage(), m.ClusterPage()} {
		rec := httptest.NewRecorder()
		handler.ServeHTTP(rec, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil))
		page += rec.Body.String()
	}
	value, own := regexp.MustCompile(` [^ ]+$`), regexp.MustCompile(`(goversion|version|set_name|set_hash)="[^"]*"`)
	var got []string
	for line := range strings.Lines(page) {
		line = strings.TrimSpace(line)
		if !strings.HasPrefix(line, "#") {
			line = own.ReplaceAllString(value.ReplaceAllString(line, ""), `$1="…"`)
		}
		got = append(got, line)
	}
	slices.Sort(got)
	want, err := os.ReadFile("../../test/monitoring/testdata/series.txt")
	require.NoError(t, err)
	require.Equal(t, string(want), strings.Join(got, "\n")+"\n", "make update")
}

// TestCombinations: every combination of the labels' values has a series.
func TestCombinations(t *testing.T) {
	t.Parallel()
	m := NewMetrics(quiet())
	for _, f := range slices.Concat(gather(t, m.node), gather(t, m.cluster)) {
		values, combinations := map[string]map[string]bool{}, 1
		for _, metric := range f.GetMetric() {
			for _, l := range metric.GetLabel() {
				if values[l.GetName()] == nil {
					values[l.GetName()] = map[string]bool{}
				}
				values[l.GetName()][l.GetValue()] = true
			}
		}
		for _, of := range values {
			combinations *= len(of)
		}
		require.Len(t, f.GetMetric(), combinations, "%s: a series is missing", f.GetName())
	}
}

// TestBuckets: dashboards of the predecessor ask for these, and a minute must
// not fall over the edge.
func TestBuckets(t *testing.T) {
	t.Parallel()
	edges := map[string][2]float64{}
	for _, f := range gather(t, NewMetrics(quiet()).node) {
		if f.GetType() != dto.MetricType_HISTOGRAM {
			continue
		}
		buckets := f.GetMetric()[0].GetHistogram().GetBucket()
		first, last := buckets[0].GetUpperBound(), buckets[len(buckets)-1].GetUpperBound()
		if strings.HasPrefix(f.GetName(), "npm_windows_") {
			require.Len(t, buckets, 14, f.GetName())
			require.InDelta(t, 0.008, first, 1e-9, f.GetName())
			require.InDelta(t, 65.536, last, 1e-9, f.GetName())
			continue
		}
		edges[f.GetName()] = [2]float64{first, last}
	}
	require.Equal(t, map[string][2]float64{"npm_event_to_programmed_seconds": {0.016, 524.288}, "npm_pod_start_open_seconds": {0.008, 65.536}}, edges)
}

// TestLint: there is no exception, as even the names that we did not choose pass.
func TestLint(t *testing.T) {
	t.Parallel()
	m := NewMetrics(quiet())
	for _, registry := range []*prometheus.Registry{m.node, m.cluster} {
		problems, err := testutil.GatherAndLint(registry)
		require.NoError(t, err)
		require.Empty(t, problems)
	}
}

// TestDescribed: a pedantic registry holds what is collected against what was
// described.
func TestDescribed(t *testing.T) {
	t.Parallel()
	pedantic := prometheus.NewPedanticRegistry()
	require.NoError(t, pedantic.Register(newCollector(NewMetrics(quiet()), nodeMetrics)))
	require.NoError(t, pedantic.Register(newCollector(NewMetrics(quiet()), append(clusterMetrics, setEntries(maxSetSeries)))))
	require.NotEmpty(t, gather(t, pedantic))
}

// TestDocumented: docs/metrics.md has a row for each metric, and for no other,
// with its type and labels.
func TestDocumented(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../docs/metrics.md")
	require.NoError(t, err)
	var documented, want []string
	rows := regexp.MustCompile("(?m)^\\| `(npm_\\w+)` \\| (\\w+)([^|]*) \\|")
	for _, match := range rows.FindAllStringSubmatch(string(text), -1) {
		labels := regexp.MustCompile(`\w+`).FindAllString(match[3], -1)
		slices.Sort(labels)
		documented = append(documented, fmt.Sprint(match[1], " ", match[2], labels))
	}
	m := NewMetrics(quiet())
	for _, f := range slices.Concat(gather(t, m.node), gather(t, m.cluster)) {
		labels := []string{}
		for _, l := range f.GetMetric()[0].GetLabel() {
			labels = append(labels, l.GetName())
		}
		slices.Sort(labels)
		want = append(want, fmt.Sprint(f.GetName(), " ", strings.ToLower(f.GetType().String()), labels))
	}
	slices.Sort(documented)
	slices.Sort(want)
	require.Empty(t, cmp.Diff(want, documented))
}
