package debug

import (
	"cmp"
	"maps"
	"net/http"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/pkg/policy"
	"github.com/winnpm/winnpm/pkg/state"
)

// MetricsConfig is the configuration of NewMetrics. The functions are called concurrently, by
// scrapes, and must not wait for HNS.
type MetricsConfig struct {
	Version   string // of this program
	Stats     func() state.Stats
	Staleness func() map[string]time.Duration // by kind of objects: since the API server last said something
	Now       func() time.Time
}

// Metrics measures the agent for Prometheus. It has the predecessor's metrics and some new ones;
// docs/metrics.md describes each. There are two pages: the work of this node, and the objects of
// the cluster with their sets and ACLs. Neither has the collectors of the Go runtime. All methods
// are safe for concurrent use.
type Metrics struct {
	cfg           MetricsConfig
	node, cluster *prometheus.Registry
	public        *prometheus.Registry // as cluster, without names of sets

	calls      calls
	programmed prometheus.Histogram
	addPolicy  *prometheus.SummaryVec            // by had_error
	byKind     map[string]*prometheus.SummaryVec // of changed objects, by operation and had_error
	claims     *prometheus.CounterVec            // by result
	open       *prometheus.HistogramVec          // by cni

	mu       sync.Mutex
	warnings map[string]int // guarded by mu: number of active warnings by reason; a reason stays in the map when its number is 0
}

// NewMetrics returns Metrics. Every series with known labels starts at 0.
func NewMetrics(cfg MetricsConfig) *Metrics {
	m := &Metrics{
		cfg: cfg, node: prometheus.NewRegistry(), cluster: prometheus.NewRegistry(), public: prometheus.NewRegistry(),
		byKind: map[string]*prometheus.SummaryVec{}, warnings: map[string]int{},
	}
	series := promauto.With(m.node)
	m.calls = newCalls(series)
	m.programmed = series.NewHistogram(prometheus.HistogramOpts{
		Name:    "npm_event_to_programmed_seconds",
		Help:    "Time from an event of the API server until all that follows from it is in HNS.",
		Buckets: prometheus.ExponentialBuckets(0.016, 2, 16), // to 8.7 minutes
	})
	m.addPolicy = series.NewSummaryVec(millis("npm_add_policy_exec_time",
		"Milliseconds of the transaction that brought a new or changed policy in."), []string{"had_error"})
	for _, kind := range []string{"pod", "namespace", "policy"} {
		m.byKind[kind] = series.NewSummaryVec(millis("npm_controller_"+kind+"_exec_time",
			"Milliseconds of the transaction that brought the change of a "+kind+" in."), []string{"operation", "had_error"})
	}
	m.claims = series.NewCounterVec(prometheus.CounterOpts{
		Name: "npm_cni_claims_total",
		Help: "Claims of the CNI plugin for pods that start, by how they ended.",
	}, []string{"result"})
	m.open = series.NewHistogramVec(prometheus.HistogramOpts{
		Name:    "npm_pod_start_open_seconds",
		Help:    "Time from when the address of a pod that policies isolate was known until HNS had its rules. cni=true: the CNI told of it, and the pod waited.",
		Buckets: callBuckets,
	}, []string{"cni"})
	series.NewGaugeVec(prometheus.GaugeOpts{
		Name: "npm_build_info",
		Help: "Always 1; the labels say which program this is.",
	}, []string{"version", "goversion"}).WithLabelValues(cfg.Version, runtime.Version()).Set(1)

	for _, result := range []ClaimResult{ClaimReady, ClaimLate, ClaimFailed, ClaimHungUp} {
		m.claims.WithLabelValues(string(result))
	}
	for _, b := range []string{"false", "true"} {
		m.open.WithLabelValues(b)
		m.addPolicy.WithLabelValues(b)
		for _, summary := range m.byKind {
			for _, operation := range operations {
				summary.WithLabelValues(operation, b)
			}
		}
	}
	for _, reason := range []state.Reason{
		state.ReasonHNSRejected, state.ReasonHNSUnavailable, state.ReasonForeignWrites, state.ReasonAddressContested, state.ReasonIPv6Blocked,
		state.ReasonOverBudget, state.ReasonNodesUnknown,
		state.Reason(policy.ReasonIPv6Peer), state.Reason(policy.ReasonInvalid), state.Reason(policy.ReasonUnsupportedPeer),
	} {
		m.warnings[string(reason)] = 0
	}
	m.node.MustRegister(newCollector(m, nodeMetrics))
	m.cluster.MustRegister(newCollector(m, slices.Concat(clusterMetrics, []stateMetric{setEntries(maxSetSeries)})))
	m.public.MustRegister(newCollector(m, slices.Concat(clusterMetrics, []stateMetric{setEntries(0)})))
	return m
}

