package conformance

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/client"
	policyv1alpha2 "sigs.k8s.io/network-policy-api/apis/v1alpha2"
	report "sigs.k8s.io/network-policy-api/conformance/apis/v1alpha1"
	"sigs.k8s.io/network-policy-api/conformance/tests"
	"sigs.k8s.io/network-policy-api/conformance/utils/config"
	"sigs.k8s.io/network-policy-api/conformance/utils/suite"
	"sigs.k8s.io/yaml"
)

// TestConformance is the suite with all features, and its own report. hack/conformance.sh asserts that as many
// tests ran as there are.
func TestConformance(t *testing.T) {
	c := newCluster(t, nil)
	c.playStatefulSets()
	api, err := client.New(admin, client.Options{})
	require.NoError(t, err)
	require.NoError(t, policyv1alpha2.Install(api.Scheme()))

	run, err := suite.NewConformanceProfileTestSuite(suite.ConformanceProfileOptions{
		Options: suite.Options{
			Client: api, ClientSet: kube, KubeConfig: *admin,
			EnableAllSupportedFeatures: true, CleanupBaseResources: true,
			// A verdict needs no time on a network. An agent has the suite's own time to
			// follow, and is asked more often.
			TimeoutConfig: config.TimeoutConfig{RequestTimeout: time.Second, PokeInterval: 50 * time.Millisecond},
		},
		Implementation:      report.Implementation{Organization: "winnpm", Project: "winnpm", Version: "main"},
		ConformanceProfiles: sets.New(suite.CNPConformanceProfileName),
	})
	require.NoError(t, err)
	run.Setup(t)
	require.NoError(t, run.Run(t, tests.ConformanceTests))
	result, err := run.Report()
	require.NoError(t, err)
	text, err := yaml.Marshal(result)
	require.NoError(t, err)
	t.Logf("%d tests\n%s", len(tests.ConformanceTests), text)
}
