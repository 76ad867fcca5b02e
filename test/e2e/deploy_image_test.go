package e2e

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
)

// root is the folder of the repository.
const root = "../.."

// The program that the DaemonSet starts is one that the image has, at its root. The CNI plugin
// is beside it, where npm install-cni looks for it.
func TestDeployImage(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "hack/image/layer.go"))
	require.NoError(t, err)
	list := regexp.MustCompile(`var programs = \[\]string\{(.*)\}`).FindStringSubmatch(string(text))
	require.NotNil(t, list)
	programs := strings.Split(strings.ReplaceAll(list[1], `"`, ""), ", ")
	require.Equal(t, []string{"npm.exe", "winnpm-cni.exe"}, programs)
	script, err := os.ReadFile(filepath.Join(root, "hack/image.sh"))
	require.NoError(t, err)
	for _, name := range programs {
		require.Contains(t, string(script), " ./cmd/"+strings.TrimSuffix(name, ".exe"))
	}

	container := into[appsv1.DaemonSet](t, render(t, overlays["azure"])["DaemonSet"]).Spec.Template.Spec.Containers[0]
	require.Equal(t, []string{`%CONTAINER_SANDBOX_MOUNT_POINT%\` + programs[0]}, container.Command)
	require.Equal(t, []string{"start"}, container.Args)
}

// The overlay in docs/operations.md puts the user's image into the DaemonSet.
func TestDeployOverlayInDocs(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "docs/operations.md"))
	require.NoError(t, err)
	overlay := regexp.MustCompile("(?s)```yaml\n(# kustomization.yaml\n.*?)```").FindStringSubmatch(string(text))
	require.NotNil(t, overlay)

	folder, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	base, err := filepath.Abs(filepath.Join(root, "deploy"))
	require.NoError(t, err)
	base, err = filepath.Rel(folder, base)
	require.NoError(t, err)
	resource := "- ../winnpm/deploy "
	require.Contains(t, overlay[1], resource)
	edited := strings.ReplaceAll(overlay[1], resource, "- "+base+" ")
	require.NoError(t, os.WriteFile(filepath.Join(folder, "kustomization.yaml"), []byte(edited), 0o600))
	container := into[appsv1.DaemonSet](t, render(t, folder)["DaemonSet"]).Spec.Template.Spec.Containers[0]
	require.Equal(t, "registry.example.com/npm:v1", container.Image)
}
