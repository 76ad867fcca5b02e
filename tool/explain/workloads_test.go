package explain_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/pkg/state"
	"github.com/winnpm/winnpm/tool/explain"
)

// pod returns one of this node that owns its address.
func pod(name, addr string, labels map[string]string) state.PodDump {
	return state.PodDump{Pod: name, Addr: addr, Labels: labels, Local: true, Owner: true}
}

func labels(pairs ...string) map[string]string {
	out := map[string]string{}
	for i := 0; i < len(pairs); i += 2 {
		out[pairs[i]] = pairs[i+1]
	}
	return out
}

func grouped(d state.Dump) map[string][]string {
	out := map[string][]string{}
	for _, w := range explain.Workloads(explain.New(d)) {
		out[w.Name] = w.Pods
	}
	return out
}

func TestWorkloadsAreNamedAfterTheirOwners(t *testing.T) {
	const hash = "pod-template-hash"
	d := state.Dump{Pods: []state.PodDump{
		pod("x/web-7f-a1", "10.0.0.1", labels("app", "web", hash, "7f")),
		pod("x/web-7f-b2", "10.0.0.2", labels("app", "web", hash, "7f")),
		pod("x/web-8e-c3", "10.0.0.3", labels("app", "web", hash, "8e")),
		pod("x/db-0", "10.0.0.4", labels("app", "db", "statefulset.kubernetes.io/pod-name", "db-0", "controller-revision-hash", "db-1")),
		pod("x/agent-zz", "10.0.0.5", labels("controller-revision-hash", "1", "pod-template-generation", "3")),
		pod("x/cache-0", "10.0.0.6", labels("app", "cache")),
		pod("x/cache-1", "10.0.0.7", labels("app", "cache")),
		pod("x/tool", "10.0.0.8", labels("app", "tool")),
		pod("x/tool-2", "10.0.0.9", labels("app", "tool")),
		pod("x/alpha", "10.0.0.10", nil),
		pod("x/beta", "10.0.0.11", nil),
		pod("y/web-7f-a1", "10.0.0.12", labels("app", "web", hash, "7f")),
		pod("y/web-9a-a1", "10.0.0.13", labels("app", "web", "tier", "2", hash, "9a")),
		pod("y/web-9b-a1", "10.0.0.14", labels("app", "web", "tier", "3", hash, "9b")),
	}}
	require.Equal(t, map[string][]string{
		"x/web":   {"x/web-7f-a1", "x/web-7f-b2", "x/web-8e-c3"},
		"x/db":    {"x/db-0"},
		"x/agent": {"x/agent-zz"},
		"x/cache": {"x/cache-0", "x/cache-1"},
		"x/tool":  {"x/tool", "x/tool-2"},
		"x/alpha": {"x/alpha"},
		"x/beta":  {"x/beta"},
		"y/web":   {"y/web-7f-a1"},
		"y/web#2": {"y/web-9a-a1"},
		"y/web#3": {"y/web-9b-a1"},
	}, grouped(d))
}

// TestWhoIsInNoWorkload: those that share what they have with others, or have
// nothing.
func TestWhoIsInNoWorkload(t *testing.T) {
	host, done, none, late, six := pod("x/host", "10.9.0.1", nil), pod("x/done", "10.0.0.2", nil), pod("x/none", "", nil), pod("x/late", "10.0.0.1", nil), pod("x/six", "fd00::1", nil)
	host.HostNetwork, done.Finished, late.Owner = true, true, false
	require.Equal(t, map[string][]string{"x/web": {"x/web"}}, grouped(state.Dump{
		Pods: []state.PodDump{host, done, none, late, six, pod("x/web", "10.0.0.1", nil)},
	}))
}

