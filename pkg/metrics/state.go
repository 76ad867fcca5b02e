package metrics

import (
	"cmp"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/winnpm/winnpm/pkg/controllers"
	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/pkg/policy"
	"github.com/winnpm/winnpm/pkg/state"
)

// nodeState shows the dataplane and the informers as they are at the scrape.
type nodeState struct {
	stats     func() state.Stats
	staleness func() map[controllers.Kind]time.Duration

	pending, oldest         *prometheus.Desc
	found, repaired, damped *prometheus.Desc // by kind
	conflicts               *prometheus.Desc // by when
	sets                    *prometheus.Desc // by type
	stale                   *prometheus.Desc // by kind
}

func newNodeState(o Options) *nodeState {
	return &nodeState{
		stats:     o.Stats,
		staleness: o.Staleness,

		pending:  desc("npm_pending_pod_updates", "Updates of pods that are not in HNS yet, pods without an endpoint included."),
		oldest:   desc("npm_oldest_pending_pod_update_seconds", "Age of the oldest update of a pod that is not in HNS yet; 0 when there is none."),
		found:    desc("npm_drift_found_total", "Objects of ours in HNS that somebody else changed.", "kind"),
		repaired: desc("npm_drift_repaired_total", "Objects of ours in HNS that somebody else changed and that were written again.", "kind"),
		conflicts: desc("npm_hns_conflicts_total",
			"Writes to endpoints that somebody else came in between: not made, or made and then something else was there.", "when"),
		damped: desc("npm_disputed_objects", "Objects of ours in HNS that somebody else keeps changing, so that repair waits longer each time.", "kind"),
		sets:   desc("npm_programmed_sets", "Sets of ours in HNS, by HNS's type.", "type"),
		stale:  desc("npm_informer_staleness_seconds", "Time since the API server last said something about a kind of objects.", "kind"),
	}
}

func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(name, help, labels, nil)
}

// Describe implements prometheus.Collector.
func (s *nodeState) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{s.pending, s.oldest, s.found, s.repaired, s.damped, s.conflicts, s.sets, s.stale} {
		out <- d
	}
}

// Collect implements prometheus.Collector.
func (s *nodeState) Collect(out chan<- prometheus.Metric) {
	stats := s.stats()
	byType := map[hns.SetType]int{hns.IPSet: 0, hns.NestedIPSet: 0}
	for _, set := range stats.Sets {
		if set.Nested {
			byType[hns.NestedIPSet]++
		} else {
			byType[hns.IPSet]++
		}
	}
	gauge(out, s.pending, float64(stats.Pending))
	gauge(out, s.oldest, stats.OldestPending.Seconds())
	for setType, n := range byType {
		gauge(out, s.sets, float64(n), string(setType))
	}
	for _, kind := range []string{"set", "acl"} {
		counter(out, s.found, stats.DriftFound[kind], kind)
		counter(out, s.repaired, stats.DriftRepaired[kind], kind)
		gauge(out, s.damped, float64(stats.Damped[kind]), kind)
	}
	counter(out, s.conflicts, stats.Conflicts.Before, "before")
	counter(out, s.conflicts, stats.Conflicts.After, "after")
	for kind, age := range s.staleness() {
		gauge(out, s.stale, age.Seconds(), kind.String())
	}
}

// clusterState shows what was made of the objects of the cluster, as it is at
// the scrape.
type clusterState struct {
	stats func() state.Stats

	policies, acls, sets, entries, pods *prometheus.Desc
	clusters                            *prometheus.Desc // by tier
	perSet                              *prometheus.Desc // by set_name and set_hash
	mostSets                            int              // limit of sets with a series of their own
}

func newClusterState(o Options, mostSets int) *clusterState {
	return &clusterState{
		stats: o.Stats, mostSets: mostSets,

		policies: desc("npm_num_policies", "NetworkPolicy objects of the cluster."),
		clusters: desc("npm_num_cluster_policies", "ClusterNetworkPolicy objects of the cluster.", "tier"),
		acls:     desc("npm_num_iptables_rules", "ACLs of ours that are on endpoints of this node."),
		sets:     desc("npm_num_ipsets", "Sets of ours in HNS on this node."),
		entries:  desc("npm_num_ipset_entries", "Entries of all sets of ours in HNS on this node."),
		pods:     desc("npm_pods_watched", "Pod objects of the cluster that have not been deleted."),
		perSet: desc("npm_ipset_counts", "Entries of one set in HNS; what the largest 500 leave is summed up under the name others.",
			"set_name", "set_hash"),
	}
}

// Describe implements prometheus.Collector.
func (s *clusterState) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{s.policies, s.clusters, s.acls, s.sets, s.entries, s.pods, s.perSet} {
		out <- d
	}
}

// others names the series of all sets that have none of their own. The
// name of a set begins with a prefix, so that none is called like this.
const others = "others"

// maxSetSeries bounds the series of npm_ipset_counts: the predecessor had one
// per set, too many for some to store.
const maxSetSeries = 500

// Collect implements prometheus.Collector.
func (s *clusterState) Collect(out chan<- prometheus.Metric) {
	stats := s.stats()
	entries := 0
	for _, set := range stats.Sets {
		entries += set.Entries
	}
	gauge(out, s.policies, float64(stats.Policies))
	for _, tier := range []policy.Tier{policy.Admin, policy.Baseline} {
		gauge(out, s.clusters, float64(stats.ClusterPolicies[tier]), tier.String())
	}
	gauge(out, s.acls, float64(stats.ACLs))
	gauge(out, s.sets, float64(len(stats.Sets)))
	gauge(out, s.entries, float64(entries))
	gauge(out, s.pods, float64(stats.Pods))

	own := stats.Sets
	if len(own) > s.mostSets {
		own = slices.SortedFunc(slices.Values(own), func(a, b state.SetStats) int {
			return cmp.Or(cmp.Compare(b.Entries, a.Entries), cmp.Compare(a.ID, b.ID))
		})[:s.mostSets]
	}
	for _, set := range own {
		gauge(out, s.perSet, float64(set.Entries), set.Name, set.ID)
		entries -= set.Entries
	}
	if len(own) < len(stats.Sets) {
		gauge(out, s.perSet, float64(entries), others, others)
	}
}

func gauge(out chan<- prometheus.Metric, d *prometheus.Desc, v float64, labels ...string) {
	out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
}

func counter(out chan<- prometheus.Metric, d *prometheus.Desc, v uint64, labels ...string) {
	out <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(v), labels...)
}
