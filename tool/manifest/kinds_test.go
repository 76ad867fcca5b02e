package manifest_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/winnpm/winnpm/pkg/state"
	"github.com/winnpm/winnpm/tool/manifest"
)

// TestMisspeltKinds: what is skipped because its kind is misspelt is told from what somebody
// meant to be of no interest.
func TestMisspeltKinds(t *testing.T) {
	read := func(version, kind string) state.Warning {
		text := "apiVersion: " + version + "\nkind: " + kind + "\nmetadata: {name: a}\n"
		_, warnings, err := manifest.Load([]string{"-"}, manifest.Options{Stdin: strings.NewReader(text), SkipMakers: true})
		require.NoError(t, err, kind)
		require.Len(t, warnings, 1, kind)
		return warnings[0]
	}
	for _, c := range []struct{ version, kind, meant string }{
		{"v1", "pod", "Pod of v1"},
		{"v1", "Pods", "Pod of v1"},
		{"v1", "namespace", "Namespace of v1"},
		{"v1", "networkpolicy", "NetworkPolicy of networking.k8s.io/v1"},
		{"example.com/v1", "networkpolicy", "NetworkPolicy of networking.k8s.io/v1"},
		{"example.com/v1", "clusternetworkpolicy", "ClusterNetworkPolicy of policy.networking.k8s.io/v1alpha2"},
		{"apps/v1", "deployment", "Deployment of apps/v1"},
		{"v1", "Deployment", "Deployment of apps/v1"},
		{"batch/v1", "Cronjob", "CronJob of batch/v1"},
	} {
		w := read(c.version, c.kind)
		require.Equal(t, manifest.UnknownKind, w.Reason)
		require.True(t, manifest.Misleads(w))
		require.Equal(t, "stdin document 1: kind "+c.kind+" of "+c.version+" is none that is read, so verdicts are without it; did you mean "+c.meant+"?", w.Message)
	}
	for version, kinds := range map[string]string{
		"v1":                     "Secret ConfigMap Event Endpoints Binding LimitRange PodTemplate ServiceAccount PersistentVolume PersistentVolumeClaim ResourceQuota ComponentStatus ReplicationController",
		"apps/v1":                "ControllerRevision",
		"batch/v1":               "CronJob",
		"example.com/v1":         "pod Deployment Pods",
		"serving.knative.dev/v1": "Service",
	} {
		for kind := range strings.FieldsSeq(kinds) {
			w := read(version, kind)
			require.Equal(t, manifest.SkippedKind, w.Reason, w.Message)
			require.False(t, manifest.Misleads(w))
		}
	}
}

// TestFileTwice: objects of a file that is given twice are there twice. A file may be called as
// standard input is.
func TestFileTwice(t *testing.T) {
	dir := t.TempDir()
	path := write(t, dir, "pods.yaml", podText)
	for _, paths := range [][]string{{path, path}, {dir, path}} {
		_, _, err := manifest.Load(paths, manifest.Options{})
		require.ErrorContains(t, err, path+":3: document 1: Pod x/p: metadata.name: the object is there twice, first in "+path+" document 1")
	}
	t.Chdir(dir)
	for _, name := range []string{"stdin", "-"} {
		write(t, dir, name, podNamed("q"))
		o, _, err := manifest.Load([]string{"./" + name, "-"}, manifest.Options{Stdin: strings.NewReader(podText)})
		require.NoError(t, err, name)
		require.Len(t, o.Pods, 2, name)
	}
}

// TestNoSecretInErrors: a file that is no manifest may be a secret.
func TestNoSecretInErrors(t *testing.T) {
	for _, text := range []string{"s3cr3t", "12345", "true", "[s3cr3t]", "--- s3cr3t", podText + "---\ns3cr3t\n", "{apiVersion: v1, kind: List, items: [s3cr3t]}"} {
		_, _, err := load(text)
		require.ErrorContains(t, err, "must be an object with apiVersion, kind and metadata")
		require.NotContains(t, err.Error(), "s3cr3t")
		require.NotContains(t, err.Error(), "12345")
	}
	for _, value := range []string{"*s3cr3t", "{{ s3cr3t }}: x", "{ ? {s3cr3t: 1} : x }", "!!int s3cr3t", "!!float s3cr3t", "!!timestamp s3cr3t"} {
		_, _, err := load("apiVersion: v1\nkind: Secret\nmetadata: {name: a}\nstringData:\n  p: " + value + "\n")
		require.ErrorContains(t, err, "broken YAML", value)
		require.NotContains(t, err.Error(), "s3cr3t", value)
	}
}

// TestReplicationController is a workload as others are, for whoever asks.
func TestReplicationController(t *testing.T) {
	read := func(spec string) (manifest.Objects, error) {
		o, _, err := manifest.Load([]string{"-"}, manifest.Options{Stdin: strings.NewReader(workload("v1", "ReplicationController", "old", spec))})
		return o, err
	}
	o, err := read("{replicas: 2, selector: {app: a}, template: {metadata: {labels: {app: a}}}}")
	require.NoError(t, err)
	require.Equal(t, 2, o.Workloads[0].Wanted(0))
	require.Equal(t, "ReplicationController", o.Workloads[0].Pod("old-0", "").OwnerReferences[0].Kind)
	o, err = read("{template: {metadata: {labels: {app: a}}}}")
	require.NoError(t, err)
	require.Equal(t, 1, o.Workloads[0].Wanted(0))
	_, err = read("{replicas: 1}")
	require.EqualError(t, err, "stdin:4: document 1: ReplicationController x/old: spec.template: is missing; say which pods it makes")
}
