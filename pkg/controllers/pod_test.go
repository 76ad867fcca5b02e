package controllers

import (
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"reflect"
	"runtime/debug"
	"testing"
	"time"
	"unsafe"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/winnpm/winnpm/pkg/desired"
	"github.com/winnpm/winnpm/pkg/policy"
)

func fullPod() *corev1.Pod {
	always := corev1.ContainerRestartPolicyAlways
	when := metav1.NewTime(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
	p := newPod("web", "10.0.0.1")
	p.CreationTimestamp, p.DeletionTimestamp = when, &when
	p.Spec.Containers = []corev1.Container{
		{Name: "one", Image: "image", Ports: []corev1.ContainerPort{
			{Name: "http", ContainerPort: 8080},
			{ContainerPort: 9999},
			{Name: "dns", ContainerPort: 53, Protocol: corev1.ProtocolUDP},
		}},
		{Name: "two", Ports: []corev1.ContainerPort{
			{Name: "http", ContainerPort: 8081, Protocol: corev1.ProtocolTCP},
			{Name: "dns", ContainerPort: 5353, Protocol: corev1.ProtocolTCP},
		}},
	}
	p.Spec.InitContainers = []corev1.Container{
		{Name: "once", Ports: []corev1.ContainerPort{{Name: "setup", ContainerPort: 1}}},
		{Name: "sidecar", RestartPolicy: &always, Ports: []corev1.ContainerPort{
			{Name: "http", ContainerPort: 1}, {Name: "metrics", ContainerPort: 9090},
		}},
	}
	p.Status.PodIPs = []corev1.PodIP{{IP: "fd00::1"}, {IP: "10.0.0.1"}}
	p.Status.StartTime = &when
	return p
}

func hostProcessOptions() *corev1.WindowsSecurityContextOptions {
	yes := true
	return &corev1.WindowsSecurityContextOptions{HostProcess: &yes}
}

func makeHostProcess(containers []corev1.Container) {
	for i := range containers {
		containers[i].SecurityContext = &corev1.SecurityContext{WindowsOptions: hostProcessOptions()}
	}
}

func TestPodFrom(t *testing.T) {
	when := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	want := desired.Pod{
		Namespace: "x", Name: "web", UID: "uid-web", Labels: map[string]string{"app": "web"},
		Addr: netip.MustParseAddr("10.0.0.1"),
		Ports: []desired.PodPort{
			{Name: "http", Protocol: policy.TCP, Number: 8080},
			{Name: "dns", Protocol: policy.UDP, Number: 53},
			{Name: "dns", Protocol: policy.TCP, Number: 5353},
			{Name: "metrics", Protocol: policy.TCP, Number: 9090},
		},
		Local: true, Deleting: true, Started: when, Created: when,
	}
	for _, tc := range []struct {
		name string
		node string
		edit func(*corev1.Pod)
		want func(*desired.Pod)
	}{
		{name: "everything", node: "n1"},
		{name: "every pod is local", node: ""},
		{name: "of another node", node: "n2", want: func(p *desired.Pod) { p.Local, p.Node = false, "n1" }},
		{name: "not scheduled", node: "n1", edit: func(p *corev1.Pod) { p.Spec.NodeName = "" }, want: func(p *desired.Pod) { p.Local = false }},
		{name: "podIP alone", edit: func(p *corev1.Pod) { p.Status.PodIPs = nil }},
		{name: "IPv6 only", edit: func(p *corev1.Pod) { p.Status.PodIPs, p.Status.PodIP = p.Status.PodIPs[:1], "fd00::1" },
			want: func(p *desired.Pod) { p.Addr = netip.Addr{} }},
		{name: "no address yet", edit: func(p *corev1.Pod) { p.Status.PodIPs, p.Status.PodIP = nil, "" },
			want: func(p *desired.Pod) { p.Addr = netip.Addr{} }},
		{name: "succeeded", edit: func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded }, want: func(p *desired.Pod) { p.Finished = true }},
		{name: "failed", edit: func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed }, want: func(p *desired.Pod) { p.Finished = true }},
		{name: "pending with an address", edit: func(p *corev1.Pod) { p.Status.Phase = corev1.PodPending }},
		{name: "host network", edit: func(p *corev1.Pod) { p.Status.HostIPs = []corev1.HostIP{{IP: "fd00::9"}, {IP: "10.0.0.1"}} },
			want: func(p *desired.Pod) { p.HostNetwork = true }},
		{name: "host network, of an old kubelet", edit: func(p *corev1.Pod) { p.Status.HostIP = "10.0.0.1" }, want: func(p *desired.Pod) { p.HostNetwork = true }},
		{name: "host network by its field", edit: func(p *corev1.Pod) { p.Spec.HostNetwork = true }},
		{name: "host network by its field, on a node", edit: func(p *corev1.Pod) { p.Spec.HostNetwork, p.Status.HostIP = true, "10.9.0.1" }},
		{name: "host network, of IPv6", edit: func(p *corev1.Pod) {
			p.Status.PodIPs, p.Status.PodIP, p.Status.HostIP = nil, "fd00::1", "FD00:0::1"
		}, want: func(p *desired.Pod) { p.Addr, p.HostNetwork = netip.Addr{}, true }},
		{name: "host network without an address", edit: func(p *corev1.Pod) { p.Spec.HostNetwork, p.Status.PodIPs, p.Status.PodIP = true, nil, "" },
			want: func(p *desired.Pod) { p.Addr, p.HostNetwork = netip.Addr{}, true }},
		{name: "HostProcess", edit: func(p *corev1.Pod) {
			p.Spec.SecurityContext = &corev1.PodSecurityContext{WindowsOptions: hostProcessOptions()}
		},
			want: func(p *desired.Pod) { p.HostNetwork = true }},
		{name: "HostProcess containers", edit: func(p *corev1.Pod) { makeHostProcess(p.Spec.Containers); makeHostProcess(p.Spec.InitContainers) },
			want: func(p *desired.Pod) { p.HostNetwork = true }},
		{name: "some HostProcess containers", edit: func(p *corev1.Pod) { makeHostProcess(p.Spec.Containers) }},
		{name: "HostProcess with an address that is not the node's", edit: func(p *corev1.Pod) {
			p.Spec.SecurityContext, p.Status.HostIP = &corev1.PodSecurityContext{WindowsOptions: hostProcessOptions()}, "10.9.0.1"
		}},
		{name: "not started", edit: func(p *corev1.Pod) { p.Status.StartTime = nil }, want: func(p *desired.Pod) { p.Started = time.Time{} }},
		{name: "port out of range", edit: func(p *corev1.Pod) { p.Spec.Containers[0].Ports[0].ContainerPort = 1<<16 + 80 },
			want: func(p *desired.Pod) {
				p.Ports = append([]desired.PodPort{p.Ports[1], {Name: "http", Protocol: policy.TCP, Number: 8081}}, p.Ports[2:]...)
			}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			object, want := fullPod(), want
			if tc.edit != nil {
				tc.edit(object)
			}
			if tc.want != nil {
				tc.want(&want)
			}
			before := object.DeepCopy()
			equal := cmp.Comparer(func(a, b netip.Addr) bool { return a == b })
			require.Empty(t, cmp.Diff(want, PodFrom(object, tc.node), equal))

			fitted := want
			fitted.Fit()
			kept := keptPods(tc.node, policy.DefaultBudgets()).of(object)
			require.NotNil(t, kept)
			require.Empty(t, cmp.Diff(&fitted, kept, equal), "what is shared is what it was")
			require.Empty(t, cmp.Diff(before, object), "the object was not changed")
		})
	}
}

