package e2e

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/yaml"
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
	eventually(t, 30*time.Second, func() string {
		err := kube.RESTClient().Get().AbsPath("/apis/policy.networking.k8s.io/v1alpha2/clusternetworkpolicies").Do(t.Context()).Error()
		if err != nil {
			return err.Error()
		}
		return ""
	})
}
