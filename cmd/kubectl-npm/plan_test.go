package main

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/winnpm/winnpm/tool/cluster"
	"github.com/winnpm/winnpm/tool/plan"
)

// closing is a policy that lets nobody in.
const closing = `{apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, metadata: {name: closed, namespace: x}, spec: {podSelector: {}}}`

// listKinds are the kinds of lists and their versions, by what paths call them.
var listKinds = map[string][2]string{
	"pods": {"PodList", "v1"}, "namespaces": {"NamespaceList", "v1"}, "nodes": {"NodeList", "v1"},
	"networkpolicies":        {"NetworkPolicyList", "networking.k8s.io/v1"},
	"clusternetworkpolicies": {"ClusterNetworkPolicyList", "policy.networking.k8s.io/v1alpha2"},
}

// listServer serves lists of the items of each kind; a kind without an entry is not
// there. It returns a kubeconfig, and what was asked.
func listServer(t *testing.T, items map[string]string) (kubeconfig string, asked *[]string) {
	t.Helper()
	asked = new([]string)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		*asked = append(*asked, r.Method+" "+r.URL.String())
		w.Header().Set("Content-Type", "application/json")
		resource := filepath.Base(r.URL.Path)
		list, ok := items[resource]
		switch {
		case r.URL.Path == "/apis":
			_, _ = io.WriteString(w, `{"kind":"APIGroupList","apiVersion":"v1","groups":[]}`)
		case !ok:
			http.NotFound(w, r)
		default:
			kind := listKinds[resource]
			_, _ = io.WriteString(w, `{"kind":"`+kind[0]+`","apiVersion":"`+kind[1]+`","metadata":{"resourceVersion":"1"},"items":[`+list+`]}`)
		}
	}))
	t.Cleanup(server.Close)
	return kubeconfigOf(t, server.URL), asked
}

// twoPods is a cluster of two pods, one on a Linux node.
func twoPods() map[string]string {
	return map[string]string{
		"pods": `{"metadata":{"name":"web","namespace":"x","uid":"1"},"spec":{"nodeName":"win-1"},"status":{"phase":"Running","podIP":"10.0.0.1"}},
			{"metadata":{"name":"lin","namespace":"x","uid":"2"},"spec":{"nodeName":"lin-1"},"status":{"phase":"Running","podIP":"10.0.0.2"}}`,
		"namespaces":      `{"metadata":{"name":"x"}}`,
		"nodes":           `{"metadata":{"name":"win-1"}},{"metadata":{"name":"lin-1","labels":{"kubernetes.io/os":"linux"}}}`,
		"networkpolicies": ``,
	}
}

// TestPlanReadsAClusterOnly: of a live cluster the plan is the same, and all that
// the API server is asked are seven lists.
func TestPlanReadsAClusterOnly(t *testing.T) {
	items := twoPods()
	// It selects nothing, and is there to be read.
	items["clusternetworkpolicies"] = `{"metadata":{"name":"open"},"spec":{"tier":"Admin","priority":1,"subject":{"namespaces":{"matchLabels":{"a":"b"}}}}}`
	kubeconfig, asked := listServer(t, items)
	code, stdout, stderr := command(t, closing, "plan", "-f", "-", "--kubeconfig", kubeconfig, "-o", "json")
	require.Equal(t, 0, code, stderr)
	var got plan.Plan
	require.NoError(t, json.Unmarshal([]byte(stdout), &got))
	require.Equal(t, []int{2, 2, 1}, []int{got.Connections, got.Between.Blocked, got.NodesSeen})
	require.Len(t, got.Nodes, 1)
	require.Equal(t, "win-1", got.Nodes[0].Node)
	require.Equal(t, []string{
		"GET /api/v1/pods", "GET /api/v1/namespaces", "GET /apis/networking.k8s.io/v1/networkpolicies",
		"GET /apis/policy.networking.k8s.io/v1alpha2/clusternetworkpolicies", "GET /api/v1/nodes",
		"GET /apis/policy.networking.k8s.io/v1alpha1/adminnetworkpolicies?limit=1", "GET /apis/policy.networking.k8s.io/v1alpha1/baselineadminnetworkpolicies?limit=1",
	}, *asked)

	// As a plugin it takes the kubeconfig of kubectl.
	t.Setenv("KUBECONFIG", kubeconfig)
	file := filepath.Join(t.TempDir(), "closing.yaml")
	require.NoError(t, os.WriteFile(file, []byte(closing), 0o600))
	code, byPlugin, stderr := command(t, "", "plan", "-f", file, "-o", "json")
	require.Equal(t, 0, code, stderr)
	require.Equal(t, stdout, byPlugin)
	require.Len(t, *asked, 14)
}

