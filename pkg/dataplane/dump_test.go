package dataplane_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/pkg/policy"
	"github.com/winnpm/winnpm/pkg/state"
	"github.com/winnpm/winnpm/test/hnsfault"
	"github.com/winnpm/winnpm/tool/match"
)

// explained is a policy two of whose rules make one ACL, and another direction
// that counts its rules for itself.
const explained = `{podSelector: {matchLabels: {app: db}}, policyTypes: [Ingress, Egress], ingress: [
  {from: [{podSelector: {matchLabels: {app: web}}}], ports: [{port: 80}]},
  {from: [{ipBlock: {cidr: 10.9.0.0/16}}]},
  {from: [{podSelector: {matchLabels: {app: web}}}], ports: [{port: 80}]}],
  egress: [{to: [{podSelector: {}}], ports: [{port: http}]}]}`

// TestDumpExplains: what an explanation needs is in the dump, and only where
// there is something to explain.
func TestDumpExplains(t *testing.T) {
	w := newWorld(t)
	w.do("namespace x", "node 10.8.0.1", "endpoint ep 10.0.0.1", "pod x/db 10.0.0.1 app=db",
		"pod x/web 10.0.1.1 app=web port=http:8080 remote", "policy x/p "+explained,
		"policy x/idle {podSelector: {matchLabels: {app: none}}, ingress: [{from: [{podSelector: {}}, {namespaceSelector: {}}]}]}", "apply")
	d := w.dp.Dump()
	idle := slices.IndexFunc(d.Policies, func(p state.PolicyDump) bool { return p.Policy == "x/idle" })
	require.Equal(t, 2, d.Policies[idle].Rules)
	require.True(t, d.Policies[idle].Ingress)
	require.Empty(t, d.Policies[idle].Selected)
	d.Policies = slices.Delete(d.Policies, idle, idle+1)
	require.Equal(t, w.now, d.Time)
	require.Equal(t, []string{"http:8080/TCP"}, d.Pods[1].Ports)
	require.Len(t, d.Policies[0].Spec.Ingress, 3)
	ep := d.Endpoints[0]
	require.Equal(t, map[string][]int{
		"azure-acl-npm-node": nil, "azure-acl-npm-block-in": nil, "azure-acl-npm-block-out": nil,
		"x.p In podlabel": {0, 2}, "x.p In 10.9.0.0/16": {1}, "x.p Out": {0},
	}, rulesOf(ep))
	require.Len(t, ep.ForeignRules, ep.Foreign, "the CNI's are all rules")
	require.False(t, ep.Tiered)
	require.Zero(t, ep.Since)
	for _, s := range d.Sets {
		require.Empty(t, s.Missing, s.Name)
		require.Empty(t, s.Surplus, s.Name)
		require.False(t, s.Unknown, s.Name)
		require.Zero(t, s.Since, s.Name)
	}

	// A set that HNS rejects to write, and rules of which nobody knows.
	w.do("wait 1m", "pod x/w2 10.0.1.2 app=web remote", "delete pod x/web", "fault SetPolicy/Update * refuse", "! apply")
	d = w.dp.Dump()
	web := setOf(t, d, "podlabel-app:web")
	require.Equal(t, []string{"10.0.1.2"}, web.Missing)
	require.Equal(t, []string{"10.0.1.1"}, web.Surplus)
	require.Equal(t, w.now, web.Since)
	w.settle()
	w.do("foreign ep TierAcl {}", "observe", "apply", "wait 1m",
		"delete policy x/p", "before ACL/Update ep fault Endpoint/Get ep refuse", "! apply")
	ep = w.dp.Dump().Endpoints[0]
	require.Len(t, ep.Maybe, 2, "the old list or the new one")
	require.Len(t, ep.Maybe[0], 6)
	require.Empty(t, ep.Maybe[1])
	require.Equal(t, w.now, ep.Since)
	require.True(t, ep.Tiered)
}

