package manifest_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/winnpm/winnpm/tool/manifest"
)

const twoNodes = `apiVersion: v1
kind: NodeList
items:
- metadata: {name: n2, labels: {os: windows}}
  status: {addresses: [{type: Hostname, address: n2}, {type: InternalIP, address: 192.168.0.2}, {type: InternalIP, address: 192.168.0.3}]}
- metadata: {name: n1, labels: {os: linux}}
---
`

func TestPodStatus(t *testing.T) {
	for _, c := range []struct{ name, text, node, want string }{
		{"without status", pod("{}"), "", "x/p - 10.231.158.85 Running"},
		{"with an empty one", podStatus("{}"), "", "x/p - 10.231.158.85 Running"},
		{"put on the node", pod("{}"), "n2", "x/p n2 10.231.158.85 Running"},
		{"but not off another", pod("{nodeName: n1}"), "n2", "x/p n1 10.231.158.85 Running"},
		{"no address", podStatus("{phase: Pending}"), "", "x/p - - Pending"},
		{"no address, no phase", podStatus("{message: hello}"), "", "x/p - - Pending"},
		{"pending with an address", podStatus("{phase: Pending, podIP: 10.1.2.3}"), "", "x/p - 10.1.2.3 Pending"},
		{"address without phase", podStatus("{podIP: 10.1.2.3}"), "", "x/p - 10.1.2.3 Running"},
		{"addresses only", podStatus("{podIPs: [{ip: 10.1.2.4}, {ip: '2001:db8::4'}]}"), "", "x/p - 10.1.2.4 Running"},
		{"finished", podStatus("{phase: Succeeded}"), "n2", "x/p - - Succeeded"},
		{"failed with an address", podStatus("{phase: Failed, podIP: 10.1.2.3}"), "", "x/p - 10.1.2.3 Failed"},
		{"with status and not scheduled", podStatus("{phase: Pending}"), "n2", "x/p - - Pending"},
		{"host network", pod("{hostNetwork: true, nodeName: n2}"), "", "x/p n2 192.168.0.2 Running"},
		{"host network by option", pod("{hostNetwork: true}"), "n2", "x/p n2 192.168.0.2 Running"},
		{"host network, node without address", pod("{hostNetwork: true, nodeName: n1}"), "", "x/p n1 - Running"},
		{"host network, no node", pod("{hostNetwork: true}"), "", "x/p - - Running"},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := mustLoad(t, twoNodes+c.text, manifest.Options{Node: c.node})
			require.Equal(t, []string{c.want}, podLines(o.Pods))
			status := o.Pods[0].Status
			if status.PodIP != "" {
				require.Equal(t, status.PodIP, status.PodIPs[0].IP)
			}
		})
	}
}

// Addresses do not depend on other pods, and do not fall together with those
// that are given.
func TestAddresses(t *testing.T) {
	alone := mustLoad(t, pod("{}"), manifest.Options{}).Pods[0].Status.PodIP
	require.Equal(t, "10.231.158.85", alone)

	given := "---\napiVersion: v1\nkind: Pod\nmetadata: {name: other}\nstatus: {%s}\n"
	for text, want := range map[string]string{
		fmt.Sprintf(given, "podIP: 10.231.158.86"):                                                                                   alone,
		fmt.Sprintf(given, "podIP: 10.231.158.85"):                                                                                   "10.231.158.86",
		fmt.Sprintf(given, "hostIP: 10.231.158.85, podIPs: [{ip: 10.231.158.86}]"):                                                   "10.231.158.87",
		"---\napiVersion: v1\nkind: Node\nmetadata: {name: n1}\nstatus: {addresses: [{type: InternalIP, address: 10.231.158.85}]}\n": "10.231.158.86",
		fmt.Sprintf(given, "podIP: '2001:db8::1'") + "---\napiVersion: v1\nkind: Node\nmetadata: {name: n1}\nstatus: {addresses: [{type: Hostname, address: n1.example.com}]}\n": alone,
	} {
		o, _, err := load(pod("{}") + text)
		require.NoError(t, err)
		pods := o.Pods
		require.Equal(t, want, pods[len(pods)-1].Status.PodIP, text)
	}

	o := mustLoad(t, deployment("{replicas: 5000}"), manifest.Options{})
	seen := map[string]bool{}
	for _, p := range o.Pods {
		require.Regexp(t, `^10\.2(2[4-9]|3[0-9])\.\d+\.\d+$`, p.Status.PodIP)
		require.NotRegexp(t, `\.(0|255)$`, p.Status.PodIP)
		require.False(t, seen[p.Status.PodIP], p.Status.PodIP)
		seen[p.Status.PodIP] = true
	}
	require.Len(t, seen, 5000)
}

