package e2e

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"sigs.k8s.io/yaml"
)

// predecessor is what Azure NPM has in a cluster with Windows nodes, in the
// fields that ours could clash with.
var predecessor = []string{`
apiVersion: apps/v1
kind: DaemonSet
metadata:
  name: azure-npm-win
  namespace: kube-system
  labels: {app: azure-npm, addonmanager.kubernetes.io/mode: EnsureExists}
spec:
  selector: {matchLabels: {k8s-app: azure-npm}}
  template:
    metadata:
      labels: {k8s-app: azure-npm}
      annotations: {azure.npm/scrapeable: ""}
    spec:
      priorityClassName: system-node-critical
      serviceAccountName: azure-npm
      hostNetwork: true
      nodeSelector: {kubernetes.io/os: windows}
      securityContext: {windowsOptions: {hostProcess: true, runAsUserName: NT AUTHORITY\SYSTEM}}
      tolerations: [{operator: Exists, effect: NoExecute}, {operator: Exists, effect: NoSchedule}]
      containers:
      - name: azure-npm
        image: mcr.microsoft.com/containernetworking/azure-npm:v1.6.29
        command: [powershell.exe]
        args: ['$env:CONTAINER_SANDBOX_MOUNT_POINT/npm.exe', start]
        resources: {limits: {cpu: 250m, memory: 300Mi}, requests: {cpu: 250m}}
        env:
        - {name: HOSTNAME, valueFrom: {fieldRef: {apiVersion: v1, fieldPath: spec.nodeName}}}
        - {name: NPM_CONFIG, value: .\\etc\\azure-npm\\azure-npm.json}
        volumeMounts:
        - {name: azure-npm-config, mountPath: .\\etc\\azure-npm}
      volumes:
      - {name: azure-npm-config, configMap: {name: azure-npm-config}}
`, `
apiVersion: v1
kind: ConfigMap
metadata: {name: azure-npm-config, namespace: kube-system}
data: {azure-npm.json: '{"ListeningPort": 10091, "Toggles": {"EnableV2NPM": true}}'}
`, `
apiVersion: v1
kind: Service
metadata: {name: npm-metrics-cluster-service, namespace: kube-system, labels: {app: npm-metrics}}
spec: {selector: {k8s-app: azure-npm}, ports: [{port: 9000, targetPort: 10091}]}
`}

// installPredecessor creates what kubectl apply creates from predecessor, and
// removes it, or what took its place, when the test ends.
func installPredecessor(t *testing.T) map[string]*unstructured.Unstructured {
	t.Helper()
	objects := map[string]*unstructured.Unstructured{}
	for _, text := range predecessor {
		object := &unstructured.Unstructured{}
		require.NoError(t, yaml.UnmarshalStrict([]byte(text), &object.Object))
		client := resourceOf(t, object)
		created, err := client.Create(t.Context(), withLastApplied(t, object), metav1.CreateOptions{FieldManager: "kubectl-client-side-apply"})
		require.NoError(t, err)
		t.Cleanup(func() {
			// t.Context() has ended.
			require.NoError(t, client.Delete(context.Background(), object.GetName(), metav1.DeleteOptions{}))
		})
		objects[object.GetKind()] = created
	}
	return objects
}

// withLastApplied notes in a copy of an object what it is, as kubectl apply does.
func withLastApplied(t *testing.T, object *unstructured.Unstructured) *unstructured.Unstructured {
	t.Helper()
	text, err := json.Marshal(object)
	require.NoError(t, err)
	noted := object.DeepCopy()
	annotations := noted.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[corev1.LastAppliedConfigAnnotation] = string(text)
	noted.SetAnnotations(annotations)
	return noted
}

// applyInClient applies an object over what is there as kubectl apply does
// without --server-side: a patch from last applied, wanted and current.
func applyInClient(t *testing.T, object, current *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	t.Helper()
	meta, err := strategicpatch.NewPatchMetaFromStruct(map[string]any{
		"DaemonSet": appsv1.DaemonSet{}, "ConfigMap": corev1.ConfigMap{}, "Service": corev1.Service{},
	}[object.GetKind()])
	require.NoError(t, err)
	modified, err := json.Marshal(withLastApplied(t, object))
	require.NoError(t, err)
	there, err := json.Marshal(current)
	require.NoError(t, err)
	original := []byte(current.GetAnnotations()[corev1.LastAppliedConfigAnnotation])
	patch, err := strategicpatch.CreateThreeWayMergePatch(original, modified, there, meta, true)
	require.NoError(t, err)
	return resourceOf(t, object).Patch(t.Context(), object.GetName(), types.StrategicMergePatchType, patch,
		metav1.PatchOptions{FieldManager: "kubectl-client-side-apply", FieldValidation: metav1.FieldValidationStrict})
}

// Applying ours over the predecessor, with either kind of apply, gives what
// applying ours to an empty cluster gives: nothing of the predecessor is left
// in a pod, and nothing is refused.
func TestDeployReplacesPredecessor(t *testing.T) {
	spec := func(object *unstructured.Unstructured) string {
		// The two kinds of data that the three objects have.
		text, err := yaml.Marshal(map[string]any{"spec": object.Object["spec"], "data": object.Object["data"]})
		require.NoError(t, err)
		return string(text)
	}
	ours := render(t, overlays["azure"])
	fresh := map[string]string{}
	for _, kind := range []string{"DaemonSet", "ConfigMap"} {
		object, err := apply(t, ours[kind], metav1.DryRunAll)
		require.NoError(t, err)
		fresh[kind] = spec(object)
	}
	for name, replace := range map[string]func(t *testing.T, object, current *unstructured.Unstructured) (*unstructured.Unstructured, error){
		"in the server": func(t *testing.T, object, _ *unstructured.Unstructured) (*unstructured.Unstructured, error) {
			return apply(t, object)
		},
		"in the client": applyInClient,
	} {
		t.Run(name, func(t *testing.T) {
			theirs := installPredecessor(t)
			for kind, current := range theirs {
				got, err := replace(t, ours[kind], current)
				require.NoError(t, err, kind)
				require.Equal(t, current.GetUID(), got.GetUID(), "replaced in place, not made anew")
				if kind != "Service" { // whose address the server chooses
					require.NotEqual(t, spec(current), spec(got))
					require.Equal(t, fresh[kind], spec(got))
				}
			}
			service, err := kube.CoreV1().Services("kube-system").Get(t.Context(), "npm-metrics-cluster-service", metav1.GetOptions{})
			require.NoError(t, err)
			require.Len(t, service.Spec.Ports, 1)
		})
	}
}