// rulesOf names the wanted ACLs and says which rules they came from.
func rulesOf(ep state.EndpointDump) map[string][]int {
	out := map[string][]int{}
	for i, a := range ep.Wanted {
		name := a.ID
		if key, ok := match.PolicyOfACL(a.ID); ok {
			name = key.Namespace + "." + key.Name + " " + string(a.Direction)
			switch {
			case a.Direction == hns.Out:
			case a.RemoteAddresses != "":
				name += " " + a.RemoteAddresses
			default:
				name += " podlabel"
			}
		}
		out[name] = ep.Sources[i].Rules
	}
	return out
}

func setOf(t *testing.T, d state.Dump, name string) state.SetDump {
	t.Helper()
	for _, s := range d.Sets {
		if s.Name == name {
			return s
		}
	}
	t.Fatalf("no set %s", name)
	return state.SetDump{}
}

// TestDumpHasNoNull: scripts read the dump's JSON; a list without entries is []
// there.
func TestDumpHasNoNull(t *testing.T) {
	w := dWorld(t)
	w.do(`policy x/p {podSelector: {matchLabels: {app: nobody}}, ingress: [{from: [{podSelector: {matchLabels: {app: none}}}]}]}`, "pod x/waits 10.0.0.9", "fault ACL/Add ep-1 refuse", "apply",
		"pod x/w1 10.0.0.1 app=nobody", "! apply")
	text, err := json.Marshal(w.dp.Dump())
	require.NoError(t, err)
	require.NotContains(t, string(text), "null")
	require.Contains(t, string(text), `"members":[]`)
}

const webFromAPI = `{podSelector: {matchLabels: {app: web}}, ingress: [{from: [{podSelector: {matchLabels: {app: api}}}]}]}`

// The numbers are those of HNS: sets with the bytes of their values, rules that
// are really on endpoints.
func TestStats(t *testing.T) {
	w := dWorld(t)
	require.Empty(t, w.dp.Stats().Sets)
	w.do("node 10.1.0.4", "policy x/p "+webFromAPI, "apply")
	got := w.dp.Stats()

	want := state.Stats{
		Policies: 1, ClusterPolicies: map[policy.Tier]int{}, Pods: 7, ACLs: 9, // node, block and rule on three endpoints
		DriftFound: map[string]uint64{"set": 0, "acl": 0}, DriftRepaired: map[string]uint64{"set": 0, "acl": 0},
		Damped: map[string]int{"set": 0, "acl": 0},
	}
	for _, p := range w.sim.Sets() {
		want.Sets = append(want.Sets, state.SetStats{ID: p.ID, Name: p.Name, Nested: p.Type == hns.NestedIPSet, Entries: len(p.Values)})
	}
	require.Len(t, want.Sets, 2)
	require.Empty(t, cmp.Diff(want, got))
}

// pinned counts the sets that a pending update may need.
func pinned(d state.Dump) (n int) {
	for _, s := range d.Sets {
		if len(s.Pins) > 0 {
			n++
		}
	}
	return n
}

// While an endpoint cannot be written its update is pending, for as long as it
// has been, and its sets are pinned; what came later is not held up by it.
func TestStatsOfAFailure(t *testing.T) {
	w := dWorld(t)
	w.sim.Inject(hnsfault.Fault{Op: "ACL/Add", Target: "ep-2", Times: -1})
	w.do("policy x/p "+webFromAPI, "! apply")
	failed := w.report
	require.Equal(t, failed.Generation, failed.Unprogrammed)
	w.now = w.now.Add(7 * time.Second)
	stats := w.dp.Stats()
	require.Equal(t, 1, stats.Pending)
	require.Equal(t, 7*time.Second, stats.OldestPending)
	require.Equal(t, 2, pinned(w.dp.Dump()))

	w.do("pod x/w4 10.0.0.44 app=web", "! apply")
	require.Equal(t, failed.Generation, w.report.Unprogrammed, "a pod without an endpoint is nothing to program")
	w.now = w.now.Add(3 * time.Second)
	stats = w.dp.Stats()
	require.Equal(t, 2, stats.Pending)
	require.Equal(t, 10*time.Second, stats.OldestPending, "since the first failure, not the last")
}

