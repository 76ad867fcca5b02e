package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/winnpm/winnpm/pkg/state"
)

// ClaimResult is how a claim of the CNI plugin ended.
type ClaimResult string

// The results.
const (
	ClaimReady  ClaimResult = "ready"   // the pod started with its rules
	ClaimLate   ClaimResult = "late"    // its wait was over; in mode wait it started without
	ClaimFailed ClaimResult = "failed"  // no wait would have helped; in mode wait it started without
	ClaimHungUp ClaimResult = "hung_up" // the plugin was gone before
)

// starts are the metrics of pods that start.
type starts struct {
	claims *prometheus.CounterVec
	open   *prometheus.HistogramVec
}

func newStarts() starts {
	s := starts{
		claims: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "npm_cni_claims_total",
			Help: "Claims of the CNI plugin for pods that start, by how they ended.",
		}, []string{"result"}),
		open: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "npm_pod_start_open_seconds",
			Help:    "Time from when the address of a pod that policies isolate was known until HNS had its rules. cni=true: the CNI told of it, and the pod waited.",
			Buckets: prometheus.ExponentialBuckets(0.008, 2, 14), // to 65 s
		}, []string{"cni"}),
	}
	for _, result := range []ClaimResult{ClaimReady, ClaimLate, ClaimFailed, ClaimHungUp} {
		s.claims.WithLabelValues(string(result))
	}
	for _, told := range []bool{false, true} {
		s.open.WithLabelValues(yesNo(told))
	}
	return s
}

func (s starts) collectors() []prometheus.Collector {
	return []prometheus.Collector{s.claims, s.open}
}

func (s starts) applied(pods []state.PodStart) {
	for _, p := range pods {
		s.open.WithLabelValues(yesNo(p.Told)).Observe(p.Open().Seconds())
	}
}

// Claimed takes how a claim of the CNI plugin ended.
func (m *Metrics) Claimed(result ClaimResult) { m.starts.claims.WithLabelValues(string(result)).Inc() }
