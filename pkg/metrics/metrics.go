// Package metrics measures the agent and shows it to Prometheus under the names
// that the predecessor had, with values that are right, and some of our own.
// docs/metrics.md says what each one means and what to alert on.
//
// There are two registries, as there were: what every node sees alike of the
// cluster, and what is the node's own. Neither has the collectors of the Go
// runtime.
package metrics

import (
	"net/http"
	"runtime"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/winnpm/winnpm/pkg/controllers"
	"github.com/winnpm/winnpm/pkg/state"
)

// Options is what New needs, all of it. The functions are called concurrently,
// by scrapes, and must not wait for HNS.
type Options struct {
	Version   string // of this program
	Stats     func() state.Stats
	Staleness func() map[controllers.Kind]time.Duration
	Now       func() time.Time
}

// Metrics is everything that is measured. All methods are safe for concurrent
// use.
type Metrics struct {
	now           func() time.Time
	node, cluster *prometheus.Registry
	public        *prometheus.Registry // as cluster, without names of sets
	calls         *calls
	transactions  *transactions
	starts        starts
}

// New returns Metrics with every series at 0 whose labels are known.
func New(o Options) *Metrics {
	m := &Metrics{
		now:          o.Now,
		node:         prometheus.NewRegistry(),
		cluster:      prometheus.NewRegistry(),
		public:       prometheus.NewRegistry(),
		calls:        newCalls(),
		transactions: newTransactions(),
		starts:       newStarts(),
	}
	build := prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "npm_build_info",
		Help: "Always 1; the labels say which program this is.",
	}, []string{"version", "goversion"})
	build.WithLabelValues(o.Version, runtime.Version()).Set(1)

	m.node.MustRegister(build, newNodeState(o))
	m.node.MustRegister(m.calls.collectors()...)
	m.node.MustRegister(m.transactions.collectors()...)
	m.node.MustRegister(m.starts.collectors()...)
	m.cluster.MustRegister(newClusterState(o, maxSetSeries))
	m.public.MustRegister(newClusterState(o, 0))
	return m
}

// Node returns what answers on /node-metrics: the work of this agent.
func (m *Metrics) Node() http.Handler { return handler(m.node) }

// Cluster returns what answers on /cluster-metrics: what was made of the
// cluster's objects.
func (m *Metrics) Cluster() http.Handler { return handler(m.cluster) }

// PublicCluster returns the page of Cluster for clients on other machines. It omits the names of
// sets, because they contain names of namespaces and labels: the entries of all sets are one series.
func (m *Metrics) PublicCluster() http.Handler { return handler(m.public) }

func handler(r *prometheus.Registry) http.Handler {
	return promhttp.HandlerFor(r, promhttp.HandlerOpts{})
}
