package e2e

import (
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestUninstallManifests: an API server takes what deploy/uninstall has. It has no rights
// in the cluster, and beside the agent's DaemonSet it is another one.
func TestUninstallManifests(t *testing.T) {
	objects := render(t, "../../deploy/uninstall")
	require.Len(t, objects, 1)
	set := into[appsv1.DaemonSet](t, objects["DaemonSet"])
	require.NotEqual(t, into[appsv1.DaemonSet](t, render(t, overlays["azure"])["DaemonSet"]).Name, set.Name)
	_, err := resourceOf(t, objects["DaemonSet"]).Create(t.Context(), objects["DaemonSet"],
		metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}, FieldValidation: metav1.FieldValidationStrict})
	require.NoError(t, err)
}
