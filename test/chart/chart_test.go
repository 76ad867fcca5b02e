// Package chart tests that the chart in deploy/helm gives the objects of the manifests beside it.
package chart

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"
)

const deploy = "../../deploy"

// objects are what is sent to a cluster, by kind, namespace and name.
type objects map[string]map[string]any

// built is where the programs that go.mod pins are, by name.
var built = map[string]string{}

func TestMain(m *testing.M) {
	for _, name := range []string{"helm", "kustomize"} {
		// Prints the path, once it is built and kept beside what else Go compiled.
		command := exec.Command("go", "tool", "-n", name)
		command.Stderr = os.Stderr
		path, err := command.Output()
		if err != nil {
			fmt.Fprintln(os.Stderr, "go tool -n", name+":", err)
			os.Exit(1)
		}
		built[name] = strings.TrimSpace(string(path))
	}
	os.Exit(m.Run())
}

// tool runs a program that go.mod pins.
func tool(t *testing.T, name string, args ...string) (string, error) {
	t.Helper()
	command := exec.CommandContext(t.Context(), built[name], args...)
	var said strings.Builder
	command.Stderr = &said
	// Nothing of the user's own Helm decides what is rendered.
	home := t.TempDir()
	command.Env = append(os.Environ(), "HELM_CONFIG_HOME="+home, "HELM_CACHE_HOME="+home, "HELM_DATA_HOME="+home, "KUBECONFIG="+filepath.Join(home, "none"))
	out, err := command.Output()
	if err != nil {
		err = fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, said.String())
	}
	return string(out), err
}

func helm(t *testing.T, values string) (string, error) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "values.yaml")
	require.NoError(t, os.WriteFile(file, []byte(values), 0o600))
	return tool(t, "helm", "template", "winnpm", filepath.Join(deploy, "helm"), "--namespace", "kube-system", "--values", file)
}

// kustomize builds an overlay, in which DEPLOY stands for the folder deploy.
func kustomize(t *testing.T, overlay string) (string, error) {
	t.Helper()
	folder, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	base, err := filepath.Abs(deploy)
	require.NoError(t, err)
	base, err = filepath.Rel(folder, base)
	require.NoError(t, err)
	text := strings.ReplaceAll(overlay, "DEPLOY", base)
	require.NoError(t, os.WriteFile(filepath.Join(folder, "kustomization.yaml"), []byte(text), 0o600))
	return tool(t, "kustomize", "build", folder)
}

var separator = regexp.MustCompile(`(?m)^---$`)

// parse reads a stream of objects.
func parse(t *testing.T, stream string) objects {
	t.Helper()
	found := objects{}
	for _, text := range separator.Split(stream, -1) {
		var object map[string]any
		require.NoError(t, yaml.UnmarshalStrict([]byte(text), &object))
		if object == nil {
			continue // a comment alone
		}
		meta, ok := object["metadata"].(map[string]any)
		require.True(t, ok, text)
		key := fmt.Sprintf("%v %v/%v", object["kind"], meta["namespace"], meta["name"])
		require.NotContains(t, found, key, "a second one")
		found[key] = object
	}
	require.NotEmpty(t, found)
	return found
}

// settings puts the meaning of azure-npm.json in the place of its text.
func (o objects) settings(t *testing.T) objects {
	t.Helper()
	for _, object := range o {
		data, ok := object["data"].(map[string]any)
		if !ok {
			continue
		}
		text, ok := data["azure-npm.json"].(string)
		require.True(t, ok)
		var parsed map[string]any
		require.NoError(t, json.Unmarshal([]byte(text), &parsed))
		data["azure-npm.json"] = parsed
	}
	return o
}

const digest = "sha256:b5bb9d8014a0f9b1d61e21e796d78dccdf1352f23cd32812f4850b878ae4944c"

// pairs are values for the chart and the overlay that gives the same objects.
var pairs = map[string]struct {
	values, overlay string
	settings        bool // compare the meaning of azure-npm.json: Helm writes it anew
}{
	"azure":  {values: "{}", overlay: "resources: [DEPLOY]"},
	"Calico": {values: "network: Calico", overlay: "resources: [DEPLOY/calico]"},
	"image": {
		values:  "image: {repository: r.example.com/npm, tag: v1}",
		overlay: "resources: [DEPLOY]\nimages: [{name: registry.invalid/winnpm/npm, newName: r.example.com/npm, newTag: v1}]",
	},
	"digest": {
		values:  "image: {repository: r.example.com/npm, digest: '" + digest + "'}",
		overlay: "resources: [DEPLOY]\nimages: [{name: registry.invalid/winnpm/npm, newName: r.example.com/npm, digest: '" + digest + "'}]",
	},
	"gate": {
		values: "gate: {enabled: true}\nimage: {tag: v1}",
		overlay: "resources: [DEPLOY]\ncomponents: [DEPLOY/gate]\n" +
			"images: [{name: registry.invalid/winnpm/npm, newTag: v1}]",
	},
	"gate elsewhere": {
		values: `gate: {enabled: true, confDir: 'C:\etc\cni\net.d', binDir: 'C:\opt\cni\bin', mode: strict, wait: 30s}`,
		overlay: `{resources: [DEPLOY], components: [DEPLOY/gate], patches: [{target: {kind: DaemonSet}, patch: '[{"op": "replace",` +
			`"path": "/spec/template/spec/initContainers/0/args", "value": ["install-cni", "--watch", "--conf-dir=C:\\etc\\cni\\net.d",` +
			`"--bin-dir=C:\\opt\\cni\\bin", "--mode=strict", "--wait=30s"]}]'}]}`,
	},
	"trace": {values: "trace: {enabled: true}", overlay: "resources: [DEPLOY, DEPLOY/trace]"},
	"nodes of Windows Server 2025": {
		values: "nodeSelector: {node.kubernetes.io/windows-build: '10.0.26100'}",
		overlay: `{resources: [DEPLOY], patches: [{target: {kind: DaemonSet}, patch: '[{"op": "add",` +
			`"path": "/spec/template/spec/nodeSelector/node.kubernetes.io~1windows-build", "value": "10.0.26100"}]'}]}`,
	},
	"uninstall": {
		values: "uninstall: true",
		overlay: "resources: [DEPLOY, DEPLOY/uninstall]\n" +
			"patches: [{patch: '{$patch: delete, apiVersion: apps/v1, kind: DaemonSet, metadata: {name: azure-npm-win, namespace: kube-system}}'}]",
	},
	"another port": {
		values: "config: {ListeningPort: 10191, ProbeListeningPort: 10194}",
		overlay: `{resources: [DEPLOY], patches: [{target: {kind: Service}, patch: '[{"op": "replace", "path": "/spec/ports/0/targetPort", "value": 10191}]'},` +
			`{target: {kind: DaemonSet}, patch: '[` + probePort("startup") + `, ` + probePort("liveness") + `, ` + probePort("readiness") +
			`, {"op": "replace", "path": "/spec/template/metadata/annotations/azure.npm~1port", "value": "10191"}]'}]}`,
		settings: true,
	},
}