func TestChanges(t *testing.T) {
	p := "policy x/p " + webFromAPI
	w := newWorld(t)
	change := func(kind, operation string, n int) state.ObjectChange {
		return state.ObjectChange{Kind: kind, Operation: operation, Count: n}
	}
	w.do("endpoint ep-1 10.0.0.1", "node 10.1.0.4", "namespace x team=x", "pod x/a 10.0.0.1 app=web", "pod x/b 10.0.0.2 remote", p, "apply")
	require.Equal(t, []state.ObjectChange{
		change("namespace", "create", 1), change("node", "create", 1), change("pod", "create", 2), change("policy", "create", 1),
	}, w.report.Changes)
	require.Equal(t, []state.EndpointSeen{{ID: "ep-1", Addr: "10.0.0.1"}}, w.report.NewEndpoints)

	w.do("node 10.1.0.5", "namespace x team=y", "pod x/a 10.0.0.1 app=api", "delete pod x/b", p, "apply")
	require.Equal(t, []state.ObjectChange{
		change("namespace", "update", 1), change("node", "update", 1), change("pod", "delete", 1), change("pod", "update", 1), change("policy", "update", 1),
	}, w.report.Changes)
	require.Empty(t, w.report.NewEndpoints, "told once")

	w.do("node 10.1.0.5", "namespace x team=y", "delete pod x/none", "delete namespace none", "apply")
	require.Empty(t, w.report.Changes, "nothing changed")
}

// ipv6World is a node with a policy that has so many peers of IPv6, on one of its pods.
func ipv6World(t *testing.T, peers int) *world {
	t.Helper()
	from := make([]string, peers)
	for i := range from {
		from[i] = fmt.Sprintf("{ipBlock: {cidr: 'fd00::%x/128'}}", i)
	}
	w := newWorld(t)
	w.do("namespace x", "endpoint ep 10.0.0.1", "pod x/web 10.0.0.1", `policy x/p {podSelector: {}, ingress: [{from: [`+strings.Join(from, ", ")+`], ports: [{port: 80, protocol: ICMP}]}]}`, "apply")
	return w
}

// TestOneWarningForEachReason: of ten thousand parts of a policy that are left out the
// user is told once for each reason, with the first and a count, and what others do
// costs nothing more for that.
func TestOneWarningForEachReason(t *testing.T) {
	w := ipv6World(t, 10_000)
	require.Len(t, w.report.Warnings, 2)
	require.Contains(t, w.report.Warnings[0].Message, `spec.ingress[0].from[0].ipBlock.cidr: "fd00::0/128" is of IPv6`)
	require.Contains(t, w.report.Warnings[0].Message, "(the first of 10000 in this policy)")
	require.Contains(t, w.report.Warnings[1].Message, "unknown protocol")
	require.NotContains(t, w.report.Warnings[1].Message, "the first of")
	require.Len(t, w.dp.Dump().Policies[0].Problems, policy.MaxProblems+1)
	require.Equal(t, w.report.Warnings, w.dp.Dump().Warnings)

	allocs := func(w *world) float64 {
		n := 0
		return testing.AllocsPerRun(20, func() { // each event asks HNS for nothing
			n++
			w.do(fmt.Sprintf("pod elsewhere/r 10.0.9.9 version=%d remote", n), "apply")
		})
	}
	few, many := allocs(ipv6World(t, 2)), allocs(w)
	t.Logf("%.0f allocations with 2 peers, %.0f with 10,000", few, many)
	require.LessOrEqual(t, many, few+10)
	w.do("delete policy x/p", "apply")
	require.Empty(t, w.report.Warnings)
}
