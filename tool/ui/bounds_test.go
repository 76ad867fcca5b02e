package ui

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/pkg/state"
	"github.com/winnpm/winnpm/test/effort"
)

// tenThousand is a cluster of 10,000 pods of 1,000 workloads in 100 namespaces, and 1,000
// policies of which most select nobody here. 200 pods are of this node; each lets everybody
// in to ports of its own, so many as a rule has.
func tenThousand(ports int) state.Dump {
	const namespaces, workloads, pods, local = 100, 10, 10, 200
	d := state.Dump{Node: "n1"}
	everybody := state.SetDump{ID: "azure-npm-all", Name: "nslabel-all-namespaces", Type: string(hns.IPSet), InHNS: true}
	for n := range namespaces {
		namespace := fmt.Sprintf("team-%02d", n)
		d.Namespaces = append(d.Namespaces, state.NamespaceDump{Name: namespace})
		for w := range workloads {
			app := map[string]string{"app": fmt.Sprintf("app-%d", w)}
			policy := state.PolicyDump{Policy: fmt.Sprintf("%s/app-%d", namespace, w), Ingress: true, Rules: 1, Spec: &networkingv1.NetworkPolicySpec{PodSelector: metav1.LabelSelector{MatchLabels: app}}}
			everybody.Holders = append(everybody.Holders, "selector "+policy.Policy)
			for i := range pods {
				number := (n*workloads+w)*pods + i
				pod := state.PodDump{Pod: fmt.Sprintf("%s/app-%d-%d", namespace, w, i), Addr: fmt.Sprintf("10.%d.%d.1", number/250, number%250), Labels: app, Owner: true}
				everybody.Members = append(everybody.Members, pod.Addr)
				if number%(namespaces*workloads*pods/local) == 0 {
					pod.Local, pod.Endpoints = true, []string{pod.Addr}
					policy.Selected = append(policy.Selected, pod.Pod)
					d.Endpoints = append(d.Endpoints, guardedEndpoint(pod, policy.Policy, number, ports))
				}
				d.Pods = append(d.Pods, pod)
			}
			d.Policies = append(d.Policies, policy)
		}
	}
	d.Sets = append(d.Sets, everybody)
	for i := range 3000 {
		d.Sets = append(d.Sets, state.SetDump{ID: fmt.Sprintf("azure-npm-%d", i), Name: fmt.Sprintf("podlabel-app:app-%d", i), Type: string(hns.IPSet), Unknown: true})
		d.Warnings = append(d.Warnings, state.Warning{Object: fmt.Sprintf("x/%d", i), Kind: "NetworkPolicy", Reason: state.ReasonOverBudget, Message: "too much"})
	}
	return d
}

func guardedEndpoint(pod state.PodDump, policy string, number, ports int) state.EndpointDump {
	id := "azure-acl-" + strings.Replace(policy, "/", ".", 1)
	rules := []hns.ACL{{ID: id, Action: hns.Block, Direction: hns.In, RuleType: hns.Switch, Priority: 3000}}
	for i := range ports {
		rules = append(rules, hns.ACL{ID: id, Action: hns.Allow, Direction: hns.In, RuleType: hns.Switch, Priority: 222, Protocols: "6", LocalPorts: fmt.Sprint(1000 + number + 2*i), LocalAddresses: "azure-npm-all"})
	}
	open := []hns.ACL{{Action: hns.Allow, Direction: hns.In, RuleType: hns.Switch, Priority: 65500}, {Action: hns.Allow, Direction: hns.Out, RuleType: hns.Switch, Priority: 65500}}
	return state.EndpointDump{ID: pod.Addr, Addrs: []string{pod.Addr}, Pod: pod.Pod, Known: true, Applied: rules, Wanted: rules, ForeignRules: open}
}

// maxAnswer is how long any answer is, in bytes, and answerTime how long one may take on two
// cores that others use too.
const (
	maxAnswer  = 1 << 20
	answerTime = 45 * time.Second
)

// TestTenThousandPods: no answer grows with the cluster, also when a tenant tells many ports
// apart.
func TestTenThousandPods(t *testing.T) {
	effort.Unraced(t)
	sizes := []int{2}
	if effort.Deep() {
		sizes = append(sizes, 60)
	}
	for _, ports := range sizes {
		h := handler(tenThousand(ports))
		bodies := map[string][]byte{}
		for _, path := range []string{
			"status", "pods", "pods?filter=team", "pods/team-00/app-0-0", "policies", "policies/team-00/app-0",
			"matrix", "matrix?here=any", "matrix?here=from", "matrix?here=any&port=80",
		} {
			began := time.Now()
			rec := get(t, h, "/api/"+path)
			took := time.Since(began)
			require.Equal(t, http.StatusOK, rec.Code, path)
			bodies[path] = rec.Body.Bytes()
			t.Logf("%d ports, %s: %d bytes, %v", ports, path, rec.Body.Len(), took)
			require.Less(t, rec.Body.Len(), maxAnswer, path)
			require.Less(t, took, answerTime, path)
		}
		var g grid
		require.NoError(t, json.Unmarshal(bodies["matrix?here=any"], &g))
		require.True(t, g.Cut)
		require.LessOrEqual(t, len(g.PortTexts), maxTexts+1)
		require.NoError(t, json.Unmarshal(get(t, h, "/api/matrix?here=to").Body.Bytes(), &g))
		require.Len(t, g.Columns, 200)
		require.Len(t, g.Rows, maxCells/200, "what one side leaves over the other one has")
	}
}

// TestLists: a list has so many, what needs a look in front, and counts the others.
func TestLists(t *testing.T) {
	h := handler(tenThousand(1))
	var pods listing[podEntry]
	require.NoError(t, json.Unmarshal(get(t, h, "/api/pods?filter=TEAM-07/").Body.Bytes(), &pods))
	require.Equal(t, []int{10000, 100, 0, 100}, []int{pods.Total, pods.Found, pods.Trouble, len(pods.Entries)})
	require.NoError(t, json.Unmarshal(get(t, h, "/api/pods").Body.Bytes(), &pods))
	require.Equal(t, []int{10000, 10000, 0, maxListed}, []int{pods.Total, pods.Found, pods.Trouble, len(pods.Entries)})
	d := tenThousand(1)
	d.Pending = []state.Pending{{Pod: "team-99/app-5-0"}}
	h = handler(d)
	require.NoError(t, json.Unmarshal(get(t, h, "/api/pods").Body.Bytes(), &pods))
	require.Equal(t, 1, pods.Trouble)
}

// TestSides: no matrix is larger than its bounds, and none smaller than it has to be.
func TestSides(t *testing.T) {
	for _, tc := range []struct{ rows, columns, wantRows, wantColumns int }{
		{0, 0, 0, 0},
		{250, 250, 250, 250},
		{5000, 5000, 250, 250},
		{5000, 10, 2000, 10},
		{5000, 100, 625, 100},
		{100, 5000, 100, 625},
		{251, 249, 251, 249},
		{5000, 0, 2000, 0},
	} {
		rows, columns := sides(tc.rows, tc.columns)
		require.Equal(t, []int{tc.wantRows, tc.wantColumns}, []int{rows, columns}, tc)
		require.LessOrEqual(t, rows*columns, maxCells)
	}
}
