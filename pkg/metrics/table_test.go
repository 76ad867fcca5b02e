package metrics

import (
	"fmt"
	"maps"
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
	"go.uber.org/goleak"

	"github.com/winnpm/winnpm/pkg/controllers"
	"github.com/winnpm/winnpm/pkg/state"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// row is one metric as it is gathered. Labels come with all their values at the
// start, in the order of their names.
type row struct{ name, kind, labels, help string }

const (
	operations = "operation=create,delete,update"
	hadError   = "had_error=false,true"
	dllOps     = "operation=ACL/Add,ACL/Update,Endpoint/Close,Endpoint/Enumerate,Endpoint/EnumerateNew,Endpoint/Get,Network/Get,SetPolicy/Add,SetPolicy/Remove,SetPolicy/Update"
	hnsOps     = "operation=ACL/Add,ACL/Update,Endpoint/Enumerate,Endpoint/EnumerateNew,Endpoint/Get,Network/Get,SetPolicy/Add,SetPolicy/Remove,SetPolicy/Update"
	hnsClasses = "class=already_exists,conflict,elsewhere,in_use,invalid,not_found,unavailable,unlisted "
)

var clusterTable = []row{
	{"npm_ipset_counts", "GAUGE", "set_hash=id set_name=ns-x", "Entries of one set in HNS; what the largest 500 leave is summed up under the name others."},
	{"npm_num_cluster_policies", "GAUGE", "tier=Admin,Baseline", "ClusterNetworkPolicy objects of the cluster."},
	{"npm_num_ipset_entries", "GAUGE", "", "Entries of all sets of ours in HNS on this node."},
	{"npm_num_ipsets", "GAUGE", "", "Sets of ours in HNS on this node."},
	{"npm_num_iptables_rules", "GAUGE", "", "ACLs of ours that are on endpoints of this node."},
	{"npm_num_policies", "GAUGE", "", "NetworkPolicy objects of the cluster."},
	{"npm_pods_watched", "GAUGE", "", "Pod objects of the cluster that have not been deleted."},
}

var nodeTable = []row{
	{"npm_add_ipset_exec_time", "SUMMARY", "", "Milliseconds of a call that adds sets."},
	{"npm_add_iptables_rule_exec_time", "SUMMARY", "", "Milliseconds of a call that writes ACLs of an endpoint."},
	{"npm_add_policy_exec_time", "SUMMARY", hadError, "Milliseconds of the transaction that brought a new or changed policy in."},
	{"npm_build_info", "GAUGE", "goversion=go version=1.2.3", "Always 1; the labels say which program this is."},
	{"npm_cni_claims_total", "COUNTER", "result=failed,hung_up,late,ready", "Claims of the CNI plugin for pods that start, by how they ended."},
	{"npm_controller_namespace_exec_time", "SUMMARY", hadError + " " + operations, "Milliseconds of the transaction that brought the change of a namespace in."},
	{"npm_controller_pod_exec_time", "SUMMARY", hadError + " " + operations, "Milliseconds of the transaction that brought the change of a pod in."},
	{"npm_controller_policy_exec_time", "SUMMARY", hadError + " " + operations, "Milliseconds of the transaction that brought the change of a policy in."},
	{"npm_disputed_objects", "GAUGE", "kind=acl,set", "Objects of ours in HNS that somebody else keeps changing, so that repair waits longer each time."},
	{"npm_drift_found_total", "COUNTER", "kind=acl,set", "Objects of ours in HNS that somebody else changed."},
	{"npm_drift_repaired_total", "COUNTER", "kind=acl,set", "Objects of ours in HNS that somebody else changed and that were written again."},
	{"npm_event_to_programmed_seconds", "HISTOGRAM", "", "Time from an event of the API server until all that follows from it is in HNS."},
	{"npm_hns_calls_total", "COUNTER", hnsOps, "Calls of HNS that were begun."},
	{"npm_hns_conflicts_total", "COUNTER", "when=after,before", "Writes to endpoints that somebody else came in between: not made, or made and then something else was there."},
	{"npm_hns_errors_total", "COUNTER", hnsClasses + hnsOps, "Calls of HNS that ended in an error, answers like not_found included."},
	{"npm_informer_staleness_seconds", "GAUGE", "kind=namespaces,networkpolicies,nodes,pods", "Time since the API server last said something about a kind of objects."},
	{"npm_oldest_pending_pod_update_seconds", "GAUGE", "", "Age of the oldest update of a pod that is not in HNS yet; 0 when there is none."},
	{"npm_pending_pod_updates", "GAUGE", "", "Updates of pods that are not in HNS yet, pods without an endpoint included."},
	{"npm_pod_start_open_seconds", "HISTOGRAM", "cni=false,true", "Time from when the address of a pod that policies isolate was known until HNS had its rules. cni=true: the CNI told of it, and the pod waited."},
	{"npm_programmed_sets", "GAUGE", "type=IPSET,NESTEDIPSET", "Sets of ours in HNS, by HNS's type."},
	{"npm_warnings", "GAUGE", "reason=AddressContested,ForeignWrites,HNSRejected,HNSUnavailable,IPv6Blocked,IPv6Peer,Invalid,NodesUnknown,OverBudget,UnsupportedPeer", "Active warnings: what users asked for and HNS does not have, left out or not programmed yet."},
	{"npm_windows_acl_failure_total", "COUNTER", "operation=create,update", "Failed calls for writing the ACLs of an endpoint."},
	{"npm_windows_acl_latency_seconds", "HISTOGRAM", "operation=create,update", "Duration of calls for writing the ACLs of an endpoint, failed ones included."},
	{"npm_windows_get_endpoint_failure_total", "COUNTER", "", "Failed calls for reading one endpoint."},
	{"npm_windows_get_endpoint_latency_seconds", "HISTOGRAM", "", "Duration of calls for reading one endpoint, failed ones included."},
	{"npm_windows_get_network_failure_total", "COUNTER", "", "Failed calls for reading the network."},
	{"npm_windows_get_network_latency_seconds", "HISTOGRAM", "", "Duration of calls for reading the network, failed ones included."},
	{"npm_windows_list_endpoints_failure_total", "COUNTER", "", "Failed calls for finding the endpoints of the network."},
	{"npm_windows_list_endpoints_latency_seconds", "HISTOGRAM", "", "Duration of calls for finding the endpoints of the network, failed ones included."},
	{"npm_windows_setpolicy_failure_total", "COUNTER", "is_nested=false,true " + operations, "Failed calls for writing sets of the network."},
	{"npm_windows_setpolicy_latency_seconds", "HISTOGRAM", "is_nested=false,true " + operations, "Duration of calls for writing sets of the network, failed ones included."},
}

// quiet is an agent that has done nothing yet, but for one set, and one refusal.
func quiet() Options {
	return Options{
		Version: "1.2.3",
		Stats: func() state.Stats {
			return state.Stats{Sets: []state.SetStats{{ID: "id", Name: "ns-x"}}}
		},
		Staleness: func() map[controllers.Kind]time.Duration {
			return map[controllers.Kind]time.Duration{
				controllers.KindPod: 0, controllers.KindNamespace: 0, controllers.KindPolicy: 0, controllers.KindNode: 0,
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

var goVersion = regexp.MustCompile(`^goversion=go\S+`)

// rowOf reads a metric back. Every combination of the labels' values must have
// a series.
func rowOf(t *testing.T, f *dto.MetricFamily) row {
	t.Helper()
	values := map[string]map[string]bool{}
	for _, m := range f.GetMetric() {
		for _, l := range m.GetLabel() {
			if values[l.GetName()] == nil {
				values[l.GetName()] = map[string]bool{}
			}
			values[l.GetName()][l.GetValue()] = true
		}
	}
	combinations := 1
	var labels []string
	for _, name := range slices.Sorted(maps.Keys(values)) {
		combinations *= len(values[name])
		labels = append(labels, name+"="+strings.Join(slices.Sorted(maps.Keys(values[name])), ","))
	}
	require.Len(t, f.GetMetric(), combinations, "%s: a series is missing", f.GetName())
	text := goVersion.ReplaceAllString(strings.Join(labels, " "), "goversion=go")
	return row{f.GetName(), f.GetType().String(), text, f.GetHelp()}
}

func TestTable(t *testing.T) {
	t.Parallel()
	m := New(quiet())
	for name, test := range map[string]struct {
		registry *prometheus.Registry
		want     []row
	}{
		"cluster": {m.cluster, clusterTable},
		"node":    {m.node, nodeTable},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var got []row
			for _, f := range gather(t, test.registry) {
				got = append(got, rowOf(t, f))
			}
			require.Empty(t, cmp.Diff(test.want, got, cmp.AllowUnexported(row{})))
		})
	}
}

// TestBuckets: dashboards of the predecessor ask for these, and a minute must
// not fall over the edge.
func TestBuckets(t *testing.T) {
	t.Parallel()
	edges := map[string][2]float64{}
	for _, f := range gather(t, New(quiet()).node) {
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
	m := New(quiet())
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
	require.NoError(t, pedantic.Register(newNodeState(quiet())))
	require.NoError(t, pedantic.Register(newClusterState(quiet(), maxSetSeries)))
	require.NotEmpty(t, gather(t, pedantic))
}

func TestHandlers(t *testing.T) {
	t.Parallel()
	m := New(quiet())
	for name, test := range map[string]struct {
		handler    http.Handler
		has, lacks string
	}{
		"node":    {m.Node(), "npm_hns_calls_total{operation=\"ACL/Add\"} 0\n", "npm_num_policies"},
		"public":  {m.PublicCluster(), "\nnpm_num_policies 0\n", "npm_hns_calls_total"},
		"cluster": {m.Cluster(), "\nnpm_num_policies 0\n", "npm_hns_calls_total"},
	} {
		rec := httptest.NewRecorder()
		test.handler.ServeHTTP(rec, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil))
		require.Equal(t, http.StatusOK, rec.Code, name)
		require.Contains(t, rec.Body.String(), test.has, name)
		require.NotContains(t, rec.Body.String(), test.lacks, name)
		require.NotContains(t, rec.Body.String(), "go_goroutines", name)
	}
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
	for _, r := range slices.Concat(nodeTable, clusterTable) {
		labels := []string{}
		for label := range strings.FieldsSeq(r.labels) {
			name, _, _ := strings.Cut(label, "=")
			labels = append(labels, name)
		}
		slices.Sort(labels)
		want = append(want, fmt.Sprint(r.name, " ", strings.ToLower(r.kind), labels))
	}
	slices.Sort(documented)
	slices.Sort(want)
	require.Empty(t, cmp.Diff(want, documented))
}
