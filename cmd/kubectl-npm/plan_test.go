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
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/network-policy-api/apis/v1alpha2"

	"github.com/winnpm/winnpm/pkg/state"
	"github.com/winnpm/winnpm/tool/whatif"
)

// policies of which one is in the shop already, and one is new.
const (
	oldPolicy = `{apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, metadata: {name: default-deny, namespace: shop}, spec: {podSelector: {}, policyTypes: [Ingress, Egress]}}`
	newPolicy = `{apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, metadata: {name: open, namespace: monitoring}, spec: {podSelector: {}, ingress: [{}]}}`
	outside   = `{apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, metadata: {name: outside, namespace: shop}, spec: {podSelector: {matchLabels: {app: db}}, ingress: [{from: [{ipBlock: {cidr: 203.0.113.0/24}}]}]}}`
	closing   = `{apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, metadata: {name: closed, namespace: x}, spec: {podSelector: {}}}`
	sixPolicy = `{apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, metadata: {name: six, namespace: sandbox}, spec: {podSelector: {}, ingress: [{from: [{ipBlock: {cidr: 'fd00::/8'}}]}]}}`
	badPolicy = `{apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, metadata: {name: bad, namespace: sandbox}, spec: {podSelector: {}, ingres: []}}`
	adminDeny = `{apiVersion: policy.networking.k8s.io/v1alpha2, kind: ClusterNetworkPolicy, metadata: {name: no-toolbox}, spec: {tier: Admin, priority: 1, subject: {namespaces: {}}}}`
	badAdmin  = `{apiVersion: policy.networking.k8s.io/v1alpha2, kind: ClusterNetworkPolicy, metadata: {name: bad}, spec: {tier: Admin, subject: {namespaces: {}}}}`
	older     = `{apiVersion: policy.networking.k8s.io/v1alpha1, kind: AdminNetworkPolicy, metadata: {name: older}}`
	aService  = `{apiVersion: v1, kind: Service, metadata: {name: web}}`
)

// filesIn returns what writes documents to a file of a folder, and returns its path.
func filesIn(t *testing.T, dir string) func(name string, documents ...string) string {
	return func(name string, documents ...string) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, []byte(strings.Join(documents, "\n---\n")), 0o600))
		return path
	}
}