func probePort(probe string) string {
	return `{"op": "replace", "path": "/spec/template/spec/containers/0/` + probe + `Probe/httpGet/port", "value": 10194}`
}

// TestSameObjects: what "helm template" prints and what "kustomize build" does are the same
// objects, with every choice that both offer.
func TestSameObjects(t *testing.T) {
	t.Parallel()
	for name, pair := range pairs {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rendered, err := helm(t, pair.values)
			require.NoError(t, err)
			built, err := kustomize(t, pair.overlay)
			require.NoError(t, err)
			got, want := parse(t, rendered), parse(t, built)
			if pair.settings {
				got, want = got.settings(t), want.settings(t)
				change(t, want, pair.values)
			}
			require.Equal(t, slices.Sorted(maps.Keys(want)), slices.Sorted(maps.Keys(got)))
			require.Equal(t, want, got)
			t.Logf("%d objects, equal: %s", len(want), strings.Join(slices.Sorted(maps.Keys(want)), ", "))
		})
	}
}

// change makes the settings of an overlay those that the chart is asked for.
func change(t *testing.T, want objects, values string) {
	t.Helper()
	var asked struct{ Config map[string]any }
	require.NoError(t, yaml.Unmarshal([]byte(values), &asked))
	require.NotEmpty(t, asked.Config)
	data, ok := want["ConfigMap kube-system/azure-npm-config"]["data"].(map[string]any)
	require.True(t, ok)
	settings, ok := data["azure-npm.json"].(map[string]any)
	require.True(t, ok)
	for key, value := range asked.Config {
		if inner, ok := value.(map[string]any); ok {
			there, ok := settings[key].(map[string]any)
			require.True(t, ok, key)
			maps.Copy(there, inner)
			continue
		}
		require.Contains(t, settings, key)
		settings[key] = value
	}
}

// TestRefusedValues: a value that nothing would read is refused, and not passed over.
func TestRefusedValues(t *testing.T) {
	t.Parallel()
	for values, says := range map[string]string{
		"imagge: {tag: v1}":                              "imagge",
		"image: {digest: 'sha256:1'}":                    "digest",
		"gate: {enabled: true, mode: close}":             "mode",
		"config: {listeningPort: 1}":                     "listeningPort",
		"config: {ListeningPort: '10091'}":               "ListeningPort",
		"config: {WindowsNetworkName: x}":                "WindowsNetworkName",
		"config: {Toggles: {EnablePprof: 'yes'}}":        "EnablePprof",
		"trace: {enabled: true, subjects: []}":           "subjects",
		"nodeSelector: {kubernetes.io/os: 2}":            "nodeSelector",
		"resources: {limits: {memory: 600Mi}}":           "limits",
		"uninstall: yes please":                          "uninstall",
		"pullSecrets: [registry]":                        "pullSecrets",
		"maxUnavailable: {percent: 10}":                  "maxUnavailable",
		"network: [azure, Calico]":                       "network",
		"gate: {enabled: true, image: {tag: elsewhere}}": "image",
	} {
		_, err := helm(t, values)
		require.ErrorContains(t, err, says, values)
	}
}

// TestOldClusters: the container of the gate would end where init containers cannot stay.
func TestOldClusters(t *testing.T) {
	t.Parallel()
	for version, fails := range map[string]bool{"1.28.9": true, "1.29.0": false, "1.35.2-eks-1": false} {
		_, err := tool(t, "helm", "template", "winnpm", filepath.Join(deploy, "helm"), "--kube-version", version, "--set", "gate.enabled=true")
		require.Equal(t, fails, err != nil, "%s: %v", version, err)
	}
	_, err := tool(t, "helm", "template", "winnpm", filepath.Join(deploy, "helm"), "--kube-version", "1.25.16")
	require.ErrorContains(t, err, "kubeVersion")
}

// TestLint: Helm has nothing to say to the chart but that it has no icon.
func TestLint(t *testing.T) {
	t.Parallel()
	said, err := tool(t, "helm", "lint", "--strict", filepath.Join(deploy, "helm"))
	require.NoError(t, err, said)
}