// NodePage returns the page /node-metrics: the work of this agent.
func (m *Metrics) NodePage() http.Handler { return promhttp.HandlerFor(m.node, promhttp.HandlerOpts{}) }

// ClusterPage returns the page /cluster-metrics: the cluster's objects, with their sets and ACLs.
func (m *Metrics) ClusterPage() http.Handler {
	return promhttp.HandlerFor(m.cluster, promhttp.HandlerOpts{})
}

// PublicClusterPage returns the page of ClusterPage for clients on other machines. It omits the names of sets,
// because they contain names of namespaces and labels: the entries of all sets are one series.
func (m *Metrics) PublicClusterPage() http.Handler {
	return promhttp.HandlerFor(m.public, promhttp.HandlerOpts{})
}

// Applied records one transaction: its report and error, and for each event that is now in HNS the
// time since the event came in. A transaction handles all changes since the last one, so its
// duration counts for each of them.
func (m *Metrics) Applied(report state.Report, err error, programmed []time.Duration) {
	hadError, took := strconv.FormatBool(err != nil || len(report.Errors) > 0), 1000*report.Took.Seconds()
	for _, change := range report.Changes {
		for range change.Count {
			if summary := m.byKind[change.Kind]; summary != nil { // the predecessor measured nothing of nodes
				summary.WithLabelValues(change.Operation, hadError).Observe(took)
			}
			if change.Kind == "policy" && change.Operation != "delete" {
				m.addPolicy.WithLabelValues(hadError).Observe(took)
			}
		}
	}
	for _, since := range programmed {
		m.programmed.Observe(since.Seconds())
	}
	for _, pod := range report.Starts {
		m.open.WithLabelValues(strconv.FormatBool(pod.Told)).Observe(pod.Open().Seconds())
	}
	if err != nil {
		return // the report may be empty, and all warnings are still active
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for reason := range m.warnings {
		m.warnings[reason] = 0
	}
	for _, w := range report.Warnings {
		m.warnings[string(w.Reason)]++
	}
}

// ClaimResult says how a claim of the CNI plugin ended.
type ClaimResult string

// The results.
const (
	ClaimReady  ClaimResult = "ready"   // the pod started with its rules
	ClaimLate   ClaimResult = "late"    // the wait was over; in mode wait the pod started without its rules
	ClaimFailed ClaimResult = "failed"  // waiting longer would not help; in mode wait the pod started without its rules
	ClaimHungUp ClaimResult = "hung_up" // the plugin hung up before it got an answer
)

// Claimed records how a claim of the CNI plugin ended.
func (m *Metrics) Claimed(result ClaimResult) { m.claims.WithLabelValues(string(result)).Inc() }

// reading is the state at a scrape.
type reading struct {
	state.Stats

	staleness map[string]time.Duration
	warnings  map[string]int
}

func (m *Metrics) read() reading {
	m.mu.Lock()
	defer m.mu.Unlock()
	return reading{m.cfg.Stats(), m.cfg.Staleness(), maps.Clone(m.warnings)}
}

// adder adds a series to a metric.
type adder func(value float64, labels ...string)

// stateMetric is a metric whose values are read from the state at a scrape: collect calls add for each of its series.
type stateMetric struct {
	name    string
	labels  []string
	help    string
	collect func(r reading, add adder)
}

// nodeMetrics are the stateMetrics of /node-metrics. A name that ends in _total is a counter, the others are gauges.
var nodeMetrics = []stateMetric{
	{"npm_pending_pod_updates", nil, "Updates of pods that are not in HNS yet, pods without an endpoint included.",
		func(r reading, add adder) { add(float64(r.Pending)) }},
	{"npm_oldest_pending_pod_update_seconds", nil, "Age of the oldest update of a pod that is not in HNS yet; 0 when there is none.",
		func(r reading, add adder) { add(r.OldestPending.Seconds()) }},
	{"npm_warnings", []string{"reason"}, "Active warnings: what users asked for and HNS does not have, left out or not programmed yet.",
		func(r reading, add adder) { addEach(add, r.warnings) }},
	{"npm_drift_found_total", []string{"kind"}, "Objects of ours in HNS that somebody else changed.",
		func(r reading, add adder) { addEach(add, r.DriftFound, "set", "acl") }},
	{"npm_drift_repaired_total", []string{"kind"}, "Objects of ours in HNS that somebody else changed and that were written again.",
		func(r reading, add adder) { addEach(add, r.DriftRepaired, "set", "acl") }},
	{"npm_disputed_objects", []string{"kind"}, "Objects of ours in HNS that somebody else keeps changing, so that repair waits longer each time.",
		func(r reading, add adder) { addEach(add, r.Damped, "set", "acl") }},
	{"npm_hns_conflicts_total", []string{"when"}, "Writes to endpoints that somebody else came in between: not made, or made and then something else was there.",
		func(r reading, add adder) {
			add(float64(r.Conflicts.Before), "before")
			add(float64(r.Conflicts.After), "after")
		}},
	{"npm_programmed_sets", []string{"type"}, "Sets of ours in HNS, by HNS's type.",
		func(r reading, add adder) {
			byType := map[string]int{}
			for _, set := range r.Sets {
				if set.Nested {
					byType[string(hns.NestedIPSet)]++
				} else {
					byType[string(hns.IPSet)]++
				}
			}
			addEach(add, byType, string(hns.IPSet), string(hns.NestedIPSet))
		}},
	{"npm_informer_staleness_seconds", []string{"kind"}, "Time since the API server last said something about a kind of objects.",
		func(r reading, add adder) {
			for kind, age := range r.staleness {
				add(age.Seconds(), kind)
			}
		}},
}

// clusterMetrics are the stateMetrics of /cluster-metrics, in addition to setEntries.
var clusterMetrics = []stateMetric{
	{"npm_num_policies", nil, "NetworkPolicy objects of the cluster.",
		func(r reading, add adder) { add(float64(r.Policies)) }},
	{"npm_num_cluster_policies", []string{"tier"}, "ClusterNetworkPolicy objects of the cluster.",
		func(r reading, add adder) {
			for _, tier := range []policy.Tier{policy.Admin, policy.Baseline} {
				add(float64(r.ClusterPolicies[tier]), tier.String())
			}
		}},
	{"npm_num_iptables_rules", nil, "ACLs of ours that are on endpoints of this node.",
		func(r reading, add adder) { add(float64(r.ACLs)) }},
	{"npm_num_ipsets", nil, "Sets of ours in HNS on this node.",
		func(r reading, add adder) { add(float64(len(r.Sets))) }},
	{"npm_num_ipset_entries", nil, "Entries of all sets of ours in HNS on this node.",
		func(r reading, add adder) { add(float64(entries(r.Sets))) }},
	{"npm_pods_watched", nil, "Pod objects of the cluster that have not been deleted.",
		func(r reading, add adder) { add(float64(r.Pods)) }},
}

// maxSetSeries limits the series of npm_ipset_counts: the predecessor had one for each set, which
// can be too many to store.
const maxSetSeries = 500

// others names the series of all sets without a series of their own. The name of a set begins with a prefix, so
// no set has this name.
const others = "others"

// setEntries returns the metric with a series for each of the mostSets largest sets.
func setEntries(mostSets int) stateMetric {
	return stateMetric{"npm_ipset_counts", []string{"set_name", "set_hash"}, "Entries of one set in HNS; what the largest 500 leave is summed up under the name others.",
		func(r reading, add adder) {
			largest := r.Sets
			if len(largest) > mostSets {
				largest = slices.SortedFunc(slices.Values(largest), func(a, b state.SetStats) int {
					return cmp.Or(cmp.Compare(b.Entries, a.Entries), cmp.Compare(a.ID, b.ID))
				})[:mostSets]
				add(float64(entries(r.Sets)-entries(largest)), others, others)
			}
			for _, set := range largest {
				add(float64(set.Entries), set.Name, set.ID)
			}
		}}
}

func entries(sets []state.SetStats) int {
	n := 0
	for _, set := range sets {
		n += set.Entries
	}
	return n
}

// addEach adds a series for each value, with its label. The labels in always have a series even if
// they have no value: it is 0.
func addEach[V int | uint64](add adder, values map[string]V, always ...string) {
	for _, label := range always {
		add(float64(values[label]), label)
	}
	for label, v := range values {
		if !slices.Contains(always, label) {
			add(float64(v), label)
		}
	}
}

// collector is the prometheus.Collector of stateMetrics.
type collector struct {
	read    func() reading
	metrics []stateMetric
	descs   []*prometheus.Desc
}

func newCollector(m *Metrics, metrics []stateMetric) *collector {
	c := &collector{read: m.read, metrics: metrics}
	for _, metric := range metrics {
		c.descs = append(c.descs, prometheus.NewDesc(metric.name, metric.help, metric.labels, nil))
	}
	return c
}

// Describe implements prometheus.Collector.
func (c *collector) Describe(out chan<- *prometheus.Desc) {
	for _, d := range c.descs {
		out <- d
	}
}

// Collect implements prometheus.Collector.
func (c *collector) Collect(out chan<- prometheus.Metric) {
	r := c.read()
	for i, metric := range c.metrics {
		kind := prometheus.GaugeValue
		if strings.HasSuffix(metric.name, "_total") {
			kind = prometheus.CounterValue
		}
		metric.collect(r, func(value float64, labels ...string) {
			out <- prometheus.MustNewConstMetric(c.descs[i], kind, value, labels...)
		})
	}
}
