package manifest_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/stretchr/testify/require"

	"github.com/winnpm/winnpm/tool/manifest"
)

func workload(version, kind, name, spec string) string {
	return fmt.Sprintf("apiVersion: %s\nkind: %s\nmetadata: {name: %s, namespace: x}\nspec: %s\n", version, kind, name, spec)
}

func TestWorkloadPod(t *testing.T) {
	o := mustLoad(t, workload("apps/v1", "Deployment", "d", `
  replicas: 2
  template:
    metadata: {labels: {a: b}, annotations: {c: d}}
    spec: {hostNetwork: true, containers: [{name: c, ports: [{name: http, containerPort: 80}]}]}`), manifest.Options{})
	d := o.Workloads[0]
	require.Equal(t, 2, d.Wanted(0))
	first, second := d.Pod("d-0", ""), d.Pod("d-1", "")
	require.Equal(t, map[string]string{"a": "b"}, first.Labels)
	require.Equal(t, map[string]string{"c": "d"}, first.Annotations)
	require.True(t, first.Spec.HostNetwork)
	require.Equal(t, "http", first.Spec.Containers[0].Ports[0].Name)
	require.Equal(t, "Deployment", first.OwnerReferences[0].Kind)
	require.Equal(t, first.OwnerReferences, second.OwnerReferences)

	// What all pods have is there once: nobody changes it.
	require.Same(t, &first.Spec.Containers[0], &second.Spec.Containers[0])
}

// The order of the text does not matter.
func TestOrder(t *testing.T) {
	documents := []string{
		strings.TrimSuffix(twoNodes, "---\n"), podNamed("d-1"), podNamed("z"), np("{podSelector: {}}"),
		workload("apps/v1", "Deployment", "d", "{replicas: 3}"), workload("apps/v1", "StatefulSet", "d", "{replicas: 2}"),
		workload("apps/v1", "DaemonSet", "d", "{}"), workload("batch/v1", "Job", "d", "{}"),
		"apiVersion: v1\nkind: Namespace\nmetadata: {name: x, labels: {a: b}}\n",
	}
	want := mustLoad(t, strings.Join(documents, "---\n"), manifest.Options{})
	r := rand.New(rand.NewPCG(1, 2))
	for range 20 {
		r.Shuffle(len(documents), func(i, j int) { documents[i], documents[j] = documents[j], documents[i] })
		got := mustLoad(t, strings.Join(documents, "---\n"), manifest.Options{})
		got.Places = want.Places // the one thing that the order is about
		require.Empty(t, cmp.Diff(want, got, cmpopts.IgnoreUnexported(manifest.Objects{}, manifest.Workload{})), strings.Join(documents, "---\n"))
	}
}
