package servers

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"sigs.k8s.io/yaml"
)

// ClusterPolicyCRD returns, as JSON, the CRD of ClusterNetworkPolicy: that of the
// experimental channel, of the version that the module of the calling test requires.
func ClusterPolicyCRD() ([]byte, error) {
	dir, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "sigs.k8s.io/network-policy-api").Output()
	if err != nil {
		return nil, fmt.Errorf("looking for the module of the CRD: %w", err)
	}
	text, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(dir)), "config", "crd", "experimental", "policy.networking.k8s.io_clusternetworkpolicies.yaml"))
	if err != nil {
		return nil, err
	}
	return yaml.YAMLToJSON(text)
}
