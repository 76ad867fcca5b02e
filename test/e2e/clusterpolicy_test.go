package e2e

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"github.com/winnpm/winnpm/test/servers"
)

// What npm refuses of a ClusterNetworkPolicy is what a server refuses that has the
// CRD, and selectors that are none. That npm does is asserted on the same cases in
// tool/manifest.
func TestServerRefusesClusterPolicies(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "tool", "manifest", "testdata", "clusterpolicies.yaml"))
	require.NoError(t, err)
	var table struct {
		Cases []struct {
			Name     string          `json:"name"`
			Policy   json.RawMessage `json:"policy"`
			Refused  string          `json:"refused"`
			OnServer string          `json:"onServer"`
		} `json:"cases"`
	}
	require.NoError(t, yaml.Unmarshal(text, &table))
	require.NotEmpty(t, table.Cases)
	installClusterPolicies(t)
	for _, c := range table.Cases {
		t.Run(c.Name, func(t *testing.T) {
			var object struct {
				APIVersion string `json:"apiVersion"`
			}
			require.NoError(t, json.Unmarshal(c.Policy, &object))
			err := kube.RESTClient().Post().AbsPath("/apis", object.APIVersion, "clusternetworkpolicies").
				Param("dryRun", "All").Param("fieldValidation", "Strict").Body([]byte(c.Policy)).Do(t.Context()).Error()
			if c.Refused == "" || c.OnServer == "accepted" {
				require.NoError(t, err)
				return
			}
			require.Error(t, err)
			require.True(t, errors.IsInvalid(err) || errors.IsBadRequest(err) || errors.IsNotFound(err), err)
			t.Log(err)
		})
	}
}

// installClusterPolicies gives the server the CRD of ClusterNetworkPolicy, of the
// version of which the agent has the types, until the test ends.
func installClusterPolicies(t *testing.T) {
	t.Helper()
	text, err := os.ReadFile("../../tool/manifest/clusternetworkpolicies.yaml") // that of the module, as a test beside it shows
	require.NoError(t, err)
	crd, err := yaml.YAMLToJSON(text)
	require.NoError(t, err)
	const crds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
	require.NoError(t, kube.RESTClient().Post().AbsPath(crds).Body(crd).Do(t.Context()).Error())
	t.Cleanup(func() {
		require.NoError(t, kube.RESTClient().Delete().AbsPath(crds, "clusternetworkpolicies.policy.networking.k8s.io").Do(context.Background()).Error())
	})
	servers.Eventually(t, 30*time.Second, func() string {
		err := kube.RESTClient().Get().AbsPath("/apis/policy.networking.k8s.io/v1alpha2/clusternetworkpolicies").Do(t.Context()).Error()
		if err != nil {
			return err.Error()
		}
		return ""
	})
}

// kindComes is how long an agent may take to see that the API server has a kind now: it
// asks every 30 to 36 s.
const kindComes = 36*time.Second + settle

const clusterPolicies = "/apis/policy.networking.k8s.io/v1alpha2/clusternetworkpolicies"

// The CRD comes, goes and comes again under an agent that has only the rights of deploy/.
// The agent follows without a restart, and asks seldom while there is no such kind.
func TestKindComesAndGoes(t *testing.T) {
	t.Parallel() // it waits, and gives the server a CRD, which tests that are not parallel do too
	w := newWorld(t)
	w.node("kind-1", "192.168.7.1")
	w.node("kind-2", "192.168.7.2")
	w.namespace("tiers", "team=tiers")
	w.pod(pod{namespace: "tiers", name: "web", node: "kind-1", ip: "10.70.0.1", labels: "app=web"})
	w.pod(pod{namespace: "tiers", name: "db", node: "kind-1", ip: "10.70.0.2", labels: "app=db"})
	p := newProxy(t)
	a := startAgent(t, "kind-1", kubeconfigOf(t, "kube-system", agentAccount, p.url, p.ca))
	const open = `
		tiers/db->tiers/web:80/TCP allow
		tiers/web->192.168.7.2:80/TCP allow
	`
	a.waitTrace(open)

	for i, name := range []string{"comes", "comes again"} {
		t.Run(name, func(t *testing.T) {
			installClusterPolicies(t)
			uid := createClusterPolicy(t, `
metadata: {name: tiers}
spec:
  tier: Admin
  priority: 7
  subject: {namespaces: {matchLabels: {team: tiers}}}
  ingress: [{action: Deny, from: [{pods: {namespaceSelector: {}, podSelector: {matchLabels: {app: db}}}}]}]
  egress:
  - {action: Deny, to: [{nodes: {matchLabels: {}}}]}
  - {action: Accept, to: [{domainNames: [example.com]}]}
`)
			a.waitTraceFor(kindComes, `
				tiers/db->tiers/web:80/TCP deny
				tiers/web->192.168.7.2:80/TCP deny
				tiers/web->192.168.7.1:80/TCP deny
				tiers/web->192.168.7.9:80/TCP allow
			`)
			a.waitWarning("tiers", "UnsupportedPeer")
			require.NoError(t, a.readiness())
			servers.Eventually(t, kindComes, func() string {
				for _, e := range w.eventsOf("default") {
					if e.Regarding.Kind == "ClusterNetworkPolicy" && e.Regarding.UID == uid && e.Reason == "UnsupportedPeer" {
						return ""
					}
				}
				return "no Event on the policy"
			})

			patchClusterPolicy(t, "tiers", `[{"op": "replace", "path": "/spec/ingress/0/action", "value": "Accept"}, {"op": "remove", "path": "/spec/egress"}]`)
			a.waitTrace(open)
			patchClusterPolicy(t, "tiers", `[{"op": "replace", "path": "/spec/ingress/0/action", "value": "Deny"}]`)
			a.waitTrace(`tiers/db->tiers/web:80/TCP deny`)
			// Since it asked for the first time, or found the CRD gone: a few questions, a list
			// and watches.
			require.LessOrEqual(t, p.asked("v1alpha2", "apis", "clusternetworkpolicies"), 10)
		}) // the CRD goes
		p.forget()
		a.waitTrace(open)
		servers.Eventually(t, settle, func() string {
			if strings.Count(a.stderr.String(), "the API server has no ClusterNetworkPolicies") < i+2 { // the first is of the start
				return "the agent does not say that the CRD has gone"
			}
			return ""
		})
		require.NoError(t, a.readiness())
	}
	require.NotContains(t, a.stderr.String(), "reading from the API server failed", "no errors")
}

// createClusterPolicy creates a ClusterNetworkPolicy.
func createClusterPolicy(t *testing.T, text string) types.UID {
	t.Helper()
	var object map[string]any
	require.NoError(t, yaml.Unmarshal([]byte(text), &object))
	object["apiVersion"], object["kind"] = "policy.networking.k8s.io/v1alpha2", "ClusterNetworkPolicy"
	body, err := json.Marshal(object)
	require.NoError(t, err)
	answered, err := kube.RESTClient().Post().AbsPath(clusterPolicies).Body(body).DoRaw(t.Context())
	require.NoError(t, err)
	var created metav1.PartialObjectMetadata
	require.NoError(t, json.Unmarshal(answered, &created))
	return created.UID
}

func patchClusterPolicy(t *testing.T, name, patch string) {
	t.Helper()
	require.NoError(t, kube.RESTClient().Patch(types.JSONPatchType).AbsPath(clusterPolicies, name).Body([]byte(patch)).Do(t.Context()).Error())
}
