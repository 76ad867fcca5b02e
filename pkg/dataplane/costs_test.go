package dataplane_test

import (
	"fmt"
	"net/netip"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"github.com/winnpm/winnpm/pkg/dataplane"
	"github.com/winnpm/winnpm/pkg/desired"
	"github.com/winnpm/winnpm/pkg/policy"
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
	calls := w.sim.Calls()
	require.Len(t, calls, 1)
	require.Less(t, calls[0].Bytes, 400)
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

// TestCostOfARemotePodEvent counts allocations, which stand for the work that
// asks HNS for nothing: the event of a pod that is in no set of a rule costs as
// much on a node with many isolated pods as on one with two.
func TestCostOfARemotePodEvent(t *testing.T) {
	small, large := podEventAllocs(t, 2), podEventAllocs(t, 100)
	t.Logf("%.0f allocations with 2 pods, %.0f with 100", small, large)
	// To render one endpoint with its policies takes more than that.
	require.LessOrEqual(t, large, small+10)
}

// podEventAllocs returns what such an event allocates on average, on a node
// with so many isolated pods.
func podEventAllocs(t *testing.T, locals int) float64 {
	const policies = 10
	w := newWorld(t)
	w.do("namespace x")
	for i := range policies {
		w.do(fmt.Sprintf("policy x/p%d {podSelector: {}, ingress: [{from: [{podSelector: {matchLabels: {app: a%d}}}, {namespaceSelector: {}}]}]}", i, i))
	}
	for i := range locals {
		w.do(fmt.Sprintf("endpoint ep-%d 10.0.0.%d", i, i+1), fmt.Sprintf("pod x/p%d 10.0.0.%d", i, i+1))
	}
	w.do("apply")
	n := 0
	return testing.AllocsPerRun(50, func() {
		n++
		tx := dataplane.NewTransaction()
		tx.SetPod(desired.Pod{
			Namespace: "elsewhere", Name: "r", UID: "r", Addr: netip.MustParseAddr("10.0.9.9"),
			Labels: map[string]string{"version": fmt.Sprint(n)},
		})
		report, err := w.dp.ApplyDataplane(t.Context(), tx)
		require.NoError(t, err)
		require.Empty(t, report.Calls)
	})
}

// bombs are policies of so many terms each of which stands for every pod of a cluster,
// every namespace, or every number of a named port.
var bombs = map[string]struct {
	terms int
	spec  string // %s: the terms
	term  string // %d: which
}{
	"40 negative peers": {40, `ingress: [{from: [%s]}]`,
		`{namespaceSelector: {}, podSelector: {matchExpressions: [{key: app, operator: NotIn, values: [no-%d]}]}}`},
	"150 negative peers": {150, `ingress: [{from: [%s]}]`,
		`{namespaceSelector: {}, podSelector: {matchExpressions: [{key: app, operator: NotIn, values: [no-%d]}]}}`},
	"1000 namespace selectors": {1000, `ingress: [{from: [%s]}]`,
		`{namespaceSelector: {matchExpressions: [{key: team, operator: NotIn, values: [no-%d]}]}}`},
	"1000 values": {1000, `ingress: [{from: [{namespaceSelector: {}, podSelector: {matchExpressions: [{key: app, operator: In, values: [%s]}]}}]}]`,
		`app-%d`},
	"a named port in 4 places": {4, `policyTypes: [Egress], egress: [%s]`,
		`{to: [{ipBlock: {cidr: 10.0.0.0/%d}}], ports: [{port: http}]}`},
	"1000 blocks": {1000, `ingress: [{from: [%s]}]`,
		`{ipBlock: {cidr: %d.0.0.0/8, except: [%[1]d.7.0.0/24]}}`},
}

// TestIdlePolicyCostsItsText: among 10,000 pods, a policy that selects none of this
// node has no set, and no more memory than a small multiple of its text, the decoded
// object included. After a pod of the node came under it and left again, the same.
func TestIdlePolicyCostsItsText(t *testing.T) {
	effort.Unraced(t)
	for name, bomb := range effort.Some(effort.Of(2, 100), bombs) {
		t.Run(name, func(t *testing.T) {
			terms := make([]string, bomb.terms)
			for i := range terms {
				terms[i] = fmt.Sprintf(bomb.term, i%200+1)
				if !strings.Contains(bomb.term, "cidr") {
					terms[i] = fmt.Sprintf(bomb.term, i)
				}
			}
			text := fmt.Sprintf(`{podSelector: {matchLabels: {app: bomb}}, `+bomb.spec+`}`, strings.Join(terms, ", "))
			w := newWorld(t)
			w.tx = cluster10k()
			w.do("apply")

			empty := heap()
			np := &networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "x", Name: "bomb"}}
			require.NoError(t, yaml.Unmarshal([]byte(text), &np.Spec))
			w.tx.SetPolicy(np)
			w.do("apply")
			idle := heap() - empty
			require.Empty(t, w.dp.Dump().Sets)

			w.do("pod x/local 10.9.0.1 app=bomb", "apply")
			active := heap() - empty
			w.do("delete pod x/local", "apply")
			again := heap() - empty
			require.Empty(t, w.dp.Dump().Sets)
			runtime.KeepAlive(w)

			t.Logf("%d B of text: %d B idle, %d B active, %d B idle again", len(text), idle, active, again)
			bound := 2*len(text) + 64<<10
			require.LessOrEqual(t, idle, bound)
			require.LessOrEqual(t, again, bound+active/4, "maps keep their buckets")
		})
	}
}

// cluster10k returns a transaction of 10,000 pods in 1,000 namespaces. Each serves http
// under a number of its own.
func cluster10k() *dataplane.Transaction {
	tx := dataplane.NewTransaction()
	for i := range 1000 {
		tx.SetNamespace(desired.Namespace{Name: fmt.Sprint("ns-", i), Labels: map[string]string{"team": fmt.Sprint(i)}})
	}
	for i := range 10000 {
		tx.SetPod(desired.Pod{
			Namespace: fmt.Sprint("ns-", i%1000), Name: fmt.Sprint("pod-", i), UID: types.UID(fmt.Sprint("uid-", i)),
			Addr:   netip.AddrFrom4([4]byte{10, 0, byte(i >> 8), byte(i)}),
			Labels: map[string]string{"app": fmt.Sprint("app-", i%500)},
			Ports:  []desired.PodPort{{Name: "http", Protocol: policy.TCP, Number: uint16(1 + i)}},
		})
	}
	return tx
}

// heap returns how many bytes are live.
func heap() int {
	runtime.GC()
	runtime.GC() // the second ends what the first left to be swept
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc)
}