// TestABlockCutsAWorkload, and what is in HNS does, where it is behind.
func TestABlockCutsAWorkload(t *testing.T) {
	d := state.Dump{}
	for i := range 8 {
		d.Pods = append(d.Pods, pod(fmt.Sprintf("x/web-%d", i), fmt.Sprintf("10.0.0.%d", i), labels("app", "web")))
	}
	require.Len(t, grouped(d), 1)
	d.Endpoints = []state.EndpointDump{{ID: "e", Known: true, Wanted: []hns.ACL{{RemoteAddresses: "10.0.0.4/30,10.0.0.1"}}}}
	d.Pods[7].Endpoints = []string{"e"} // and so another end than the others
	require.Equal(t, map[string][]string{
		"x/web":   {"x/web-0", "x/web-2", "x/web-3"},
		"x/web#2": {"x/web-1", "x/web-4", "x/web-5", "x/web-6"},
		"x/web-7": {"x/web-7"},
	}, grouped(d))
	d.Endpoints[0].Wanted = []hns.ACL{{LocalAddresses: "azure-npm-1"}}
	d.Sets = []state.SetDump{{ID: "azure-npm-1", Name: "podlabel-app:web", Type: "IPSET", InHNS: true, Members: []string{"10.0.0.0", "10.0.0.1", "10.0.0.2"}, Missing: []string{"10.0.0.2"}}}
	require.Equal(t, map[string][]string{
		"x/web":   {"x/web-0", "x/web-1"},
		"x/web#2": {"x/web-3", "x/web-4", "x/web-5", "x/web-6"},
		"x/web-2": {"x/web-2"},
		"x/web-7": {"x/web-7"},
	}, grouped(d))
}

// TestRulesTellPodsApart: what is, what should be, and what may be.
func TestRulesTellPodsApart(t *testing.T) {
	a, b := []hns.ACL{{ID: "a"}}, []hns.ACL{{ID: "b"}, {ID: "a"}}
	swapped := []hns.ACL{{ID: "a"}, {ID: "b"}}
	for _, tc := range []struct {
		one, other state.EndpointDump
		same       bool
	}{
		{state.EndpointDump{Known: true, Applied: b}, state.EndpointDump{Known: true, Applied: swapped}, true},
		{state.EndpointDump{Known: true, Applied: a}, state.EndpointDump{Known: true, Applied: b}, false},
		{state.EndpointDump{Known: true, Wanted: a}, state.EndpointDump{Known: true, Wanted: b}, false},
		{state.EndpointDump{Known: true, ForeignRules: a}, state.EndpointDump{Known: true, ForeignRules: b}, false},
		{state.EndpointDump{Known: true, Tiered: true}, state.EndpointDump{Known: true}, false},
		{state.EndpointDump{Known: true}, state.EndpointDump{}, false},
		{state.EndpointDump{Maybe: [][]hns.ACL{a, b}}, state.EndpointDump{Maybe: [][]hns.ACL{a}}, false},
		{state.EndpointDump{Maybe: [][]hns.ACL{a, b}}, state.EndpointDump{Maybe: [][]hns.ACL{a, swapped}}, true},
	} {
		tc.one.ID, tc.other.ID = "1", "2"
		d := state.Dump{
			Pods:      []state.PodDump{pod("x/web-1", "10.0.0.1", nil), pod("x/web-2", "10.0.0.2", nil)},
			Endpoints: []state.EndpointDump{tc.one, tc.other},
		}
		d.Pods[0].Endpoints, d.Pods[1].Endpoints = []string{"1"}, []string{"2"}
		require.Equal(t, tc.same, len(grouped(d)) == 1, "%+v", tc)
	}
}

// A verdict about a pod whose address is contested is no verdict about the others.
func TestContestedPodIsNoWorkloadOfOthers(t *testing.T) {
	contested := pod("x/cache-0", "10.0.0.6", labels("app", "cache"))
	contested.InDoubt = true
	d := state.Dump{Pods: []state.PodDump{contested, pod("x/cache-1", "10.0.0.7", labels("app", "cache"))}}
	require.Equal(t, map[string][]string{"x/cache-0": {"x/cache-0"}, "x/cache-1": {"x/cache-1"}}, grouped(d))
}
