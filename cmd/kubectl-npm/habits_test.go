package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/winnpm/winnpm/pkg/cli"
)

// workloads have a Deployment, a StatefulSet and Services.
const workloads = `
{apiVersion: apps/v1, kind: Deployment, metadata: {name: web, namespace: x}, spec: {replicas: 3, selector: {matchLabels: {app: web}},
  template: {metadata: {labels: {app: web}}, spec: {containers: [{name: c, image: i}]}}}}
---
{apiVersion: apps/v1, kind: StatefulSet, metadata: {name: db, namespace: x}, spec: {replicas: 2, serviceName: db, selector: {matchLabels: {app: db}},
  template: {metadata: {labels: {app: db}}, spec: {containers: [{name: c, image: i, ports: [{name: pg, containerPort: 5432}, {name: dns, containerPort: 53, protocol: UDP}]}]}}}}
---
{apiVersion: batch/v1, kind: CronJob, metadata: {name: backup, namespace: x}, spec: {jobTemplate: {spec: {template: {metadata: {labels: {app: backup}}}}}}}
---
{apiVersion: v1, kind: Pod, metadata: {name: odd, namespace: x, labels: {app: db, odd: "yes"}}, spec: {containers: [{name: c, image: i, ports: [{name: pg, containerPort: 6432}]}]}}
---
{apiVersion: v1, kind: Service, metadata: {name: db, namespace: x}, spec: {selector: {app: db}, ports: [{name: sql, port: 80, targetPort: pg}, {name: plain, port: 5432}]}}
---
{apiVersion: v1, kind: Pod, metadata: {name: canary, namespace: x, labels: {app: web, canary: "yes"}}, spec: {containers: [{name: c, image: i}]}}
---
{apiVersion: v1, kind: Service, metadata: {name: front, namespace: x}, spec: {selector: {app: web}, ports: [{port: 80}]}}
---
{apiVersion: v1, kind: Service, metadata: {name: far, namespace: x}, spec: {type: ExternalName, externalName: far.example.com}}
---
{apiVersion: v1, kind: Service, metadata: {name: bare, namespace: x}, spec: {ports: [{port: 80}]}}
---
{apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, metadata: {name: db, namespace: x},
  spec: {podSelector: {matchLabels: {app: db}}, ingress: [{from: [{podSelector: {matchLabels: {app: web}}}], ports: [{port: 5432}]}]}}
`

