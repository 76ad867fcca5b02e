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
	text, err := os.ReadFile(filepath.Join(root, "hack/image/main.go"))
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

// overlayIn returns the folder with the overlay that a document shows, beside deploy/.
func overlayIn(t *testing.T, document string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, document))
	require.NoError(t, err)
	overlay := regexp.MustCompile("(?s)```yaml\n(# kustomization.yaml\n.*?)```").FindStringSubmatch(string(text))
	require.NotNil(t, overlay)
	folder, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	base, err := filepath.Abs(filepath.Join(root, "deploy"))
	require.NoError(t, err)
	base, err = filepath.Rel(folder, base)
	require.NoError(t, err)
	resource := regexp.MustCompile(`((?m)^resources:\s*(?:- |\[))\.\./winnpm/deploy([ \]])`)
	require.Len(t, resource.FindAllString(overlay[1], -1), 1)
	edited := resource.ReplaceAllString(overlay[1], "${1}"+base+"${2}")
	require.NoError(t, os.WriteFile(filepath.Join(folder, "kustomization.yaml"), []byte(edited), 0o600))
	return folder
}

// The overlays in documents put the user's image into the DaemonSet.
func TestDeployOverlayInDocs(t *testing.T) {
	for _, document := range []string{"README.md", "docs/operations.md"} {
		container := into[appsv1.DaemonSet](t, render(t, overlayIn(t, document))["DaemonSet"]).Spec.Template.Spec.Containers[0]
		require.Equal(t, "registry.example.com/npm:v1", container.Image, document)
	}
}

// That of README.md takes the predecessor's place, and replaces no pod by itself.
func TestDeployOneNodeFirst(t *testing.T) {
	theirs := installPredecessor(t)
	for kind, object := range render(t, overlayIn(t, "README.md")) {
		if theirs[kind] == nil { // rights, which are there
			continue
		}
		got, err := apply(t, object)
		require.NoError(t, err, kind)
		require.Equal(t, theirs[kind].GetUID(), got.GetUID())
		if kind == "DaemonSet" {
			spec := into[appsv1.DaemonSet](t, got).Spec
			require.Equal(t, appsv1.OnDeleteDaemonSetStrategyType, spec.UpdateStrategy.Type)
			require.Equal(t, "registry.example.com/npm:v1", spec.Template.Spec.Containers[0].Image)
		}
	}
	got, err := apply(t, render(t, overlays["azure"])["DaemonSet"])
	require.NoError(t, err, "without the patch")
	require.Equal(t, appsv1.RollingUpdateDaemonSetStrategyType, into[appsv1.DaemonSet](t, got).Spec.UpdateStrategy.Type)
}
