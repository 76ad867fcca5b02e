package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/winnpm/winnpm/tool/whatif"
)

// Objects that are no policies.
const (
	oneMore = `{apiVersion: apps/v1, kind: Deployment, metadata: {name: storefront, namespace: shop}, spec: {replicas: 3, selector: {matchLabels: {app: storefront}},
 template: {metadata: {labels: {app: storefront, tier: web}}, spec: {containers: [{name: web, image: a, ports: [{name: http, containerPort: 80}]}]}}}}`
	calledAPI = `{apiVersion: apps/v1, kind: Deployment, metadata: {name: audit, namespace: shop}, spec: {replicas: 2, selector: {matchLabels: {app: api}}, template: {metadata: {labels: {app: api}}}}}`
	trusted   = `{apiVersion: v1, kind: Namespace, metadata: {name: sandbox, labels: {team: shop}}}`
	toolbox   = `{apiVersion: v1, kind: Pod, metadata: {name: toolbox, namespace: sandbox, labels: {app: tool}}}`
	noToolbox = `{apiVersion: v1, kind: Pod, metadata: {name: toolbx, namespace: sandbox}}`
	nowhere   = `{apiVersion: apps/v1, kind: Deployment, metadata: {name: web, namespace: shoop}, spec: {template: {metadata: {labels: {app: api}}}}}`
	nightly   = `{apiVersion: batch/v1, kind: CronJob, metadata: {name: nightly, namespace: shop}, spec: {jobTemplate: {spec: {template: {metadata: {labels: {queue: orders}}}}}}}`
)

// TestPlanOfObjects: pods, namespaces and workloads are planned as policies are, and new and
// deleted pods are told apart from what flips.
func TestPlanOfObjects(t *testing.T) {
	dir := t.TempDir()
	file := filesIn(t, dir)
	dump := savedDump(t, same)
	more, audit, ns := file("more.yaml", oneMore), file("audit.yaml", calledAPI), file("ns.yaml", trusted)
	gone := file("gone.yaml", noToolbox)
	for _, tc := range []struct {
		name, args string
		code       int
		stdout     string // a part of it; "" for nothing at all
		stderr     string // the line
	}{
		{"a scale-up", "-f " + more + " --fail-on opened --manifests " + shop, 0, "Deployment shop/storefront: changed, 3 pods, 1 of them new\nNO FLIPS among 272 connections between 17 pods, nor with addresses outside. 1 of 2 nodes written to.\nNEW PODS 1: 6 connections allowed; policies of pods that stay let 6 of them through.\n", ""},
		{"fail on any", "-f " + more + " --fail-on any --manifests " + shop, 5, "NO FLIPS", ""},
		{"labels that a policy lets in", "-f " + audit + " --manifests " + shop, 0, "NEW PODS 2: 10 connections allowed; policies of pods that stay let 10 of them through.\n", ""},
		{"in JSON", "-f " + audit + " -o json --manifests " + shop, 0, `"newPods":{"pods":2,"allowed":10,"withOutside":0,"byPolicy":10},"deletedPods":{"pods":0,"allowed":0,"withOutside":0,"byPolicy":0}`, ""},
		{"in Markdown", "-f " + audit + " -o markdown --manifests " + shop, 0, "**NEW PODS 2: 10 connections allowed; policies of pods that stay let 10 of them through.**\n\n- Deployment shop/audit: new, 2 pods\n\n| from | to | connections of new pods |\n|---|---|---|\n", ""},
		{"labels of a namespace", "-f " + ns + " --fail-on opened --manifests " + shop, 5, "Namespace sandbox: changed, 1 pod\nOPENED 1; none blocked. 1 of 272 connections between 17 pods flip.", ""},
		{"labels of a pod", "-f " + file("pod.yaml", toolbox) + " --fail-on blocked --manifests " + shop, 0, "Pod sandbox/toolbox: changed, 1 pod\nOPENED 1, 1 of them with addresses outside; none blocked.", ""},
		{"a policy that selects nothing any more", "-f " + file("pod.yaml", toolbox) + " --manifests " + shop, 0, "sandbox/toolbox: unchanged, selects no pod any more\n", ""},
		{"a cron job", "-f " + file("cron.yaml", nightly) + " --manifests " + shop, 0, "CronJob shop/nightly: new, 1 pod\n", ""},
		{"a namespace that is not there", "-f " + file("nowhere.yaml", nowhere) + " --manifests " + shop, 3, "Deployment shoop/web: NoNamespace: the cluster has no namespace shoop, so the object cannot be applied there; did you mean shop?\n", ""},
		{"delete a workload", "-f " + more + " --delete --manifests " + shop, 0, "Deployment shop/storefront: deleted, 2 pods\nNO FLIPS among 210 connections between 15 pods, nor with addresses outside. 1 of 2 nodes written to.\nDELETED PODS 2: ", ""},
		{"delete a pod that is not there", "-f " + gone + " --delete --manifests " + shop, 1, "", "kubectl npm: plan: " + gone + ":1: Pod sandbox/toolbx is not there, so there is nothing to delete; check namespace and name"},
		{"delete a workload that is not there", "-f " + audit + " --delete --manifests " + shop, 3, "Deployment shop/audit: NoPods: it has no pods here, so deleting it changes nothing; check namespace and name\n", ""},
		{"too many", "-f " + file("many.yaml", strings.Replace(calledAPI, "replicas: 2", "replicas: 2000000000", 1)) + " --manifests " + shop, 1, "", "kubectl npm: plan: " + filepath.Join(dir, "many.yaml") + ":1: document 1: Deployment shop/audit: spec: makes more than 150000 pods in total; use fewer"},
		{"a dump knows no workloads", "-f " + file("both.yaml", oneMore, trusted) + " --dump " + dump, 3, "Namespace sandbox: changed, 1 pod\nOPENED 1; ", ""},
		{"on the node", "-f " + audit + " --node win-1 --manifests " + shop, 0, "1 of 1 node written to.", ""},
		{"prune of a cluster", "-f x --prune --kubeconfig y", 2, "", "kubectl npm: plan: --prune deletes what --manifests has and these objects have not: give --manifests OLD, as nobody knows what of another cluster is of these files"},
		{"prune and delete", "-f x --prune --delete --manifests y", 2, "", "kubectl npm: plan: --delete and --prune exclude each other: give one of them"},
		{"files and a kustomization", "-f x -k y --manifests z", 2, "", "kubectl npm: plan: --filename and --kustomize exclude each other: give one of them"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			code, stdout, stderr := command(t, "", strings.Fields("plan "+tc.args)...)
			require.Equal(t, tc.code, code, stderr)
			require.Contains(t, stdout, tc.stdout)
			require.Equal(t, tc.stdout == "", stdout == "")
			require.Equal(t, strings.TrimSuffix(stderr, "\n"), tc.stderr)
		})
	}
}

