package manifest_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"

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

func TestNamespaces(t *testing.T) {
	o := mustLoad(t, strings.Join([]string{
		"apiVersion: v1\nkind: Namespace\nmetadata: {name: z, labels: {a: b, kubernetes.io/metadata.name: lie}}\n",
		"apiVersion: v1\nkind: Pod\nmetadata: {name: p}\n",
		"apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {name: p, namespace: of-policy}\nspec: {podSelector: {}}\n",
		"apiVersion: apps/v1\nkind: StatefulSet\nmetadata: {name: s, namespace: of-workload}\nspec: {replicas: 0}\n",
		"apiVersion: v1\nkind: Pod\nmetadata: {name: p, namespace: z}\n",
	}, "---\n"), manifest.Options{})
	require.Equal(t, []string{"z"}, namespaceNames(o), "none is added because it is mentioned")
	for _, ns := range o.Namespaces {
		require.Equal(t, ns.Name, ns.Labels["kubernetes.io/metadata.name"])
	}
	require.Equal(t, "b", o.Namespaces[0].Labels["a"])
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
