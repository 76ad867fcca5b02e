package e2e

import (
	"debug/pe"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
)

// root is the folder that the image is built from.
const root = "../.."

// dockerfile returns the instructions of the image's Dockerfile. None of them
// goes over two lines.
func dockerfile(t *testing.T) []string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, "deploy/Dockerfile"))
	require.NoError(t, err)
	var instructions []string
	for line := range strings.Lines(string(text)) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			require.False(t, strings.HasSuffix(line, `\`), line)
			instructions = append(instructions, line)
		}
	}
	return instructions
}

// find returns the only instruction that matches, and what the pattern's
// parentheses hold.
func find(t *testing.T, instructions []string, pattern string) []string {
	t.Helper()
	found := findAll(instructions, pattern)
	require.Len(t, found, 1, pattern)
	return found[0]
}

// findAll returns the instructions that match, in their order.
func findAll(instructions []string, pattern string) (found [][]string) {
	for _, line := range instructions {
		if match := regexp.MustCompile(pattern).FindStringSubmatch(line); match != nil {
			found = append(found, match)
		}
	}
	return found
}

// The program that the DaemonSet starts is the one that the image is built
// with, by a line that works and with the Go that the module asks for. The CNI plugin is
// beside it, where npm install-cni looks for it.
func TestDeployImage(t *testing.T) {
	image := dockerfile(t)

	version := find(t, image, `^ARG GO_VERSION=(\S+)$`)[1]
	module, err := os.ReadFile(filepath.Join(root, "go.mod"))
	require.NoError(t, err)
	require.Regexp(t, `(?m)^go `+regexp.QuoteMeta(version)+`$`, string(module))

	sources := 0
	for _, line := range image {
		words := strings.Fields(line)
		if words[0] == "COPY" && words[1] != "--from=build" {
			for _, source := range words[1 : len(words)-1] {
				_, err := os.Stat(filepath.Join(root, source))
				require.NoError(t, err)
				sources++
			}
		}
	}
	require.NotZero(t, sources)

	built := find(t, image, `^RUN (.* go build .*)$`)[1]
	require.Contains(t, built, " -o /out/ ")
	folder := t.TempDir()
	command := exec.CommandContext(t.Context(), "sh", "-c", strings.ReplaceAll(built, " /out/ ", " "+folder+"/ "))
	command.Dir = root
	out, err := command.CombinedOutput()
	require.NoError(t, err, string(out))
	var programs []string
	for _, copied := range findAll(image, `^COPY --from=build /out/(\S+) /(\S+)$`) {
		require.Equal(t, copied[1], copied[2])
		programs = append(programs, copied[2])
		exe, err := pe.Open(filepath.Join(folder, copied[1]))
		require.NoError(t, err)
		t.Cleanup(func() { _ = exe.Close() })
		require.Equal(t, uint16(pe.IMAGE_FILE_MACHINE_AMD64), exe.Machine)
	}
	require.Equal(t, []string{"npm.exe", "winnpm-cni.exe"}, programs)

	container := into[appsv1.DaemonSet](t, render(t, overlays["azure"])["DaemonSet"]).Spec.Template.Spec.Containers[0]
	require.Equal(t, []string{`%CONTAINER_SANDBOX_MOUNT_POINT%\npm.exe`}, container.Command)
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