// A HostProcess container has its credentials below a mount point.
func TestHostProcessCredentials(t *testing.T) {
	var token string // of the last request
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		token = r.Header.Get("Authorization")
		_, _ = io.WriteString(w, "hello")
	}))
	defer server.Close()
	at, err := url.Parse(server.URL)
	require.NoError(t, err)
	t.Setenv("KUBERNETES_SERVICE_HOST", at.Hostname())
	t.Setenv("KUBERNETES_SERVICE_PORT", at.Port())
	root := t.TempDir()
	t.Setenv(mountPointEnv, root)
	dir := filepath.Join(root, "var", "run", "secrets", "kubernetes.io", "serviceaccount")
	require.NoError(t, os.MkdirAll(dir, 0o700))
	tokenFile, caFile := filepath.Join(dir, "token"), filepath.Join(dir, "ca.crt")
	write := func(file, text string) { require.NoError(t, os.WriteFile(file, []byte(text), 0o600)) }
	write(tokenFile, "first")

	_, err = RESTConfig("")
	require.ErrorIs(t, err, os.ErrNotExist, "no certificate, no trust")
	require.ErrorContains(t, err, caFile)
	write(caFile, "none")
	_, err = RESTConfig("")
	require.ErrorContains(t, err, "no kubeconfig given and not in a cluster: ")
	write(caFile, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})))

	cfg, err := RESTConfig("")
	require.NoError(t, err)
	require.Equal(t, "https://"+at.Host, cfg.Host)
	require.Equal(t, "first", cfg.BearerToken)
	write(tokenFile, "second") // as the kubelet does when the first one is about to end
	client, err := rest.HTTPClientFor(cfg)
	require.NoError(t, err)
	defer client.CloseIdleConnections()
	resp, err := client.Get(cfg.Host)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.Equal(t, "Bearer second", token)

	t.Setenv("KUBERNETES_SERVICE_PORT", "")
	_, err = RESTConfig("")
	require.ErrorIs(t, err, rest.ErrNotInCluster)
}

