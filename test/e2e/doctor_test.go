package e2e

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The doctor's Job is accepted, starts what the agent's DaemonSet starts, as HostProcess and without
// rights in the cluster, and the page that says how to fetch its file names that file.
func TestDeployDoctor(t *testing.T) {
	objects := render(t, "../../deploy/doctor")
	require.Len(t, objects, 1)
	_, err := apply(t, objects["Job"], metav1.DryRunAll)
	require.NoError(t, err)
	pod := into[batchv1.Job](t, objects["Job"]).Spec.Template.Spec
	doctor := pod.InitContainers[0]
	require.Equal(t, []string{`%CONTAINER_SANDBOX_MOUNT_POINT%\npm.exe`}, doctor.Command)
	require.Equal(t, []string{"doctor", "-o", `C:\$(POD).zip`}, doctor.Args)
	require.Equal(t, "POD", doctor.Env[0].Name)
	require.Equal(t, "metadata.name", doctor.Env[0].ValueFrom.FieldRef.FieldPath)
	require.True(t, *pod.SecurityContext.WindowsOptions.HostProcess)
	require.False(t, *pod.AutomountServiceAccountToken)
	require.Equal(t, doctor.Image, pod.Containers[0].Image)
	page, err := os.ReadFile(filepath.Join(root, "docs/evidence.md"))
	require.NoError(t, err)
	require.Contains(t, string(page), `C:\$pod.zip`)
}
