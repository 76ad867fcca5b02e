package oracle

import (
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/network-policy-api/apis/v1alpha2"
)

// tierCases are sentences of the API reference, each with a cluster that shows it. The
// specs are ClusterNetworkPolicies c0, c1, ...; those with a podSelector are
// NetworkPolicies of namespace x.
var tierCases = []struct {
	name  string
	specs []string
	want  string
}{
	{"Admin decides before NetworkPolicy, and NetworkPolicy before Baseline", []string{`
tier: Admin
priority: 10
subject: {namespaces: {}}
ingress: [{action: Deny, from: [{namespaces: {matchLabels: {team: blue}}}]}]`, `
podSelector: {matchLabels: {app: web}}
ingress: [{}]`, `
tier: Baseline
priority: 0
subject: {namespaces: {}}
ingress: [{action: Deny, from: [{namespaces: {}}]}]`}, `
		in z/web -> x/web 80/TCP: denied by ClusterNetworkPolicy/c0
		in x/db -> x/web 80/TCP: allowed by x/c1
		in x/web -> x/db 80/TCP: denied by ClusterNetworkPolicy/c2
		in 8.8.8.8 -> x/db 80/TCP: allowed
		in 192.168.0.1 -> x/db 80/TCP: allowed
		in z/web -> x/host 80/TCP: allowed`},
	{"lower priority first, then the order within a policy", []string{`
tier: Admin
priority: 2
subject: {namespaces: {}}
egress: [{action: Accept, to: [{networks: [0.0.0.0/0]}]}]`, `
tier: Admin
priority: 1
subject: {pods: {namespaceSelector: {}, podSelector: {matchLabels: {app: web}}}}
egress:
- {action: Accept, to: [{networks: [8.8.8.0/24]}], protocols: [{udp: {destinationPort: {number: 53}}}]}
- {action: Deny, to: [{networks: [8.8.8.0/24, 9.0.0.0/8]}]}`}, `
		out x/web -> 8.8.8.8 53/UDP: allowed by ClusterNetworkPolicy/c1
		out x/web -> 8.8.8.8 53/TCP: denied by ClusterNetworkPolicy/c1
		out x/web -> 9.9.9.9 80/ICMP: denied by ClusterNetworkPolicy/c1
		out x/db -> 8.8.8.8 53/TCP: allowed by ClusterNetworkPolicy/c0`},
	{"Pass of Admin goes on with NetworkPolicy, and with Baseline where nothing isolates", []string{`
tier: Admin
priority: 1
subject: {namespaces: {}}
ingress:
- {action: Pass, from: [{namespaces: {}}], protocols: [{tcp: {destinationPort: {range: {start: 80, end: 90}}}}]}
- {action: Deny, from: [{namespaces: {}}]}`, `
podSelector: {matchLabels: {app: web}}
ingress: [{ports: [{port: 80}]}]`, `
tier: Baseline
priority: 1
subject: {namespaces: {}}
ingress:
- {action: Pass, from: [{pods: {namespaceSelector: {}, podSelector: {matchLabels: {app: web}}}}]}
- {action: Deny, from: [{namespaces: {}}]}`}, `
		in z/web -> x/web 80/TCP: allowed by x/c1 passed by c0[0]
		in z/web -> x/web 81/TCP: denied by x/c1 passed by c0[0]
		in z/web -> x/web 91/TCP: denied by ClusterNetworkPolicy/c0
		in z/web -> x/db 85/TCP: allowed passed by c0[0] c2[0]
		in x/db -> z/web 85/TCP: denied by ClusterNetworkPolicy/c2 passed by c0[0]
		in x/db -> z/web 85/ICMP: denied by ClusterNetworkPolicy/c0`},
	{"a named port is one of the destination's", []string{`
tier: Admin
priority: 1
subject: {namespaces: {}}
egress: [{action: Deny, to: [{namespaces: {}}], protocols: [{destinationNamedPort: http}]}]`}, `
		out x/db -> x/web 8080/TCP: denied by ClusterNetworkPolicy/c0
		out x/db -> x/web 8081/TCP: allowed
		out x/db -> z/web 8081/TCP: denied by ClusterNetworkPolicy/c0
		out x/db -> z/web 8081/UDP: allowed`},
	{"nodes by any of their addresses", []string{`
tier: Admin
priority: 1
subject: {namespaces: {}}
egress: [{action: Deny, to: [{nodes: {matchLabels: {pool: a}}}]}]`}, `
		out x/web -> 192.168.0.7 80/TCP: denied by ClusterNetworkPolicy/c0
		out x/web -> 20.0.0.7 80/TCP: denied by ClusterNetworkPolicy/c0
		out x/web -> 192.168.0.8 80/TCP: allowed`},
	{"a peer that is not known fails closed", []string{`
tier: Admin
priority: 1
subject: {namespaces: {matchLabels: {team: red}}}
ingress: [{action: Accept, from: [{namespaces: {}}, {}]}]
egress: [{action: Pass, to: [{}]}]`}, `
		in z/web -> x/web 80/TCP: allowed
		out x/web -> 8.8.8.8 80/TCP: denied by ClusterNetworkPolicy/c0`},
	{"names of domains are no peer of an Accept, and everybody to a Deny", []string{`
tier: Admin
priority: 1
subject: {namespaces: {}}
egress: [{action: Accept, to: [{domainNames: [example.com]}, {networks: [8.8.8.8/32]}]}, {action: Deny, to: [{domainNames: [example.com]}]}]`}, `
		out x/web -> 8.8.8.8 80/TCP: allowed by ClusterNetworkPolicy/c0
		out x/web -> 9.9.9.9 80/TCP: denied by ClusterNetworkPolicy/c0`},
	{"a namespace without object: nobody knows", []string{`
tier: Admin
priority: 1
subject: {namespaces: {matchLabels: {team: red}}}
ingress: [{action: Accept, from: [{namespaces: {}}]}, {action: Deny, from: [{namespaces: {matchLabels: {team: green}}}]}]`}, `
		in z/web -> x/web 80/TCP: allowed by ClusterNetworkPolicy/c0
		in lost/web -> x/web 80/TCP: denied by ClusterNetworkPolicy/c0 in doubt
		in lost/web -> lost/web 80/TCP: allowed
		in x/web -> lost/web 80/TCP: allowed`}, // the Accept may not be its
}

func TestTiers(t *testing.T) {
	for _, tc := range tierCases {
		t.Run(tc.name, func(t *testing.T) {
			c := base(t)
			for _, text := range []string{`
metadata: {name: n7, labels: {pool: a}}
status: {addresses: [{type: Hostname, address: n7}, {type: InternalIP, address: 192.168.0.7}, {type: ExternalIP, address: 20.0.0.7}]}`, `
metadata: {name: n8, labels: {pool: b}}
status: {addresses: [{type: InternalIP, address: 192.168.0.8}]}`} {
				c.Nodes = append(c.Nodes, parse[corev1.Node](t, text))
			}
			for i, spec := range tc.specs {
				meta := metav1.ObjectMeta{Name: "c" + strconv.Itoa(i)}
				if strings.Contains(spec, "\npodSelector:") {
					meta.Namespace = "x"
					c.Policies = append(c.Policies, networkingv1.NetworkPolicy{ObjectMeta: meta, Spec: parse[networkingv1.NetworkPolicySpec](t, spec)})
					continue
				}
				c.ClusterPolicies = append(c.ClusterPolicies, v1alpha2.ClusterNetworkPolicy{ObjectMeta: meta, Spec: parse[v1alpha2.ClusterNetworkPolicySpec](t, spec)})
			}
			check(t, c, tc.want)
		})
	}
}