func TestPlan(t *testing.T) {
	dir := t.TempDir()
	file := filesIn(t, dir)
	dump := savedDump(t, same)
	fresh, old, both := file("new.yaml", newPolicy), file("old.yaml", oldPolicy), file("both.yaml", strings.Replace(aService, "Service", "ConfigMap", 1), newPolicy)
	tiered := savedDump(t, func(d *state.Dump) {
		d.ClusterPolicies = []state.ClusterPolicy{{Name: "no-toolbox", Spec: &v1alpha2.ClusterNetworkPolicySpec{
			Tier: v1alpha2.AdminTier, Priority: 1, Subject: v1alpha2.ClusterNetworkPolicySubject{Namespaces: &metav1.LabelSelector{}},
		}}}
	})
	for _, tc := range []struct {
		name, args string
		code       int
		stdout     string // a part of it; "" for nothing at all
		stderr     string // the line; "" for nothing at all
	}{
		{"manifests", "-f " + fresh + " --manifests " + shop, 0, "monitoring/open: new\nOPENED 8, 2 of them with addresses outside; none blocked. 6 of 272 connections between 17 pods flip. ", ""},
		{"a dump", "-f " + fresh + " --dump " + dump, 0, "monitoring/open: new\nOPENED 8, 2 of them with addresses outside; none blocked. 6 of 272 connections between 17 pods flip. ", ""},
		{"stdin", "-f - --manifests " + shop, 0, "monitoring/open: new\n", ""},
		{"unchanged", "-f " + old + " --manifests " + shop, 0, "shop/default-deny: unchanged\nNothing changes: ", ""},
		{"delete", "-f " + old + " --delete --manifests " + shop, 0, "shop/default-deny: deleted\n", ""},
		{"delete what is not there", "-f " + fresh + " --delete --manifests " + shop, 1, "", "kubectl npm: plan: " + fresh + ":1: NetworkPolicy monitoring/open is not there, so there is nothing to delete; check namespace and name"},
		{"fail on opened", "-f " + fresh + " --fail-on opened --manifests " + shop, 5, "OPENED 8", ""},
		{"fail on nothing", "-f " + old + " --fail-on any --manifests " + shop, 0, "Nothing changes: ", ""},
		{"fail on what", "-f " + old + " --fail-on open --manifests " + shop, 2, "", `kubectl npm: plan: --fail-on "open": give opened, blocked or any`},
		{"outside alone", "-f " + file("outside.yaml", outside) + " --fail-on opened --manifests " + shop, 5, "OPENED 1, 1 of them with addresses outside; none blocked. 0 of 272 connections between 17 pods flip.", ""},
		{"outside alone in JSON", "-f " + file("outside.yaml", outside) + " -o json --manifests " + shop, 0, `"flipped":1,"opened":1,"blocked":0,"betweenPods":{"flipped":0,"opened":0,"blocked":0},"withOutside":{"flipped":1,"opened":1,"blocked":0}`, ""},
		{"a namespace that is not there", "-f " + file("misspelt.yaml", strings.Replace(newPolicy, "namespace: monitoring", "namespace: monitorin", 1)) + " --manifests " + shop, 3,
			"monitorin/open: new, selects no pod\nNothing changes: none of 272 connections between 17 pods flips, and no node is written to.\n\nWARNINGS (1)\n  NetworkPolicy monitorin/open: NoNamespace: the cluster has no namespace monitorin, so the policy cannot be applied there; did you mean monitoring?\n", ""},
		{"a selector without pods", "-f " + file("idle.yaml", strings.Replace(newPolicy, "podSelector: {}", "podSelector: {matchLabels: {app: nosuch}}", 1)) + " --manifests " + shop, 0, "monitoring/open: new, selects no pod\n", ""},
		{"a node that is not there", "-f " + fresh + " --node win-11 --manifests " + shop, 1, "", "kubectl npm: plan: " + shop + `: no Node is called "win-11"; did you mean win-1?`},
		{"markdown", "-f " + fresh + " -o markdown --manifests " + shop, 0, "**OPENED 8, 2 of them with addresses outside; none blocked. 6 of 272 connections between 17 pods flip. 1 of 2 nodes written to.**\n\n- monitoring/open: new\n\n| from | to | flips between pods |\n|---|---|---|\n| kube-system/coredns (2 pods), sandbox/toolbox (1 pod) | monitoring/agent-0 (1 pod) | all ports  blocked -&#62; allowed by monitoring/open |\n", ""},
		{"others are skipped", "-f " + both + " --manifests " + shop, 0, "ConfigMap web: SkippedKind: " + both + " document 1: kind ConfigMap of v1 is none that is read and is skipped", ""},
		{"nothing else", "-f " + file("service.yaml", aService) + " --manifests " + shop, 1, "", "kubectl npm: plan: " + filepath.Join(dir, "service.yaml") + ": there is nothing to plan: no policy, Namespace, Node, Pod or workload"},
		{"not expressible", "-f " + file("six.yaml", sixPolicy) + " --manifests " + shop, 3, "WARNINGS (1)\n  NetworkPolicy sandbox/six: IPv6Peer: ", ""},
		{"a cluster policy", "-f " + file("admin.yaml", adminDeny) + " --manifests " + shop, 0, "ClusterNetworkPolicy/no-toolbox: new\n", ""},
		{"delete a cluster policy that is not there", "-f " + file("admin.yaml", adminDeny) + " --delete --manifests " + shop, 1, "", "kubectl npm: plan: " + filepath.Join(dir, "admin.yaml") + ":1: ClusterNetworkPolicy no-toolbox is not there, so there is nothing to delete; check its name"},
		{"delete a cluster policy of a dump", "-f " + file("admin.yaml", adminDeny) + " --delete --dump " + tiered, 0, "ClusterNetworkPolicy/no-toolbox: deleted\n", ""},
		{"a bad cluster policy", "-f " + file("bad-admin.yaml", badAdmin) + " --manifests " + shop, 1, "", "kubectl npm: plan: " + filepath.Join(dir, "bad-admin.yaml") + ":1: document 1: ClusterNetworkPolicy bad: spec.priority: Required value"},
		{"not enforced", "-f " + file("older.yaml", older, newPolicy) + " --manifests " + shop, 3, "WARNINGS (1)\n  AdminNetworkPolicy older: NotEnforced: ", ""},
		{"bad input", "-f " + file("bad.yaml", badPolicy) + " --manifests " + shop, 1, "", "kubectl npm: plan: " + filepath.Join(dir, "bad.yaml") + `:1: document 1: NetworkPolicy sandbox/bad: spec.ingres: unknown field; did you mean ingress?`},
		{"no policy", "--manifests " + shop, 2, "", "kubectl npm: plan: nothing to plan: give -f PATH of objects, or -k DIR of a kustomization"},
		{"output", "-f x -o xml", 2, "", `kubectl npm: plan: -o "xml": the output is text, markdown, json or yaml`},
		{"stdin twice", "-f - --manifests -", 2, "", "kubectl npm: plan: -f - and the cluster cannot both be on stdin: put one of them into a file"},
		{"two clusters", "-f x --kubeconfig a --manifests b", 2, "", "kubectl npm: plan: --kubeconfig and --manifests exclude each other: give one of them"},
		{"a node of a dump", "-f x --dump a --node n1", 2, "", "kubectl npm: plan: --node is for --manifests and clusters: a dump is of its own node"},
		{"no kubeconfig", "-f " + fresh + " --kubeconfig " + filepath.Join(dir, "none"), 1, "", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			code, stdout, stderr := command(t, newPolicy, strings.Fields("plan "+tc.args)...)
			require.Equal(t, tc.code, code, stderr)
			require.Contains(t, stdout, tc.stdout)
			require.Equal(t, tc.stdout == "", stdout == "")
			if tc.stderr != "" {
				require.Equal(t, tc.stderr+"\n", stderr)
			}
			require.Equal(t, tc.code == 1 || tc.code == 2, strings.Count(stderr, "\n") == 1, stderr)
		})
	}
}

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
	kubeconfig = filepath.Join(t.TempDir(), "config")
	require.NoError(t, os.WriteFile(kubeconfig, []byte(`{apiVersion: v1, kind: Config, current-context: a, contexts: [{name: a, context: {cluster: a}}],
clusters: [{name: a, cluster: {server: "`+server.URL+`"}}]}`), 0o600))
	return kubeconfig, asked
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
// the API server is asked are five lists.
func TestPlanReadsAClusterOnly(t *testing.T) {
	items := twoPods()
	// It selects nothing, and is there to be read.
	items["clusternetworkpolicies"] = `{"metadata":{"name":"open"},"spec":{"tier":"Admin","priority":1,"subject":{"namespaces":{"matchLabels":{"a":"b"}}}}}`
	kubeconfig, asked := listServer(t, items)
	code, stdout, stderr := command(t, closing, "plan", "-f", "-", "--kubeconfig", kubeconfig, "-o", "json")
	require.Equal(t, 0, code, stderr)
	var plan whatif.Plan
	require.NoError(t, json.Unmarshal([]byte(stdout), &plan))
	require.Equal(t, []int{2, 2, 1}, []int{plan.Connections, plan.Between.Blocked, plan.NodesSeen})
	require.Len(t, plan.Nodes, 1)
	require.Equal(t, "win-1", plan.Nodes[0].Node)
	require.Equal(t, []string{
		"GET /api/v1/pods", "GET /api/v1/namespaces", "GET /apis/networking.k8s.io/v1/networkpolicies",
		"GET /apis/policy.networking.k8s.io/v1alpha2/clusternetworkpolicies", "GET /api/v1/nodes",
	}, *asked)

	// As a plugin it takes the kubeconfig of kubectl.
	t.Setenv("KUBECONFIG", kubeconfig)
	file := filepath.Join(t.TempDir(), "closing.yaml")
	require.NoError(t, os.WriteFile(file, []byte(closing), 0o600))
	code, byPlugin, stderr := command(t, "", "plan", "-f", file, "-o", "json")
	require.Equal(t, 0, code, stderr)
	require.Equal(t, stdout, byPlugin)
	require.Len(t, *asked, 10)
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
