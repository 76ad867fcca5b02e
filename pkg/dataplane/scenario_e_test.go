package dataplane_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"github.com/winnpm/winnpm/pkg/dataplane"
	"github.com/winnpm/winnpm/test/effort"
)

// TestScenario_E1_OneAddressJoinsABusySet: a set used by 500 policies on 100
// local pods costs one set request and no ACL request.
func TestScenario_E1_OneAddressJoinsABusySet(t *testing.T) {
	policies, locals := effort.Of(100, 500), effort.Of(20, 100)
	w := newWorld(t)
	w.do("namespace x", "pod x/api 10.1.0.1 app=api remote")
	for i := range locals {
		w.do(fmt.Sprintf("endpoint ep-%d 10.0.0.%d", i, i+1), fmt.Sprintf("pod x/p%d 10.0.0.%d", i, i+1))
	}
	for i := range policies {
		w.do(fmt.Sprintf("policy x/p%d {podSelector: {}, ingress: [{from: [{podSelector: {matchLabels: {app: api}}}], ports: [{port: %d}]}]}", i, i+1))
	}
	w.do("apply", "pod x/api2 10.1.0.2 app=api remote", "apply", "calls SetPolicy/Update=1")
	require.Zero(t, w.report.Calls["Endpoint/Enumerate"]+w.report.Calls["Endpoint/Get"]+w.report.Calls["Network/Get"])
}

// TestScenario_E2_RelabelOfARemotePod: at most two requests, bytes by the sets
// that it leaves and joins.
func TestScenario_E2_RelabelOfARemotePod(t *testing.T) {
	w := newWorld(t)
	w.do("namespace x", "endpoint ep 10.0.0.1", "pod x/web 10.0.0.1 app=web", `policy x/p {podSelector: {matchLabels: {app: web}}, ingress: [{from: [{podSelector: {matchLabels: {app: a}}}, {podSelector: {matchLabels: {app: b}}}, {podSelector: {matchLabels: {app: big}}}]}]}`, "pod x/r 10.1.0.1 app=a remote")
	for i := range 1000 {
		w.do(fmt.Sprintf("pod y/big%d 10.2.%d.%d app=big remote", i, i/250, i%250+1))
	}
	w.do("apply", "pod x/r 10.1.0.1 app=b remote", "apply", "calls SetPolicy/Update=1")
	require.Less(t, bytesOf(w.sim), 400)
}

// TestScenario_E3_NoProgrammedSetTouched: zero requests.
func TestScenario_E3_NoProgrammedSetTouched(t *testing.T) {
	w := newWorld(t)
	w.do("namespace x", "endpoint ep 10.0.0.1", "pod x/web 10.0.0.1 app=web", `policy x/p {podSelector: {matchLabels: {app: web}}, ingress: [{from: [{podSelector: {matchLabels: {app: api}}}]}]}`, `policy x/elsewhere {podSelector: {matchLabels: {app: none}}, ingress: [{from: [{podSelector: {matchLabels: {app: other}}}]}]}`, "apply")
	w.do("pod y/r 10.1.0.1 app=other remote", "apply")
	require.Empty(t, w.report.Calls)
	w.do("pod y/r 10.1.0.1 app=another remote", "apply")
	require.Empty(t, w.report.Calls)
}

// TestScenario_E4_OnePolicyOnThirtyPods: at most four set requests and thirty
// endpoint writes.
func TestScenario_E4_OnePolicyOnThirtyPods(t *testing.T) {
	w := newWorld(t)
	w.do("namespace x", "namespace y team=a")
	for i := range 30 {
		w.do(fmt.Sprintf("endpoint ep-%d 10.0.0.%d", i, i+1), fmt.Sprintf("pod x/p%d 10.0.0.%d app=a", i, i+1))
	}
	w.do("apply", `policy x/p {podSelector: {}, ingress: [{from: [{podSelector: {matchExpressions: [{key: app, operator: In, values: [a, b]}]}}, {namespaceSelector: {matchLabels: {team: a}}, podSelector: {matchExpressions: [{key: app, operator: NotIn, values: [a]}]}}]}]}`, "apply")
	sets := w.report.Calls["SetPolicy/Add"] + w.report.Calls["SetPolicy/Update"]
	require.LessOrEqual(t, sets, 4)
	require.Equal(t, 30, w.writes()-sets)
}

