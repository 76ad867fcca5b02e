package main

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/winnpm/winnpm/pkg/cli"
)

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
	require.Contains(t, said("completion", "bash"), "__start_kubectl-npm")
	require.Contains(t, said("__complete", "tra"), "trace\t")
}