// The ClusterNetworkPolicies of a cluster are in the plan of a change of them. A
// cluster without the kind has none.
func TestPlanOfClusterPolicies(t *testing.T) {
	const shut = `{"metadata":{"name":"shut"},"spec":{"tier":"Admin","priority":1,"subject":{"namespaces":{}},"ingress":[{"action":"Deny","from":[{"namespaces":{}}]}]}}`
	object := `{"apiVersion":"policy.networking.k8s.io/v1alpha2","kind":"ClusterNetworkPolicy",` + shut[1:]
	for _, c := range []struct {
		name, list, want string
		has              bool
	}{
		{"there", shut, "ClusterNetworkPolicy/shut: unchanged\nNothing changes: ", true},
		{"none", "", "ClusterNetworkPolicy/shut: new\nBLOCKED 2; none opened. 2 of 2 connections between 2 pods flip.", true},
		{"no kind", "", "ClusterNetworkPolicy/shut: new\nBLOCKED 2; none opened. 2 of 2 connections between 2 pods flip.", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			items := twoPods()
			if c.has {
				items["clusternetworkpolicies"] = c.list
			}
			kubeconfig, _ := listServer(t, items)
			code, stdout, stderr := command(t, object, "plan", "-f", "-", "--kubeconfig", kubeconfig)
			require.Equal(t, 0, code, stderr)
			require.Contains(t, stdout, c.want)
		})
	}
}

// TestPlanOfAClustersObjects: of a live cluster, pods are of their Deployment by way of its
// ReplicaSet; and the labels that others gave to a namespace stay.
func TestPlanOfAClustersObjects(t *testing.T) {
	items := twoPods()
	items["clusternetworkpolicies"] = ""
	items["pods"] = strings.Replace(items["pods"], `{"name":"web","namespace":"x","uid":"1"}`,
		`{"name":"web-abc-1","namespace":"x","uid":"1","labels":{"app":"web","pod-template-hash":"abc"},"ownerReferences":[{"apiVersion":"apps/v1","kind":"ReplicaSet","name":"web-abc","uid":"r","controller":true}]}`, 1)
	items["namespaces"] = `{"metadata":{"name":"x","labels":{"kubernetes.io/metadata.name":"x","team":"a","zone":"b"},"annotations":{"kubectl.kubernetes.io/last-applied-configuration":"{\"metadata\":{\"labels\":{\"team\":\"a\"}}}"}}}`
	items["networkpolicies"] = `{"metadata":{"name":"web","namespace":"x"},"spec":{"podSelector":{"matchLabels":{"app":"web"}},"ingress":[{"from":[{"namespaceSelector":{"matchLabels":{"zone":"b"}}}]}]}}`
	kubeconfig, asked := listServer(t, items)
	got := func(text string) plan.Plan {
		code, stdout, stderr := command(t, text, "plan", "-f", "-", "--kubeconfig", kubeconfig, "-o", "json")
		require.Equal(t, 0, code, stderr)
		var p plan.Plan
		require.NoError(t, json.Unmarshal([]byte(stdout), &p))
		return p
	}
	p := got(`{apiVersion: apps/v1, kind: Deployment, metadata: {name: web, namespace: x}, spec: {replicas: 2, template: {metadata: {labels: {app: web}}}}}`)
	require.Equal(t, []cluster.ObjectChange{{Kind: "Deployment", Object: "x/web", Change: "changed", Pods: 2, New: 1}}, p.Objects)
	require.Equal(t, []string{"", "win-1"}, []string{p.Nodes[0].Node, p.Nodes[1].Node}, "nobody knows on which node the new one will be")
	require.Zero(t, p.Flipped)
	require.Len(t, *asked, 7, "no more is asked for than for policies")

	p = got(`{apiVersion: apps/v1, kind: Deployment, metadata: {name: web, namespace: x}, spec: {replicas: 1, template: {metadata: {labels: {app: wbe}}}}}`)
	require.Equal(t, plan.Tally{Flipped: 1, Opened: 1}, p.Tally, "the policy selects it no more, so addresses outside come in")
	require.Zero(t, p.NewPods.Pods)

	p = got(`{apiVersion: v1, kind: Namespace, metadata: {name: x, labels: {team: c}}}`)
	require.Equal(t, "changed", p.Objects[0].Change)
	require.Zero(t, p.Flipped, "zone: b is somebody else's and stays")
}

// TestFailOn: what is not known after a change counts as opened and as blocked, so that a
// gate of CI stays shut for it.
func TestFailOn(t *testing.T) {
	for name, tc := range map[string]struct {
		of                   plan.Tally
		opened, blocked, any bool
	}{
		"nothing":   {plan.Tally{}, false, false, false},
		"opened":    {plan.Tally{Flipped: 1, Opened: 1}, true, false, true},
		"blocked":   {plan.Tally{Flipped: 1, Blocked: 1}, false, true, true},
		"not known": {plan.Tally{Flipped: 1, Unknown: 1}, true, true, true},
	} {
		for on, want := range map[string]bool{"opened": tc.opened, "blocked": tc.blocked, "any": tc.any, "": false} {
			o := planOptions{failOn: on}
			require.Equal(t, want, o.fails(plan.Plan{Tally: tc.of}), "%s, --fail-on %q", name, on)
		}
	}
}