func TestNamespaces(t *testing.T) {
	o := mustLoad(t, strings.Join([]string{
		"apiVersion: v1\nkind: Namespace\nmetadata: {name: z, labels: {a: b, kubernetes.io/metadata.name: lie}}\n",
		"apiVersion: v1\nkind: Pod\nmetadata: {name: p}\n",
		"apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {name: p, namespace: of-policy}\nspec: {podSelector: {}}\n",
		"apiVersion: apps/v1\nkind: StatefulSet\nmetadata: {name: s, namespace: of-workload}\nspec: {replicas: 0}\n",
		"apiVersion: v1\nkind: Pod\nmetadata: {name: p, namespace: z}\n",
	}, "---\n"), manifest.Options{})
	require.Equal(t, []string{"default", "of-policy", "of-workload", "z"}, namespaceNames(o))
	for _, ns := range o.Namespaces {
		require.Equal(t, ns.Name, ns.Labels["kubernetes.io/metadata.name"])
		require.Equal(t, corev1.NamespaceActive, ns.Status.Phase)
	}
	require.Equal(t, "b", o.Namespaces[3].Labels["a"])
}

func TestPolicyDefaults(t *testing.T) {
	const in, out = networkingv1.PolicyTypeIngress, networkingv1.PolicyTypeEgress
	for spec, want := range map[string][]networkingv1.PolicyType{
		"{podSelector: {}}":                                       {in},
		"{podSelector: {}, ingress: [{}]}":                        {in},
		"{podSelector: {}, egress: [{}]}":                         {in, out},
		"{podSelector: {}, egress: []}":                           {in},
		"{podSelector: {}, policyTypes: []}":                      {in},
		"{podSelector: {}, policyTypes: [Egress], egress: []}":    {out},
		"{podSelector: {}, policyTypes: [Ingress], egress: [{}]}": {in},
	} {
		o := mustLoad(t, np(spec), manifest.Options{})
		require.Equal(t, want, o.Policies[0].Spec.PolicyTypes, spec)
	}
	o := mustLoad(t, np("{podSelector: {}, ingress: [{ports: [{}, {port: 1}, {port: http, protocol: SCTP}, {port: 1, endPort: 1}, {port: 65535}]}]}"), manifest.Options{})
	var protocols []corev1.Protocol
	for _, p := range o.Policies[0].Spec.Ingress[0].Ports {
		protocols = append(protocols, *p.Protocol)
	}
	require.Equal(t, []corev1.Protocol{"TCP", "TCP", "SCTP", "TCP", "TCP"}, protocols)
}

func TestContainerPortDefaults(t *testing.T) {
	o := mustLoad(t, pod("{initContainers: [{name: i, ports: [{containerPort: 1}]}], containers: [{name: c, ports: [{containerPort: 65535, hostPort: 1, name: a-1}, {containerPort: 2, protocol: UDP}]}]}"), manifest.Options{})
	spec := o.Pods[0].Spec
	require.Equal(t, corev1.ProtocolTCP, spec.InitContainers[0].Ports[0].Protocol)
	require.Equal(t, corev1.ProtocolTCP, spec.Containers[0].Ports[0].Protocol)
	require.Equal(t, corev1.ProtocolUDP, spec.Containers[0].Ports[1].Protocol)
}

// What only an API server gives is the same in each run and differs between
// objects.
func TestIdentity(t *testing.T) {
	text := twoNodes + pod("{}") + "---\n" + np("{podSelector: {}}") + "---\n" + deployment("{replicas: 2}") +
		"---\napiVersion: v1\nkind: Pod\nmetadata: {name: q, creationTimestamp: 2020-02-03T04:05:06Z}\n"
	first, second := mustLoad(t, text, manifest.Options{}), mustLoad(t, text, manifest.Options{})
	require.Empty(t, cmp.Diff(first, second))

	var uids []types.UID
	for _, o := range first.Namespaces {
		uids = append(uids, o.UID)
	}
	for _, o := range first.Nodes {
		uids = append(uids, o.UID)
	}
	for _, o := range first.Policies {
		uids = append(uids, o.UID)
	}
	for _, o := range first.Pods {
		uids = append(uids, o.UID)
		require.Equal(t, o.CreationTimestamp, *o.Status.StartTime)
	}
	slices.Sort(uids)
	require.Len(t, slices.Compact(uids), 2+2+1+4)
	for _, id := range uids {
		require.Regexp(t, `^[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`, string(id))
	}
	require.Equal(t, "2020-02-03T04:05:06Z", first.Pods[0].CreationTimestamp.UTC().Format("2006-01-02T15:04:05Z"))
	require.Equal(t, "2026-01-01T00:00:00Z", first.Pods[1].CreationTimestamp.UTC().Format("2006-01-02T15:04:05Z"))
}
