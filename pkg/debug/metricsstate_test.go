package debug

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"github.com/winnpm/winnpm/pkg/policy"
	"github.com/winnpm/winnpm/pkg/state"
)

// of returns the metrics of a fixed state.
func of(stats state.Stats, stale map[string]time.Duration) *Metrics {
	o := quiet()
	o.Stats = func() state.Stats { return stats }
	o.Staleness = func() map[string]time.Duration { return stale }
	return NewMetrics(o)
}

func TestState(t *testing.T) {
	t.Parallel()
	m := of(state.Stats{
		Policies: 2, ClusterPolicies: map[policy.Tier]int{policy.Admin: 73}, Pods: 3, ACLs: 5, Pending: 7, OldestPending: 1500 * time.Millisecond,
		Sets: []state.SetStats{
			{ID: "azure-npm-1", Name: "ns-x", Entries: 13},
			{ID: "azure-npm-2", Name: "nslabel-a", Nested: true, Entries: 19},
			{ID: "azure-npm-3", Name: "podlabel-a"},
		},
		DriftFound:    map[string]uint64{"set": 29, "acl": 31},
		DriftRepaired: map[string]uint64{"set": 37, "acl": 41},
		Conflicts:     state.Conflicts{Before: 43, After: 47},
		Damped:        map[string]int{"set": 43, "acl": 47},
	}, map[string]time.Duration{"pods": time.Minute, "networkpolicies": 2 * time.Second})

	require.Empty(t, cmp.Diff(map[string]float64{
		"npm_num_policies":                                               2,
		`npm_num_cluster_policies{tier="Admin"}`:                         73,
		`npm_num_cluster_policies{tier="Baseline"}`:                      0,
		"npm_num_iptables_rules":                                         5,
		"npm_num_ipsets":                                                 3,
		"npm_num_ipset_entries":                                          32,
		"npm_pods_watched":                                               3,
		`npm_ipset_counts{set_hash="azure-npm-1",set_name="ns-x"}`:       13,
		`npm_ipset_counts{set_hash="azure-npm-2",set_name="nslabel-a"}`:  19,
		`npm_ipset_counts{set_hash="azure-npm-3",set_name="podlabel-a"}`: 0,
	}, read(t, m.cluster)))
	require.Empty(t, cmp.Diff(map[string]float64{
		"npm_pending_pod_updates":                                7,
		"npm_oldest_pending_pod_update_seconds":                  1.5,
		`npm_programmed_sets{type="IPSET"}`:                      2,
		`npm_programmed_sets{type="NESTEDIPSET"}`:                1,
		`npm_drift_found_total{kind="set"}`:                      29,
		`npm_drift_found_total{kind="acl"}`:                      31,
		`npm_drift_repaired_total{kind="set"}`:                   37,
		`npm_drift_repaired_total{kind="acl"}`:                   41,
		`npm_hns_conflicts_total{when="before"}`:                 43,
		`npm_hns_conflicts_total{when="after"}`:                  47,
		`npm_disputed_objects{kind="set"}`:                       43,
		`npm_disputed_objects{kind="acl"}`:                       47,
		`npm_informer_staleness_seconds{kind="pods"}`:            60,
		`npm_informer_staleness_seconds{kind="networkpolicies"}`: 2,
	}, with(read(t, m.node), "npm_pending", "npm_oldest", "npm_programmed", "npm_drift", "npm_disputed", "npm_hns_conflicts", "npm_informer")))
}

// TestSetSeries: the largest sets have a series each, the rest has one, and the
// sum is that of all.
func TestSetSeries(t *testing.T) {
	t.Parallel()
	for _, n := range []int{0, maxSetSeries, maxSetSeries + 1, 3 * maxSetSeries} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			t.Parallel()
			var stats state.Stats
			total := 0.
			for i := range n { // in the order of names, not of sizes
				entries := (i*7919)%n + 1 // 1 to n, each once: 7919 is a prime that divides no n
				stats.Sets = append(stats.Sets, state.SetStats{ID: fmt.Sprintf("id-%04d", i), Name: fmt.Sprintf("ns-%04d", i), Entries: entries})
				total += float64(entries)
			}
			series := with(read(t, of(stats, nil).cluster), "npm_ipset_counts")
			require.Len(t, series, min(n, maxSetSeries+1))
			rest, hasRest := series[`npm_ipset_counts{set_hash="others",set_name="others"}`]
			require.Equal(t, n > maxSetSeries, hasRest)
			left := max(n-maxSetSeries, 0)
			require.InDelta(t, left*(left+1)/2, rest, 0, "the smallest are summed up")
			sum := 0.
			for _, v := range series {
				sum += v
			}
			require.InDelta(t, total, sum, 0)
		})
	}
}

// TestPublicSetsAreOneSum: the page for other machines names no set, and has the rest of /cluster-metrics.
func TestPublicSetsAreOneSum(t *testing.T) {
	t.Parallel()
	m := of(state.Stats{Policies: 3, Pods: 2, Sets: []state.SetStats{{ID: "azure-npm-1", Name: "ns-shop", Entries: 3}, {ID: "azure-npm-2", Name: "podlabel-tier:db", Entries: 4}}}, nil)
	all, public := read(t, m.cluster), read(t, m.public)
	require.Contains(t, all, `npm_ipset_counts{set_hash="azure-npm-1",set_name="ns-shop"}`)
	require.Equal(t, map[string]float64{`npm_ipset_counts{set_hash="others",set_name="others"}`: 7}, with(public, "npm_ipset_counts"))
	for name, value := range all {
		if !strings.HasPrefix(name, "npm_ipset_counts{") {
			require.InDelta(t, value, public[name], 0, name)
		}
	}
	require.Len(t, public, len(all)-1)
}

// TestSetSeriesStay: of sets of one size the same have a series at every scrape.
func TestSetSeriesStay(t *testing.T) {
	t.Parallel()
	var stats, turned state.Stats
	for i := range 2 * maxSetSeries {
		set := state.SetStats{ID: fmt.Sprintf("id-%04d", i), Name: fmt.Sprintf("ns-%04d", i), Entries: 1}
		stats.Sets = append(stats.Sets, set)
		turned.Sets = append([]state.SetStats{set}, turned.Sets...)
	}
	require.Empty(t, cmp.Diff(read(t, of(stats, nil).cluster), read(t, of(turned, nil).cluster)))
	require.Equal(t, fmt.Sprintf("id-%04d", 2*maxSetSeries-1), turned.Sets[0].ID, "the caller's slice keeps its order")
}
