package manifest_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/winnpm/winnpm/pkg/state"
	"github.com/winnpm/winnpm/tool/manifest"
)

// TestObjects: the objects are what the text says. Nothing is added that depends on what is there.
func TestObjects(t *testing.T) {
	const text = `apiVersion: v1
kind: Pod
metadata: {name: bare, namespace: x}
---
apiVersion: v1
kind: Pod
metadata: {name: placed, namespace: x}
status: {podIP: 10.0.0.9}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: x}
spec: {template: {metadata: {labels: {app: web}}}}
---
apiVersion: apps/v1
kind: ReplicaSet
metadata: {name: web-1, namespace: x, ownerReferences: [{apiVersion: apps/v1, kind: Deployment, name: web, uid: u, controller: true}]}
spec: {replicas: 2}
---
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: agent, namespace: x}
spec: {template: {spec: {nodeSelector: {os: windows}}}}
---
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: db, namespace: x}
spec: {replicas: 3}
---
apiVersion: v1
kind: Service
metadata: {name: web, namespace: x}
`
	o, warnings, err := manifest.Load([]string{"-"}, manifest.Options{Stdin: strings.NewReader(text)})
	require.NoError(t, err)
	require.Empty(t, warnings)
	require.False(t, o.Empty())
	require.Equal(t, []string{"x/bare@", "x/placed@"}, podNames(o.Pods), "workloads have not made pods")
	require.Empty(t, o.Namespaces, "none is added because it is mentioned")
	require.Empty(t, o.Pods[0].Status, "its address depends on who is there")
	require.Equal(t, "10.0.0.9", o.Pods[1].Status.PodIP)
	var got []string
	for _, w := range o.Workloads {
		got = append(got, w.Kind+" "+w.Namespace+"/"+w.Name)
	}
	require.Equal(t, []string{"StatefulSet x/db", "DaemonSet x/agent", "Deployment x/web", "ReplicaSet x/web-1"}, got)
	require.Equal(t, map[string]string{"StatefulSet x/db": "", "DaemonSet x/agent": "", "Deployment x/web": "", "ReplicaSet x/web-1": "Deployment x/web"}, o.Makers)
	require.Equal(t, []string{"stdin:1", "stdin:10"}, []string{o.Place("Pod x/bare"), o.Place("Deployment x/web")})

	db, agent, web := o.Workloads[0], o.Workloads[1], o.Workloads[2]
	require.Equal(t, []int{3, 3, 1, 2}, []int{db.Wanted(0), db.Wanted(5), web.Wanted(0), web.Wanted(2)}, "a number that is not there is that of before")
	require.True(t, agent.PerNode && agent.Matches(map[string]string{"os": "windows"}) && !agent.Matches(nil))
	pod := web.Pod("web-7", "n1")
	require.Equal(t, []string{"x", "web-7", "n1", "web"}, []string{pod.Namespace, pod.Name, pod.Spec.NodeName, pod.Labels["app"]})
	require.Empty(t, pod.Status)
}

func TestNoObject(t *testing.T) {
	o, _, err := manifest.Load([]string{"-"}, manifest.Options{Stdin: strings.NewReader("apiVersion: v1\nkind: Service\nmetadata: {name: web}\n")})
	require.NoError(t, err)
	require.True(t, o.Empty())
}

// A slip in a number of replicas is no larger than a cluster, and is refused where it stands.
func TestTooMany(t *testing.T) {
	o, _, err := manifest.Load([]string{"-"}, manifest.Options{Stdin: strings.NewReader(workload("apps/v1", "Deployment", "web", "{replicas: 2000000000}")), StdinName: "kubectl kustomize x"})
	require.NoError(t, err)
	require.Equal(t, 150_001, o.Workloads[0].Wanted(0))
	require.NoError(t, o.Workloads[0].TooMany(150_000))
	refused := (*manifest.Error)(nil)
	require.True(t, errors.As(o.Workloads[0].TooMany(150_001), &refused))
	require.EqualError(t, refused, "kubectl kustomize x:4: document 1: Deployment x/web: spec: makes more than 150000 pods in total; use fewer")
}

// A CronJob has the pods of one of its Jobs while it runs, for whoever asks; for kubectl npm simulate it
// is skipped with a warning.
func TestCronJob(t *testing.T) {
	read := func(spec string) (manifest.Objects, []state.Warning, error) {
		return manifest.Load([]string{"-"}, manifest.Options{Stdin: strings.NewReader(workload("batch/v1", "CronJob", "report", spec))})
	}
	const spec = "{schedule: '0 3 * * *', jobTemplate: {spec: {parallelism: 2, template: {metadata: {labels: {app: report}}}}}}"
	o, _, err := read(spec)
	require.NoError(t, err)
	require.Equal(t, 2, o.Workloads[0].Wanted(0))
	pod := o.Workloads[0].Pod("report-0", "")
	require.Equal(t, "report", pod.Labels["app"])
	require.Equal(t, "CronJob", pod.OwnerReferences[0].Kind)
	_, _, err = read("{jobTemplate: {spec: {parallelism: -1}}}")
	require.EqualError(t, err, "stdin:4: document 1: CronJob x/report: spec.jobTemplate.spec.parallelism: -1 is negative; use 0 or more")
	_, _, err = read("{jobTemplate: {spec: {template: {metadata: {labels: {app: -x}}}}}}")
	require.ErrorContains(t, err, "CronJob x/report: spec.jobTemplate.spec.template.metadata.labels: ")

	o, warnings, err := manifest.Load([]string{"-"}, manifest.Options{Stdin: strings.NewReader(workload("batch/v1", "CronJob", "report", spec)), SkipMakers: true})
	require.NoError(t, err)
	require.Empty(t, o.Workloads)
	require.Len(t, warnings, 1)
	require.Equal(t, manifest.SkippedKind, warnings[0].Reason)
	require.Equal(t, "stdin document 1: kind CronJob makes pods, which are left out, and is skipped", warnings[0].Message)
}