// TestScenario_E5_ColdStart: 20,000 pods, 110 local, 500 policies.
func TestScenario_E5_ColdStart(t *testing.T) {
	w := coldStart(t, effort.Of(2000, 20_000), 110, effort.Of(50, 500))
	w.do("apply")
	sets := len(w.sim.Sets())
	require.LessOrEqual(t, w.report.Calls["SetPolicy/Add"]+w.report.Calls["SetPolicy/Update"], 4*(sets+999)/1000)
	require.LessOrEqual(t, w.report.Calls["ACL/Add"], 110)
	require.Zero(t, w.report.Calls["ACL/Update"])
	require.Equal(t, 1, w.report.Calls["Endpoint/Enumerate"])
	require.Equal(t, 1, w.report.Calls["Network/Get"])
	require.Equal(t, 110+w.report.Calls["ACL/Add"], w.report.Calls["Endpoint/Get"], "once, and once after each write")
	require.True(t, w.report.Converged())
	w.do("apply")
	require.Empty(t, w.report.Calls)
}

// TestScenario_E6_Restart: on the node of E5 nothing is written, and all that is
// read is the network and the list of endpoints, once.
func TestScenario_E6_Restart(t *testing.T) {
	pods, local, policies := effort.Of(2000, 20_000), 110, effort.Of(50, 500)
	w := coldStart(t, pods, local, policies)
	w.do("apply")
	before := w.sim.Dump()
	w.do("restart")
	w.sim.ResetCalls()
	w.stageCluster(pods, local, policies)
	w.do("apply")
	require.True(t, w.report.Converged())
	require.Equal(t, map[string]int{"Network/Get": 1, "Endpoint/Enumerate": 1, "Endpoint/Get": 110}, w.report.Calls)
	require.Equal(t, w.report.Calls, w.sim.Counts())
	require.Empty(t, cmp.Diff(before, w.sim.Dump()))
	w.do("observe", "apply", "calls")
}

// coldStart stages a cluster: fifty namespaces, policies that each select one
// workload of one namespace.
func coldStart(t testing.TB, pods, local, policies int) *world {
	w := newWorld(t)
	for i := range local {
		w.do(fmt.Sprintf("endpoint ep-%d 10.%d.%d.%d", i, i>>16, i>>8&255, i&255))
	}
	w.stageCluster(pods, local, policies)
	return w
}

func (w *world) stageCluster(pods, local, policies int) {
	for i := range 50 {
		w.do(fmt.Sprintf("namespace ns%d team=t%d", i, i%10))
	}
	for i := range pods {
		line := fmt.Sprintf("pod ns%d/p%d 10.%d.%d.%d app=app%d", i%50, i, i>>16, i>>8&255, i&255, i/50%40)
		if i >= local {
			line += " remote"
		}
		w.do(line)
	}
	for i := range policies {
		w.do(fmt.Sprintf("policy ns%d/p%d {podSelector: {matchLabels: {app: app%d}}, ingress: [{from: [{podSelector: {matchLabels: {app: app%d}}}, {namespaceSelector: {matchLabels: {team: t%d}}}], ports: [{port: %d}]}]}",
			i%50, i, i%40, (i+1)%40, i%10, i%1000+1))
	}
}

// BenchmarkStage stages one event a time: a pod of another node becomes one of
// another workload, and so leaves sets and joins others, or its labels are none that
// a policy asks for.
func BenchmarkStage(b *testing.B) {
	for _, n := range []struct{ pods, policies int }{{1000, 500}, {100_000, 5000}} {
		b.Run(fmt.Sprintf("pods=%d/policies=%d", n.pods, n.policies), func(b *testing.B) {
			dp := newCrowd(b, n.pods, n.policies)
			var took []time.Duration
			i := 0
			for b.Loop() {
				i++
				pod := crowdPod(1+i%999, i) // not local
				pod.Labels["app"] = fmt.Sprint("app-", i%500)
				tx := dataplane.NewTransaction()
				tx.SetPod(pod)
				took = append(took, dp.Stage(tx))
			}
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)/2].Nanoseconds()), "p50-ns")
			b.ReportMetric(float64(took[len(took)*99/100].Nanoseconds()), "p99-ns")
		})
	}
}