func TestTraceAsKubectl(t *testing.T) {
	file := filepath.Join(t.TempDir(), "m.yaml")
	require.NoError(t, os.WriteFile(file, []byte(workloads), 0o600))
	for _, tc := range []struct {
		args string
		code int
		said []string
	}{
		{"-n x web-0 db-0:5432", exitAllowed, []string{"ALLOWED  x/web-0 -> x/db-0:5432/TCP"}},
		{"-n x web-0 db-0:5432/udp", exitBlocked, []string{"BLOCKED  x/web-0 -> x/db-0:5432/UDP"}},
		{"-n x web-0 db-0:pg", exitAllowed, []string{"ALLOWED  x/web-0 -> x/db-0:5432/TCP"}},
		{"-n x web-0 db-0:dns", exitBlocked, []string{"x/db-0:53/UDP"}},
		{"-n y x/web-0 x/sts/db:pg", exitAllowed, []string{"x/db-0 stands for 2 pods of statefulset x/db on its node that differ from it in the address alone"}},
		{"-n x cj/backup db-0:5432", exitBlocked, []string{"x/backup-0 is a pod of cronjob x/backup", "BLOCKED  x/backup-0 -> x/db-0:5432/TCP"}},
		{"-n x deploy/web po/db-1:pg", exitAllowed, []string{"x/web-0 stands for 3 pods of deployment x/web", "ALLOWED  x/web-0 -> x/db-1:5432/TCP"}},
		{"-n x deploy/web svc/db:sql", exitBlocked, []string{
			"1 of 2 BLOCKED, 0 UNKNOWN, 1 ALLOWED\n",
			"a connection to Service x/db:sql becomes one to x/db-0:5432/TCP (DNAT) before policies are asked: they have to allow that port",
			"\nBLOCKED  x/web-0 -> x/odd:6432/TCP", "\nALLOWED  x/web-0 -> x/db-0:5432/TCP",
		}},
		{"-n x deploy/web svc/db:5432 -o json", exitAllowed, []string{`{"verdict":"allowed","notes":["`, `"answers":[{"from":"x/web-0"`}},
		{"-n x deploy/web svc/db:80 -o yaml", exitBlocked, []string{"\nverdict: blocked\n"}},
		{"-n x web-0 db-0:5432 -o yaml", exitAllowed, []string{"\nverdict: allowed\n"}},
		{"-n x db-0 svc/front:80", exitAllowed, []string{"x/canary is a pod of service x/front", "x/web-0 stands for 3 pods of service x/front"}},
		{"-n x web-0 svc/db:81", exitNoDump, []string{"kubectl npm: trace: service x/db has no port 81; there is sql (80), plain (5432)\n"}},
		{"-n x svc/db web-0:1", exitNoDump, []string{"kubectl npm: trace: service x/db opens no connections: name the workload that does\n"}},
		{"-n x web-0 svc/far:80", exitNoDump, []string{"service x/far is a name for far.example.com: ask about its addresses"}},
		{"-n x web-0 svc/bare:80", exitNoDump, []string{"service x/bare selects no pods, somebody else says where it leads"}},
		{"-n x web-0 svc/none:80", exitNoDump, []string{"there is no Service x/none"}},
		{"-n x deploy/wep db-0:80", exitNoDump, []string{"deployment x/wep has no running pod; did you mean web?"}},
		{"-n x web-0 db-0:htt", exitNoDump, []string{`x/db-0 has no port called "htt"; there is pg, dns`}},
		{"-n x web-0 10.1.2.3:http", exitNoDump, []string{`port "http" is a name, and 10.1.2.3 is no pod that is known: give the number`}},
		{"-n x web-0 db-9:80", exitNoDump, []string{"x/db-9 cannot be asked about: there is no such pod"}},
		{"web-0 db-0:80", exitNoDump, []string{"default/web-0 cannot be asked about: there is no such pod; there is x/web-0"}},
	} {
		t.Run(tc.args, func(t *testing.T) {
			code, stdout, stderr := command(t, "", append(append([]string{"trace"}, strings.Fields(tc.args)...), "--manifests", file)...)
			require.Equal(t, tc.code, code, stdout+stderr)
			for _, part := range tc.said {
				require.Contains(t, stdout+stderr, part)
			}
			code, out, errs := command(t, workloads, append(append([]string{"trace"}, strings.Fields(tc.args)...), "--manifests", "-")...)
			require.Equal(t, tc.code, code, "from stdin: "+out+errs)
		})
	}
	code, _, stderr := command(t, "", "trace", "deploy/web", "x/b:80", "--dump", "-")
	require.Equal(t, exitNoDump, code)
	require.Contains(t, stderr, "what a dump knows has no workloads, Services and names of ports")
}

// In a cluster a Deployment's pods are those of its ReplicaSet, and the namespace is that of
// the context.
func TestTraceWorkloadsOfACluster(t *testing.T) {
	if !inOwnProcess(t) {
		return
	}
	fake := fakeCluster(t)
	yes := true
	for i := range fake.Pods {
		p := &fake.Pods[i]
		switch p.Namespace + "/" + p.Name {
		case "x/web":
			p.Labels = map[string]string{"app": "web", "pod-template-hash": "abc"}
			p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "front-abc", Controller: &yes}}
			p.Status.PodIP = "10.0.0.1"
		case "z/db":
			p.Labels = map[string]string{"app": "db"}
			p.Status.PodIP = "10.0.0.2"
		}
	}
	another := podOn("x", "admin", "win-1") // of a Deployment whose name begins alike
	another.Labels = map[string]string{"app": "admin", "pod-template-hash": "abc"}
	another.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "front-admin-abc", Controller: &yes}}
	another.Status.PodIP = "10.0.0.3"
	fake.Pods = append(fake.Pods, podOn("x", "gone", "win-1"), another)
	fake.Services = []corev1.Service{{
		ObjectMeta: metav1.ObjectMeta{Namespace: "z", Name: "db"},
		Spec:       corev1.ServiceSpec{Selector: map[string]string{"app": "db"}, Ports: []corev1.ServicePort{{Port: 80, TargetPort: intstr.FromInt32(5432)}}},
	}}
	config, err := os.ReadFile(fake.Kubeconfig)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(fake.Kubeconfig, []byte(strings.Replace(string(config), "context: {cluster: a", "context: {namespace: x, cluster: a", 1)), 0o600))
	t.Setenv("KUBECONFIG", fake.Kubeconfig)
	code, stdout, stderr := command(t, "", "trace", "deploy/front", "z/svc/db:80")
	require.Equal(t, exitAllowed, code, stdout+stderr)
	require.Contains(t, stdout, "x/web is a pod of deployment x/front\n")
	require.NotContains(t, stdout, "x/admin")
	require.Contains(t, stdout, "a connection to Service z/db:80 becomes one to z/db:5432/TCP (DNAT)")
	require.Contains(t, stdout, "\ninto z/db on win-2: allowed, policy z/db")
	code, stdout, _ = command(t, "", "trace", "web", "z/db:443/TCP")
	require.Equal(t, exitBlocked, code)
	require.Contains(t, stdout, "BLOCKED  x/web -> z/db:443/TCP")
	fake.Forbidden = []string{"get services"}
	code, _, stderr = command(t, "", "trace", "web", "z/svc/db:80")
	require.Equal(t, exitNoDump, code)
	require.Contains(t, stderr, "looking for service z/db: services is forbidden: nobody may get them; deploy/trace has the rights that it takes")
}