// TestPruneFolders: one folder is held against another, whatever kinds are in it.
func TestPruneFolders(t *testing.T) {
	old, now := t.TempDir(), t.TempDir()
	write := func(dir, name string, documents ...string) {
		require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o700))
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(strings.Join(documents, "\n---\n")), 0o600))
	}
	const x = `{apiVersion: v1, kind: Namespace, metadata: {name: x}}`
	pods := func(name string, n int) string {
		return fmt.Sprintf(`{apiVersion: apps/v1, kind: Deployment, metadata: {name: %s, namespace: x}, spec: {replicas: %d, template: {metadata: {labels: {app: %s}}}}}`, name, n, name)
	}
	write(old, "a.yaml", x, closing)
	write(old, "below/web.yaml", pods("web", 2), pods("spy", 1))
	write(now, "a.yaml", x)
	write(now, "below/web.yaml", pods("web", 3))
	code, stdout, stderr := command(t, "", "plan", "-f", now, "--manifests", old, "--prune", "-R")
	require.Equal(t, 0, code, stdout+stderr)
	require.Contains(t, stdout, `x/closed: deleted
Deployment x/spy: deleted, 1 pod
Deployment x/web: changed, 3 pods, 1 of them new
Namespace x: unchanged, 4 pods
OPENED 4, 2 of them with addresses outside; none blocked. 2 of 2 connections between 2 pods flip. 1 of 1 node written to.
NEW PODS 1: 6 connections allowed, 2 of them with addresses outside.
DELETED PODS 1: 1 connection gone, 1 of them with addresses outside.
`)
	code, stdout, _ = command(t, "", "plan", "-f", now, "--manifests", now, "--prune", "-R")
	require.Equal(t, 0, code)
	require.Contains(t, stdout, "Nothing changes: ")
	code, stdout, _ = command(t, "", "plan", "-f", now, "--manifests", old, "--prune")
	require.Equal(t, exitLeftOut, code, "folders below are left out, and said to be: %s", stdout)
}

