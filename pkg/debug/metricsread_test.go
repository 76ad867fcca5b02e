package debug

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

// read returns every series by its text, like `npm_x{a="b"}`. A histogram and a
// summary have two: _count and _sum.
func read(t *testing.T, g prometheus.Gatherer) map[string]float64 {
	t.Helper()
	out := map[string]float64{}
	for _, f := range gather(t, g) {
		for _, m := range f.GetMetric() {
			labels := labelText(m)
			switch f.GetType() {
			case dto.MetricType_COUNTER:
				out[f.GetName()+labels] = m.GetCounter().GetValue()
			case dto.MetricType_GAUGE:
				out[f.GetName()+labels] = m.GetGauge().GetValue()
			case dto.MetricType_HISTOGRAM:
				out[f.GetName()+"_count"+labels] = float64(m.GetHistogram().GetSampleCount())
				out[f.GetName()+"_sum"+labels] = m.GetHistogram().GetSampleSum()
			case dto.MetricType_SUMMARY:
				out[f.GetName()+"_count"+labels] = float64(m.GetSummary().GetSampleCount())
				out[f.GetName()+"_sum"+labels] = m.GetSummary().GetSampleSum()
			default:
				t.Fatalf("%s has type %v", f.GetName(), f.GetType())
			}
		}
	}
	return out
}

func labelText(m *dto.Metric) string {
	if len(m.GetLabel()) == 0 {
		return ""
	}
	var labels []string
	for _, l := range m.GetLabel() {
		labels = append(labels, l.GetName()+`="`+l.GetValue()+`"`)
	}
	return "{" + strings.Join(labels, ",") + "}"
}

// changed returns the series that are not as they were.
func changed(before, after map[string]float64) map[string]float64 {
	out := maps.Clone(after)
	maps.DeleteFunc(out, func(name string, v float64) bool {
		was, known := before[name]
		return known && was == v
	})
	return out
}

// with returns the series whose names begin with one of these.
func with(series map[string]float64, prefixes ...string) map[string]float64 {
	out := maps.Clone(series)
	maps.DeleteFunc(out, func(name string, _ float64) bool {
		return !slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(name, p) })
	})
	return out
}
