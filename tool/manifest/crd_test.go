package manifest_test

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"

	"github.com/winnpm/winnpm/test/servers"
)

// TestCRDIsThatOfTheModule compares the copy of the CRD in this package with the file of the
// module whose types are used.
func TestCRDIsThatOfTheModule(t *testing.T) {
	want, err := servers.ClusterPolicyCRD()
	require.NoError(t, err)
	text, err := os.ReadFile("clusternetworkpolicies.yaml")
	require.NoError(t, err)
	got, err := yaml.YAMLToJSON(text)
	require.NoError(t, err)
	require.JSONEq(t, string(want), string(got))
}

// TestLargestClusterPolicy reads a policy whose every list has as many entries as the CRD allows.
func TestLargestClusterPolicy(t *testing.T) {
	const most = 25
	repeat := func(what string) string { return "[" + strings.Repeat(what+", ", most-1) + what + "]" }
	var networks []string
	for i := range most {
		networks = append(networks, fmt.Sprintf("2001:db8:1000:1000:1000:1000:1000:1%03d/128", i))
	}
	peers := repeat("{networks: [" + strings.Join(networks, ", ") + "]}")
	protocols := repeat("{tcp: {destinationPort: {range: {start: 1, end: 65535}}}}")
	text := cnp(repeat("{action: Deny, to: " + peers + ", protocols: " + protocols + "}"))
	start := time.Now()
	o, warnings, err := load(text)
	t.Log(time.Since(start))
	require.NoError(t, err)
	require.Empty(t, warnings)
	require.Len(t, o.ClusterPolicies[0].Spec.Egress[most-1].To[most-1].Networks, most)
}
