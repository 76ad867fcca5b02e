package conformance

import (
	"io"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mattfenwick/cyclonus/pkg/connectivity"
	probing "github.com/mattfenwick/cyclonus/pkg/connectivity/probe"
	"github.com/mattfenwick/cyclonus/pkg/generator"
	cyclonus "github.com/mattfenwick/cyclonus/pkg/kube"
	"github.com/sirupsen/logrus"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
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
	c := newCluster(t)
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

// withNodes is cyclonus's own client. A pod that it makes is on a node and runs.
type withNodes struct {
	*cyclonus.Kubernetes
	c    *cluster
	pods *atomic.Int64 // that were made
}

// CreatePod implements cyclonus.IKubernetes.
func (k withNodes) CreatePod(pod *corev1.Pod) (*corev1.Pod, error) {
	if err := account(k.c.t.Context(), pod.Namespace); err != nil {
		return nil, err
	}
	if err := k.c.runPod(k.c.t.Context(), pod, int(k.pods.Add(1))%replicas); err != nil {
		return nil, err
	}
	return k.GetPod(pod.Namespace, pod.Name)
}

// TestUpstreamNetworkPolicies is what Kubernetes' own suite asks of NetworkPolicies, as
// cyclonus has it, unmodified: three namespaces of three pods with six ports each, and
// after every step a probe of each pod by each. What a pod says to itself is left out: it
// meets no switch.
func TestUpstreamNetworkPolicies(t *testing.T) {
	logrus.SetOutput(io.Discard)
	c := newCluster(t)
	api := withNodes{&cyclonus.Kubernetes{ClientSet: kube, RestConfig: admin}, c, &atomic.Int64{}}
	namespaces := []string{"x", "y", "z"}
	resources, err := probing.NewDefaultResources(api, namespaces, []string{"a", "b", "c"}, []int{80, 81},
		[]corev1.Protocol{corev1.ProtocolTCP, corev1.ProtocolUDP, corev1.ProtocolSCTP}, nil, 30, false, "example.com")
	require.NoError(t, err)
	zc, err := resources.GetPod("z", "c")
	require.NoError(t, err)
	run := connectivity.NewInterpreter(api, resources, &connectivity.InterpreterConfig{
		ResetClusterBeforeTestCase: true, VerifyClusterStateBeforeTestCase: true,
		KubeProbeRetries: 1, IgnoreLoopback: true, JobTimeoutSeconds: 1,
	})
	cases := generator.NewTestCaseGenerator(true, zc.IP, namespaces, []string{generator.TagUpstreamE2E}, nil).GenerateTestCases()
	require.Len(t, cases, upstreamCases)
	for _, tc := range cases {
		t.Run(strings.ReplaceAll(tc.Description, "/", " "), func(t *testing.T) {
			for _, step := range tc.Steps {
				step.Probe.Mode = generator.ProbeModePodIP // there is no kube-proxy
			}
			result := run.ExecuteTestCase(tc)
			require.NoError(t, result.Err)
			for i, step := range result.Steps {
				if !step.Passed(true) {
					t.Errorf("step %d: %v", i, step.LastComparison().ResultsByProtocol())
				}
			}
		})
	}
}

// upstreamCases is how many cases there are in v0.5.6.
const upstreamCases = 13
