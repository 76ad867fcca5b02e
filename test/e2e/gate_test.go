package e2e

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The component deploy/gate adds a container that installs the CNI plugin and stays, from the
// agent's own image, as the docs say, and the API server takes it.
func TestDeployGate(t *testing.T) {
	folder, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	deploy, err := filepath.Abs(filepath.Join(root, "deploy"))
	require.NoError(t, err)
	deploy, err = filepath.Rel(folder, deploy)
	require.NoError(t, err)
	overlay := "resources: ['" + deploy + "']\ncomponents: ['" + deploy + "/gate']\n" +
		"images: [{name: registry.invalid/winnpm/npm, newName: registry.example.com/npm, newTag: v1}]\n"
	require.NoError(t, os.WriteFile(filepath.Join(folder, "kustomization.yaml"), []byte(overlay), 0o600))

	object := render(t, folder)["DaemonSet"]
	_, err = apply(t, object, metav1.DryRunAll)
	require.NoError(t, err)
	spec := into[appsv1.DaemonSet](t, object).Spec.Template.Spec
	require.Len(t, spec.InitContainers, 1)
	install := spec.InitContainers[0]
	require.Equal(t, new(corev1.ContainerRestartPolicyAlways), install.RestartPolicy)
	require.Equal(t, "registry.example.com/npm:v1", install.Image)
	require.Equal(t, spec.Containers[0].Image, install.Image)
	require.Equal(t, spec.Containers[0].Command, install.Command)
	require.Equal(t, "install-cni", install.Args[0])
	require.True(t, slices.Contains(install.Args, "--watch") && slices.Contains(install.Args, "--mode=wait"))
	require.Empty(t, into[appsv1.DaemonSet](t, render(t, overlays["azure"])["DaemonSet"]).Spec.Template.Spec.InitContainers, "it is off by default")
}
