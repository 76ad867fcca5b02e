package manifest_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestCRDIsThatOfTheModule compares the copy of the CRD in this package with the file of the
// module whose types are used.
func TestCRDIsThatOfTheModule(t *testing.T) {
	dir, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "sigs.k8s.io/network-policy-api").Output()
	require.NoError(t, err)
	want, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(dir)), "config", "crd", "experimental", "policy.networking.k8s.io_clusternetworkpolicies.yaml"))
	require.NoError(t, err)
	got, err := os.ReadFile("clusternetworkpolicies.yaml")
	require.NoError(t, err)
	require.YAMLEq(t, string(want), string(got))
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
