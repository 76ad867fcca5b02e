package oracle

import (
	"fmt"
	"net/netip"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/tools/txtar"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/network-policy-api/apis/v1alpha2"
	"sigs.k8s.io/yaml"
)

// base is the cluster of every case: two namespaces with an object, one
// without, web pods that name their port http by different numbers, and two nodes.
func base(t *testing.T) Cluster {
	t.Helper()
	namespace := func(name, team string) corev1.Namespace {
		return corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"team": team}}}
	}
	return Cluster{
		Namespaces: []corev1.Namespace{namespace("x", "red"), namespace("z", "blue")},
		Pods: []corev1.Pod{
			parse[corev1.Pod](t, `
metadata: {namespace: x, name: web, uid: "1", labels: {app: web, tier: front}}
spec:
  containers:
  - ports: [{name: metrics, containerPort: 9090}]
  - ports: [{name: http, containerPort: 8080}, {name: dns, containerPort: 53, protocol: UDP}, {name: http, containerPort: 8888}]
  initContainers:
  - ports: [{name: setup, containerPort: 7000}]
  - restartPolicy: Always
    ports: [{name: mesh, containerPort: 15001}, {name: http, containerPort: 15002}]
status: {phase: Running, podIP: 10.0.0.1}`),
			parse[corev1.Pod](t, `
metadata: {namespace: x, name: db, uid: "2", labels: {app: db}}
status: {phase: Running, podIP: 10.0.0.2}`),
			parse[corev1.Pod](t, `
metadata: {namespace: z, name: web, uid: "3", labels: {app: web}}
spec: {containers: [{ports: [{name: http, containerPort: 8081}]}]}
status: {phase: Pending, podIP: "fd00::3", podIPs: [{ip: "fd00::3"}, {ip: 10.0.0.3}]}`),
			parse[corev1.Pod](t, `
metadata: {namespace: lost, name: web, uid: "4", labels: {app: web}}
status: {phase: Running, podIP: 10.0.0.4}`),
			parse[corev1.Pod](t, `
metadata: {namespace: x, name: host, uid: "5", labels: {app: web}}
spec: {hostNetwork: true, containers: [{ports: [{name: http, containerPort: 8080}]}]}
status: {phase: Running, hostIP: 192.168.0.9, podIP: 192.168.0.9}`),
			parse[corev1.Pod](t, `
metadata: {namespace: x, name: done, uid: "6", labels: {app: web}}
status: {phase: Succeeded, podIP: 10.0.0.6}`),
			parse[corev1.Pod](t, `
metadata: {namespace: x, name: new, uid: "7", labels: {app: web}}
status: {phase: Pending}`),
		},
		NodeAddrs: []netip.Addr{netip.MustParseAddr("192.168.0.1")},
		Nodes: []corev1.Node{
			parse[corev1.Node](t, `
metadata: {name: n7, labels: {pool: a}}
status: {addresses: [{type: Hostname, address: n7}, {type: InternalIP, address: 192.168.0.7}, {type: ExternalIP, address: 20.0.0.7}]}`),
			parse[corev1.Node](t, `
metadata: {name: n8, labels: {pool: b}}
status: {addresses: [{type: InternalIP, address: 192.168.0.8}]}`),
		},
	}
}

func parse[T any](t *testing.T, text string) T {
	t.Helper()
	var v T
	require.NoError(t, yaml.UnmarshalStrict([]byte(text), &v))
	return v
}

// at reads "x/web" or "10.0.0.1".
func at(c Cluster, text string) netip.Addr {
	for _, pod := range c.Pods {
		if pod.Namespace+"/"+pod.Name == text {
			return Address(&pod)
		}
	}
	addr, _ := netip.ParseAddr(text) // a pod that does not exist has none
	return addr
}

// say words the verdict: "allowed" or "denied", by which policy, or why not by one.
func say(s Side) string {
	word := "denied"
	if s.Allowed {
		word = "allowed"
	}
	switch {
	case s.Policy != "":
		word += " by " + s.Policy
	case s.Isolated && !s.Tiered:
		word += " although isolated"
	}
	if len(s.Passed) > 0 {
		word += " passed by"
	}
	for _, p := range s.Passed {
		word += fmt.Sprintf(" %s[%d]", strings.TrimPrefix(p.Policy, "ClusterNetworkPolicy/"), p.Rule)
	}
	if s.Doubt {
		word += " in doubt"
	}
	return word
}

// check plays lines of the form "in x/web -> x/db 80/TCP: denied by x/p".
func check(t *testing.T, c Cluster, lines string) {
	t.Helper()
	for line := range strings.Lines(strings.TrimSpace(lines)) {
		question, want, ok := strings.Cut(strings.TrimSpace(line), ": ")
		require.True(t, ok, line)
		f := strings.Fields(question)
		require.Len(t, f, 5, line)
		number, protocol, _ := strings.Cut(f[4], "/")
		port, err := strconv.ParseUint(number, 10, 16)
		require.NoError(t, err, line)
		ingress, egress := Verdict(c, at(c, f[1]), at(c, f[3]), corev1.Protocol(protocol), uint16(port))
		got := map[string]Side{"in": ingress, "out": egress}[f[0]]
		require.Equal(t, want, say(got), line)
	}
}

// TestVerdict asks the questions of testdata.
func TestVerdict(t *testing.T) {
	for _, name := range []string{"networkpolicies", "tiers"} {
		archive, err := txtar.ParseFile(filepath.Join("testdata", name+".txtar"))
		require.NoError(t, err)
		require.NotEmpty(t, archive.Files)
		for _, f := range archive.Files {
			t.Run(name+"/"+f.Name, func(t *testing.T) {
				c := base(t)
				parts := strings.Split(string(f.Data), "---\n")
				for i, spec := range parts[:len(parts)-1] {
					meta := metav1.ObjectMeta{Name: "p" + strconv.Itoa(i)}
					if !strings.HasPrefix(strings.TrimPrefix(spec, "{"), "podSelector:") {
						c.ClusterPolicies = append(c.ClusterPolicies, v1alpha2.ClusterNetworkPolicy{ObjectMeta: meta, Spec: parse[v1alpha2.ClusterNetworkPolicySpec](t, spec)})
						continue
					}
					meta.Namespace = "x"
					c.Policies = append(c.Policies, networkingv1.NetworkPolicy{ObjectMeta: meta, Spec: parse[networkingv1.NetworkPolicySpec](t, spec)})
				}
				check(t, c, parts[len(parts)-1])
			})
		}
	}
}

// A policy selects pods of its own namespace only, also where no object of the
// namespace is known.
func TestVerdictPolicyNamespace(t *testing.T) {
	c := base(t)
	c.Policies = []networkingv1.NetworkPolicy{{
		ObjectMeta: metav1.ObjectMeta{Namespace: "lost", Name: "p"},
		Spec:       parse[networkingv1.NetworkPolicySpec](t, `{podSelector: {}, ingress: [{from: [{podSelector: {}}]}]}`),
	}}
	check(t, c, `
		in x/web -> x/db 80/TCP: allowed
		in x/web -> lost/web 80/TCP: denied by lost/p`)
	c.Pods = append(c.Pods, parse[corev1.Pod](t, `
metadata: {namespace: lost, name: peer, uid: "8"}
status: {podIP: 10.0.0.8}`))
	check(t, c, `in lost/peer -> lost/web 80/TCP: allowed by lost/p`)
}
