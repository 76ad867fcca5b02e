package e2e

import (
	"encoding/json"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/restmapper"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
)

// overlays are the folders that a user applies.
var overlays = map[string]string{"azure": "../../deploy", "Calico": "../../deploy/calico"}

// render returns the objects of an overlay by kind, as kubectl apply -k sends
// them.
func render(t *testing.T, folder string) map[string]*unstructured.Unstructured {
	t.Helper()
	resources, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), folder)
	require.NoError(t, err)
	objects := map[string]*unstructured.Unstructured{}
	for _, resource := range resources.Resources() {
		text, err := resource.MarshalJSON()
		require.NoError(t, err)
		object := &unstructured.Unstructured{}
		require.NoError(t, object.UnmarshalJSON(text))
		require.NotContains(t, objects, object.GetKind(), "a second one")
		objects[object.GetKind()] = object
	}
	return objects
}

// into converts an object to its Go type.
func into[T any](t *testing.T, object *unstructured.Unstructured) *T {
	t.Helper()
	require.NotNil(t, object)
	typed := new(T)
	require.NoError(t, runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(object.Object, typed, true))
	return typed
}

// resourceOf returns the client for an object's kind and namespace.
func resourceOf(t *testing.T, object *unstructured.Unstructured) dynamic.ResourceInterface {
	t.Helper()
	groups, err := restmapper.GetAPIGroupResources(kube.Discovery())
	require.NoError(t, err)
	kind := object.GroupVersionKind()
	mapping, err := restmapper.NewDiscoveryRESTMapper(groups).RESTMapping(kind.GroupKind(), kind.Version)
	require.NoError(t, err)
	client, err := dynamic.NewForConfig(admin)
	require.NoError(t, err)
	if object.GetNamespace() == "" {
		return client.Resource(mapping.Resource)
	}
	return client.Resource(mapping.Resource).Namespace(object.GetNamespace())
}

// apply sends an object as kubectl apply --server-side --force-conflicts does.
// A field that the API server does not know is an error.
func apply(t *testing.T, object *unstructured.Unstructured, dryRun ...string) (*unstructured.Unstructured, error) {
	t.Helper()
	text, err := object.MarshalJSON()
	require.NoError(t, err)
	force := true
	return resourceOf(t, object).Patch(t.Context(), object.GetName(), types.ApplyPatchType, text, metav1.PatchOptions{
		FieldManager: "kubectl", Force: &force, FieldValidation: metav1.FieldValidationStrict, DryRun: dryRun,
	})
}

func TestDeployIsAccepted(t *testing.T) {
	for network, folder := range overlays {
		t.Run(network, func(t *testing.T) {
			var names []string
			for kind, object := range render(t, folder) {
				got, err := apply(t, object, metav1.DryRunAll)
				require.NoError(t, err, kind)
				names = append(names, strings.Join([]string{got.GetKind(), got.GetNamespace(), got.GetName()}, " "))
			}
			require.ElementsMatch(t, []string{
				"ServiceAccount kube-system winnpm",
				"ClusterRole  winnpm",
				"ClusterRoleBinding  winnpm",
				"ConfigMap kube-system azure-npm-config",
				"DaemonSet kube-system azure-npm-win",
				"Service kube-system npm-metrics-cluster-service",
			}, names)
		})
	}
}

// The pod of the DaemonSet passes admission: it gets its priority, and its
// ServiceAccount is there.
func TestDeployPodIsAdmitted(t *testing.T) {
	template := into[appsv1.DaemonSet](t, render(t, overlays["azure"])["DaemonSet"]).Spec.Template
	pod := &corev1.Pod{ObjectMeta: template.ObjectMeta, Spec: template.Spec}
	pod.Name = "deploy-admitted"
	got, err := kube.CoreV1().Pods("kube-system").Create(t.Context(), pod, metav1.CreateOptions{
		DryRun: []string{metav1.DryRunAll}, FieldValidation: metav1.FieldValidationStrict,
	})
	require.NoError(t, err)
	require.NotNil(t, got.Spec.Priority)
	require.Equal(t, int32(2_000_001_000), *got.Spec.Priority)
	require.Equal(t, corev1.PodQOSGuaranteed, got.Status.QOSClass)
	require.Len(t, got.Spec.Containers[0].VolumeMounts, 2, "the configuration and the account's token")
}

