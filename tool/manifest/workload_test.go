package manifest_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"github.com/winnpm/winnpm/tool/manifest"
)

func workload(version, kind, name, spec string) string {
	return fmt.Sprintf("apiVersion: %s\nkind: %s\nmetadata: {name: %s, namespace: x}\nspec: %s\n", version, kind, name, spec)
}

func TestWorkloads(t *testing.T) {
	owned := func(kind, owner string) string {
		return ", ownerReferences: [{apiVersion: apps/v1, kind: " + kind + ", name: " + owner + ", uid: u, controller: true}]"
	}
	for _, c := range []struct {
		name, text, node string
		want             []string
	}{
		{"one by default", workload("apps/v1", "Deployment", "d", "{}"), "", []string{"x/d-0@"}},
		{"none", workload("apps/v1", "Deployment", "d", "{replicas: 0}"), "", nil},
		{"null is the default", workload("apps/v1", "ReplicaSet", "r", "{replicas: null}"), "", []string{"x/r-0@"}},
		{"two on the node", workload("apps/v1", "StatefulSet", "s", "{replicas: 2}"), "n1", []string{"x/s-0@n1", "x/s-1@n1"}},
		{"template says otherwise", workload("apps/v1", "ReplicaSet", "r", "{template: {spec: {nodeName: n2}}}"), "n1", []string{"x/r-0@n2"}},
		{"job", workload("batch/v1", "Job", "j", "{parallelism: 2}"), "", []string{"x/j-0@", "x/j-1@"}},
		{"job by default", workload("batch/v1", "Job", "j", "{}"), "", []string{"x/j-0@"}},
		{"daemon without nodes", workload("apps/v1", "DaemonSet", "d", "{}"), "", []string{"x/d-0@"}},
		{"daemon on the node", workload("apps/v1", "DaemonSet", "d", "{}"), "n1", []string{"x/d-0@n1"}},
		{"daemon on each", twoNodes + workload("apps/v1", "DaemonSet", "d", "{}"), "", []string{"x/d-0@n1", "x/d-1@n2"}},
		{"daemon on each, by option", twoNodes + workload("apps/v1", "DaemonSet", "d", "{}"), "n2", []string{"x/d-0@n1", "x/d-1@n2"}},
		{"daemon on some", twoNodes + workload("apps/v1", "DaemonSet", "d", "{template: {spec: {nodeSelector: {os: windows}}}}"), "", []string{"x/d-0@n2"}},
		{"daemon on none is one", twoNodes + workload("apps/v1", "DaemonSet", "d", "{template: {spec: {nodeSelector: {os: plan9}}}}"), "", []string{"x/d-0@"}},
		{
			"names that are taken", podNamed("d-0") + "---\n" + workload("apps/v1", "Deployment", "d", "{replicas: 2}") + "---\n" + workload("apps/v1", "StatefulSet", "d", "{replicas: 2}"), "",
			[]string{"x/d-0@", "x/d-1@", "x/d-2@", "x/d-3@", "x/d-4@"},
		},
		{
			"pods are there already", workload("apps/v1", "DaemonSet", "d", "{}") +
				"---\napiVersion: v1\nkind: Pod\nmetadata: {name: d-x7k2p, namespace: x" + owned("DaemonSet", "d") + "}\n", "",
			[]string{"x/d-x7k2p@"},
		},
		{
			"replica sets are there already", workload("apps/v1", "Deployment", "d", "{replicas: 3}") +
				"---\napiVersion: apps/v1\nkind: ReplicaSet\nmetadata: {name: d-1, namespace: x" + owned("Deployment", "d") + "}\nspec: {replicas: 0}\n" +
				"---\napiVersion: apps/v1\nkind: ReplicaSet\nmetadata: {name: d-2, namespace: x" + owned("Deployment", "d") + "}\nspec: {replicas: 2}\n", "",
			[]string{"x/d-2-0@", "x/d-2-1@"},
		},
		{
			"an owner of another namespace", workload("apps/v1", "DaemonSet", "d", "{}") +
				"---\napiVersion: v1\nkind: Pod\nmetadata: {name: q, namespace: z" + owned("DaemonSet", "d") + "}\n", "",
			[]string{"x/d-0@", "z/q@"},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := mustLoad(t, c.text, manifest.Options{Node: c.node})
			require.Empty(t, cmp.Diff(c.want, podNames(o.Pods)))
		})
	}
}

func TestWorkloadPod(t *testing.T) {
	o := mustLoad(t, workload("apps/v1", "Deployment", "d", `
  replicas: 2
  template:
    metadata: {labels: {a: b}, annotations: {c: d}}
    spec: {hostNetwork: true, containers: [{name: c, ports: [{name: http, containerPort: 80}]}]}`), manifest.Options{})
	require.Len(t, o.Pods, 2)
	first, second := o.Pods[0], o.Pods[1]
	require.Equal(t, map[string]string{"a": "b"}, first.Labels)
	require.Equal(t, map[string]string{"c": "d"}, first.Annotations)
	require.True(t, first.Spec.HostNetwork)
	require.Equal(t, "http", first.Spec.Containers[0].Ports[0].Name)
	require.Equal(t, "Deployment", first.OwnerReferences[0].Kind)
	require.Equal(t, first.OwnerReferences, second.OwnerReferences)

	// What all pods have is there once: nobody changes it.
	require.Same(t, &first.Spec.Containers[0], &second.Spec.Containers[0])
}

// The pods of a StatefulSet bear these very names in a cluster, so it goes first.
func TestStatefulSetGoesFirst(t *testing.T) {
	o := mustLoad(t, workload("apps/v1", "Deployment", "d", "{}")+"---\n"+workload("apps/v1", "StatefulSet", "d", "{}"), manifest.Options{})
	require.Equal(t, "x/d-0", o.Pods[0].Namespace+"/"+o.Pods[0].Name)
	require.Equal(t, "StatefulSet", o.Pods[0].OwnerReferences[0].Kind)
}

// The order of the text does not matter.
func TestOrder(t *testing.T) {
	documents := []string{
		strings.TrimSuffix(twoNodes, "---\n"), podNamed("d-1"), podNamed("z"), np("{podSelector: {}}"),
		workload("apps/v1", "Deployment", "d", "{replicas: 3}"), workload("apps/v1", "StatefulSet", "d", "{replicas: 2}"),
		workload("apps/v1", "DaemonSet", "d", "{}"), workload("batch/v1", "Job", "d", "{}"),
		"apiVersion: v1\nkind: Namespace\nmetadata: {name: x, labels: {a: b}}\n",
	}
	want := mustLoad(t, strings.Join(documents, "---\n"), manifest.Options{Node: "n1"})
	r := rand.New(rand.NewPCG(1, 2))
	for range 20 {
		r.Shuffle(len(documents), func(i, j int) { documents[i], documents[j] = documents[j], documents[i] })
		got := mustLoad(t, strings.Join(documents, "---\n"), manifest.Options{Node: "n1"})
		got.Places = want.Places // the one thing that the order is about
		require.Empty(t, cmp.Diff(want, got), strings.Join(documents, "---\n"))
	}
}