// Newer versions of containerd put the files where every pod has them.
func TestHostProcessCredentialsElsewhere(t *testing.T) {
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	t.Setenv(mountPointEnv, t.TempDir())
	_, err := RESTConfig("")
	require.EqualError(t, err, "no kubeconfig given and not in a cluster: "+rest.ErrNotInCluster.Error())
}

// place is where a map, slice or string is in memory.
func place(v any) uintptr {
	if s, ok := v.(string); ok {
		return uintptr(unsafe.Pointer(unsafe.StringData(s)))
	}
	return reflect.ValueOf(v).Pointer()
}

// decodedPod is a pod whose every part is its own, as a decoder makes it.
func decodedPod(name, app, unique string) *desired.Pod {
	own := func(s string) string { return string([]byte(s)) }
	p := &desired.Pod{Namespace: own("x"), Name: own(name), UID: types.UID(own(name)), Labels: map[string]string{own("app"): own(app)},
		Ports: []desired.PodPort{{Name: own("http"), Protocol: "TCP", Number: 80}}}
	if unique != "" {
		p.Labels[own("pod")] = own(unique)
	}
	return p
}

func TestPodsShareWhatIsEqual(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(-1)) // a collection may forget a text
	in := newInterner()
	a, b, other, unique := decodedPod("a", "web", ""), decodedPod("b", "web", ""), decodedPod("c", "db", ""), decodedPod("d", "web", "d")
	for _, p := range []*desired.Pod{a, b, other, unique} {
		in.pod(p)
	}
	require.Equal(t, place(a.Labels), place(b.Labels))
	require.Equal(t, place(a.Ports), place(b.Ports))
	require.Equal(t, place(a.Namespace), place(other.Namespace))
	require.Equal(t, map[string]string{"app": "db"}, other.Labels)
	require.NotEqual(t, place(a.Labels), place(other.Labels))
	require.Equal(t, map[string]string{"app": "web", "pod": "d"}, unique.Labels)
	require.Equal(t, place(a.Labels["app"]), place(unique.Labels["app"]), "a label of its own, and one that others have")
	require.Equal(t, []desired.PodPort{{Name: "http", Protocol: "TCP", Number: 80}}, unique.Ports)
}

// Labels that are unique to their pods use no memory without a bound, and what all pods share is
// remembered again afterwards.
func TestInternerForgets(t *testing.T) {
	in := newInterner()
	for i := range 100_000 {
		p := decodedPod("b", fmt.Sprint("app", i), fmt.Sprint("unique", i))
		p.Size = 100
		in.pod(p)
		require.LessOrEqual(t, len(in.pods), internedBytes/100)
		require.LessOrEqual(t, in.bytes, internedBytes)
	}
	a, b := decodedPod("a", "web", ""), decodedPod("b", "web", "")
	in.pod(a)
	in.pod(b)
	require.Equal(t, place(a.Labels), place(b.Labels))
}