// TestCalledAs: the program calls itself as it is called, and completes what is typed.
func TestCalledAs(t *testing.T) {
	said := func(args ...string) string {
		_, stdout, stderr := command(t, "", args...)
		return stdout + stderr
	}
	require.Equal(t, "kubectl npm "+cli.Version()+"\n", said("--version"))
	require.Equal(t, "kubectl npm "+cli.Version()+"\n", said("version"))
	require.Contains(t, said("plan", "--help"), "\n  kubectl npm plan -f policy.yaml ")
	require.True(t, strings.HasPrefix(said("plan"), "kubectl npm: plan: nothing to plan"), said("plan"))
	require.True(t, strings.HasPrefix(said("simulate"), "kubectl npm: simulate: nothing to simulate"), said("simulate"))
	require.Contains(t, said("plan", "--nodes", "a"), "kubectl npm: plan: there is no flag --nodes; did you mean --node?")
	require.Contains(t, said("completion", "bash"), "__start_kubectl-npm")
	require.Contains(t, said("__complete", "tra"), "trace\t")
}

// TestTraceInNamespace: -n is the namespace of ends and of objects that name none.
func TestTraceInNamespace(t *testing.T) {
	const pod = "{apiVersion: v1, kind: Pod, metadata: {name: a}, spec: {containers: [{name: c, image: i}]}}"
	code, stdout, stderr := command(t, pod, "trace", "a", "192.0.2.1:80/TCP", "-n", "shop", "--manifests", "-")
	require.Equal(t, exitAllowed, code, stderr)
	require.Contains(t, stdout, "ALLOWED  shop/a -> 192.0.2.1:80/TCP")
	code, _, stderr = command(t, "", "simulate", "--manifests", shop, "--as", "somebody")
	require.Equal(t, 2, code)
	require.Contains(t, stderr, "exclude each other: give one of them")
}

// A policy without a namespace is where kubectl would put it.
func TestPlanInNamespace(t *testing.T) {
	file := filepath.Join(t.TempDir(), "p.yaml")
	require.NoError(t, os.WriteFile(file, []byte(strings.Replace(newPolicy, "namespace: monitoring", "labels: {a: b}", 1)), 0o600))
	code, stdout, stderr := command(t, "", "plan", "-n", "monitoring", "-f", file, "--manifests", shop)
	require.Equal(t, 0, code, stderr)
	require.True(t, strings.HasPrefix(stdout, "monitoring/open: new\n"), stdout)
	code, stdout, _ = command(t, "", "plan", "-f", file, "--manifests", shop, "-o", "yaml")
	require.Equal(t, 3, code, "there is no namespace default")
	require.Contains(t, stdout, "\n- change: new\n  policy: default/open\n")
	code, _, stderr = command(t, "", "plan", "-f", file, "--context", "none", "--kubeconfig", "/dev/null")
	require.Equal(t, 1, code)
	require.Contains(t, stderr, `context "none" does not exist`)
}