// The objects fit each other.
func TestDeployFitsTogether(t *testing.T) {
	objects := render(t, overlays["azure"])
	config := into[corev1.ConfigMap](t, objects["ConfigMap"])
	service := into[corev1.Service](t, objects["Service"])
	template := into[appsv1.DaemonSet](t, objects["DaemonSet"]).Spec.Template

	require.Equal(t, objects["ServiceAccount"].GetName(), template.Spec.ServiceAccountName)
	for key, value := range service.Spec.Selector {
		require.Equal(t, value, template.Labels[key])
	}
	require.Len(t, template.Spec.Volumes, 1)
	require.Equal(t, config.Name, template.Spec.Volumes[0].ConfigMap.Name)

	container := template.Spec.Containers[0]
	require.Len(t, container.VolumeMounts, 1)
	require.Equal(t, template.Spec.Volumes[0].Name, container.VolumeMounts[0].Name)
	env := map[string]corev1.EnvVar{}
	for _, v := range container.Env {
		env[v.Name] = v
	}
	require.Equal(t, "spec.nodeName", env["HOSTNAME"].ValueFrom.FieldRef.FieldPath)
	slashes := func(p string) string { return path.Clean(strings.ReplaceAll(p, `\`, "/")) }
	folder, file := path.Split(slashes(env["NPM_CONFIG"].Value))
	require.Equal(t, slashes(container.VolumeMounts[0].MountPath), path.Clean(folder))
	require.Contains(t, config.Data, file)

	var settings struct{ ListeningPort, ProbeListeningPort int }
	require.NoError(t, json.Unmarshal([]byte(config.Data[file]), &settings))
	require.Equal(t, strconv.Itoa(settings.ListeningPort), service.Spec.Ports[0].TargetPort.String())
	for _, probe := range []*corev1.Probe{container.StartupProbe, container.LivenessProbe, container.ReadinessProbe} {
		require.Equal(t, settings.ProbeListeningPort, probe.HTTPGet.Port.IntValue())
		require.Equal(t, "127.0.0.1", probe.HTTPGet.Host, "pods can reach the node's other addresses")
	}
}

// The probes ask for what the agent serves: without the API server it is not
// ready, and restarting it would not help.
func TestDeployProbesAreAnswered(t *testing.T) {
	w := newWorld(t)
	w.node("probed", "10.240.0.9")
	p := newProxy(t)
	a := startAgent(t, "probed", kubeconfigOf(t, "kube-system", agentAccount, p.url, p.ca))
	a.waitReady(settle)
	container := into[appsv1.DaemonSet](t, render(t, overlays["azure"])["DaemonSet"]).Spec.Template.Spec.Containers[0]
	probe := func(probe *corev1.Probe) error {
		_, err := a.read(probe.HTTPGet.Path)
		return err
	}
	for _, one := range []*corev1.Probe{container.StartupProbe, container.LivenessProbe, container.ReadinessProbe} {
		require.NoError(t, probe(one))
	}
	p.cut()
	a.waitUnready()
	require.NoError(t, probe(container.StartupProbe))
	require.NoError(t, probe(container.LivenessProbe))
	require.Error(t, probe(container.ReadinessProbe))
}

// Both overlays configure the same keys, and differ in the network alone.
func TestDeployNetworks(t *testing.T) {
	settings := map[string]map[string]any{}
	for network, folder := range overlays {
		text := into[corev1.ConfigMap](t, render(t, folder)["ConfigMap"]).Data["azure-npm.json"]
		var got map[string]any
		require.NoError(t, json.Unmarshal([]byte(text), &got))
		require.Equal(t, network, got["WindowsNetworkName"])
		delete(got, "WindowsNetworkName")
		settings[network] = got
	}
	require.Len(t, settings["azure"], 11)
	require.Equal(t, settings["azure"], settings["Calico"])
}

// The agent takes every key of the configuration, and has nothing to say to
// any. On this system it ends after that, as there is no HNS.
func TestDeployConfigurationIsUnderstood(t *testing.T) {
	said := func(t *testing.T, text string) []string {
		file := filepath.Join(t.TempDir(), "azure-npm.json")
		require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
		command := exec.CommandContext(t.Context(), filepath.Join(bin, "npm"), "start")
		command.Env = append(os.Environ(), "NPM_CONFIG="+file, "HOSTNAME=n")
		out, err := command.CombinedOutput()
		var exit *exec.ExitError
		require.ErrorAs(t, err, &exit)
		require.Equal(t, 1, exit.ExitCode(), string(out))
		require.Contains(t, string(out), "Using config file: "+file)
		return lines(string(out))
	}
	for network, folder := range overlays {
		t.Run(network, func(t *testing.T) {
			text := into[corev1.ConfigMap](t, render(t, folder)["ConfigMap"]).Data["azure-npm.json"]
			require.Len(t, said(t, text), 2, "the file's name and why it ends")
			require.Len(t, said(t, strings.Replace(text, "ListeningPort", "ListenPort", 1)), 3, "an unknown key is a line")
		})
	}
}

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