// exitLeftOut is that of what counts otherwise than it looks.
const exitLeftOut = 3

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
	plan := func(text string) whatif.Plan {
		code, stdout, stderr := command(t, text, "plan", "-f", "-", "--kubeconfig", kubeconfig, "-o", "json")
		require.Equal(t, 0, code, stderr)
		var p whatif.Plan
		require.NoError(t, json.Unmarshal([]byte(stdout), &p))
		return p
	}
	p := plan(`{apiVersion: apps/v1, kind: Deployment, metadata: {name: web, namespace: x}, spec: {replicas: 2, template: {metadata: {labels: {app: web}}}}}`)
	require.Equal(t, []whatif.ObjectChange{{Kind: "Deployment", Object: "x/web", Change: "changed", Pods: 2, New: 1}}, p.Objects)
	require.Equal(t, []string{"", "win-1"}, []string{p.Nodes[0].Node, p.Nodes[1].Node}, "nobody knows on which node the new one will be")
	require.Zero(t, p.Flipped)
	require.Len(t, *asked, 5, "no more is asked for than for policies")

	p = plan(`{apiVersion: apps/v1, kind: Deployment, metadata: {name: web, namespace: x}, spec: {replicas: 1, template: {metadata: {labels: {app: wbe}}}}}`)
	require.Equal(t, whatif.Tally{Flipped: 1, Opened: 1}, p.Tally, "the policy selects it no more, so addresses outside come in")
	require.Zero(t, p.NewPods.Pods)

	p = plan(`{apiVersion: v1, kind: Namespace, metadata: {name: x, labels: {team: c}}}`)
	require.Equal(t, "changed", p.Objects[0].Change)
	require.Zero(t, p.Flipped, "zone: b is somebody else's and stays")
}

// TestKustomize: -k plans what the library of kubectl builds of a kustomization.
func TestKustomize(t *testing.T) {
	audit := strings.Replace(calledAPI, ", namespace: shop", "", 1)
	for _, tc := range []struct {
		name, base string
		code       int
		stdout     string
		stderr     string
	}{
		{"an overlay of a base", audit, 0, "Deployment shop/audit: new, 2 pods\n", ""},
		{"a bad object", strings.Replace(audit, "replicas", "replcas", 1), 1, "", "kubectl npm: plan: kubectl kustomize prod:7: document 1: Deployment shop/audit: spec.replcas: unknown field; did you mean replicas?\n"},
		{"nothing to plan", aService, 1, "", "kubectl npm: plan: kubectl kustomize prod: there is nothing to plan: no policy, Namespace, Node, Pod or workload\n"},
		{"broken text", "kind: [\n", 1, "", "kubectl npm: plan: -k prod: "},
	} {
		t.Run(tc.name, func(t *testing.T) {
			examples, err := filepath.Abs(shop)
			require.NoError(t, err)
			dir := t.TempDir()
			file := filesIn(t, dir)
			for _, folder := range []string{"base", "prod"} {
				require.NoError(t, os.Mkdir(filepath.Join(dir, folder), 0o700))
			}
			file("base/kustomization.yaml", "resources: [audit.yaml]\n")
			file("base/audit.yaml", tc.base)
			file("prod/kustomization.yaml", "namespace: shop\nresources: [../base]\n")
			t.Chdir(dir)
			code, stdout, stderr := command(t, "", "plan", "-k", "prod", "--manifests", examples)
			require.Equal(t, tc.code, code, stderr)
			require.Contains(t, stdout, tc.stdout)
			require.Contains(t, stderr, tc.stderr)
			require.LessOrEqual(t, strings.Count(stderr, "\n"), 1)
		})
	}
	code, stdout, stderr := command(t, "", "plan", "-k", "--help", "--manifests", shop)
	require.Equal(t, 1, code)
	require.Empty(t, stdout)
	require.Contains(t, stderr, "kubectl npm: plan: -k --help: ")
}
