package oracle

// cases are the recipes of the NetworkPolicy documentation and the corners of
// the API reference. Every spec is a policy p0, p1, ... of namespace x.
var cases = []struct {
	name  string
	specs []string
	want  string
}{
	{"no policy, no isolation", nil, `
		in z/web -> x/web 80/TCP: allowed
		out x/web -> 8.8.8.8 53/UDP: allowed
		in 8.8.8.8 -> x/web 80/SCTP: allowed`},
	{"a pod without an address has no traffic", nil, `
		in x/new -> x/web 80/TCP: denied
		out x/web -> x/new 80/TCP: denied
		in x/web -> x/nobody 80/TCP: denied`},
	{"default deny ingress", []string{`{podSelector: {}, policyTypes: [Ingress]}`}, `
		in x/db -> x/web 80/TCP: denied by x/p0
		in 8.8.8.8 -> x/web 80/TCP: denied by x/p0
		out x/web -> z/web 80/TCP: allowed
		in x/web -> z/web 80/TCP: allowed`},
	{"allow all ingress", []string{`{podSelector: {}, ingress: [{}], policyTypes: [Ingress]}`}, `
		in z/web -> x/web 80/TCP: allowed by x/p0
		in 8.8.8.8 -> x/web 80/UDP: allowed by x/p0`},
	{"default deny egress", []string{`{podSelector: {}, policyTypes: [Egress]}`}, `
		out x/web -> x/db 80/TCP: denied by x/p0
		out x/web -> 8.8.8.8 80/TCP: denied by x/p0
		in z/web -> x/web 80/TCP: allowed`},
	{"allow all egress", []string{`{podSelector: {}, egress: [{}], policyTypes: [Egress]}`}, `
		out x/web -> 8.8.8.8 80/TCP: allowed by x/p0`},
	{"default deny both", []string{`{podSelector: {}, policyTypes: [Ingress, Egress]}`}, `
		in z/web -> x/web 80/TCP: denied by x/p0
		out x/web -> z/web 80/TCP: denied by x/p0`},
	{"policyTypes default: ingress always", []string{`{podSelector: {}}`}, `
		in z/web -> x/web 80/TCP: denied by x/p0
		out x/web -> z/web 80/TCP: allowed`},
	{"policyTypes default: egress when it has rules", []string{`{podSelector: {}, egress: [{to: [{podSelector: {}}]}]}`}, `
		in z/web -> x/web 80/TCP: denied by x/p0
		out x/web -> x/db 80/TCP: allowed by x/p0
		out x/web -> z/web 80/TCP: denied by x/p0`},
	{"policyTypes default: empty egress has no rules", []string{`{podSelector: {}, egress: [], policyTypes: []}`}, `
		out x/web -> z/web 80/TCP: allowed
		in z/web -> x/web 80/TCP: denied by x/p0`},
	{"rules of a direction that is not listed say nothing", []string{
		`{podSelector: {}, policyTypes: [Egress], ingress: [{}]}`,
		`{podSelector: {}, policyTypes: [Ingress], egress: [{}]}`}, `
		in z/web -> x/web 80/TCP: denied by x/p1
		out x/web -> z/web 80/TCP: denied by x/p0`},
	{"unknown policyTypes do not count", []string{`{podSelector: {}, policyTypes: [Sideways]}`}, `
		in z/web -> x/web 80/TCP: denied by x/p0
		out x/web -> z/web 80/TCP: allowed`},
	{"podSelector with labels", []string{`{podSelector: {matchLabels: {app: web, tier: front}}}`}, `
		in z/web -> x/web 80/TCP: denied by x/p0
		in z/web -> x/db 80/TCP: allowed`},
	{"podSelector with expressions", []string{`{podSelector: {matchExpressions: [{key: tier, operator: DoesNotExist}]}}`}, `
		in z/web -> x/web 80/TCP: allowed
		in z/web -> x/db 80/TCP: denied by x/p0`},
	{"policies are a union", []string{
		`{podSelector: {}}`,
		`{podSelector: {}, ingress: [{from: [{podSelector: {matchLabels: {app: db}}}]}]}`,
		`{podSelector: {}, ingress: [{ports: [{port: 80}]}]}`}, `
		in x/db -> x/web 80/TCP: allowed by x/p1
		in z/web -> x/web 80/TCP: allowed by x/p2
		in z/web -> x/web 81/TCP: denied by x/p0`},
	{"empty from is everyone", []string{`{podSelector: {}, ingress: [{from: [], ports: [{port: 80}]}]}`}, `
		in 8.8.8.8 -> x/web 80/TCP: allowed by x/p0
		in 8.8.8.8 -> x/web 81/TCP: denied by x/p0`},
	{"empty podSelector peer: the policy's namespace", []string{`{podSelector: {}, ingress: [{from: [{podSelector: {}}]}]}`}, `
		in x/db -> x/web 80/TCP: allowed by x/p0
		in z/web -> x/web 80/TCP: denied by x/p0
		in 8.8.8.8 -> x/web 80/TCP: denied by x/p0`},
	{"empty namespaceSelector peer: pods of all namespaces, no addresses", []string{`{podSelector: {}, ingress: [{from: [{namespaceSelector: {}}]}]}`}, `
		in z/web -> x/web 80/TCP: allowed by x/p0
		in x/db -> x/web 80/TCP: allowed by x/p0
		in 8.8.8.8 -> x/web 80/TCP: denied by x/p0`},
	{"selectors in two peers: OR", []string{`
podSelector: {}
ingress: [{from: [{namespaceSelector: {matchLabels: {team: blue}}}, {podSelector: {matchLabels: {app: web}}}]}]`}, `
		in z/web -> x/db 80/TCP: allowed by x/p0
		in x/web -> x/db 80/TCP: allowed by x/p0
		in x/db -> x/web 80/TCP: denied by x/p0`},
	{"selectors in one peer: AND", []string{`
podSelector: {}
ingress: [{from: [{namespaceSelector: {matchLabels: {team: red}}, podSelector: {matchLabels: {app: web}}}]}]`}, `
		in z/web -> x/db 80/TCP: denied by x/p0
		in x/web -> x/db 80/TCP: allowed by x/p0
		in x/db -> x/web 80/TCP: denied by x/p0`},
	{"operators of namespaceSelector", []string{
		`{podSelector: {}, ingress: [{from: [{namespaceSelector: {matchExpressions: [{key: team, operator: NotIn, values: [blue]}]}}]}]}`}, `
		in z/web -> x/web 80/TCP: denied by x/p0
		in x/db -> x/web 80/TCP: allowed by x/p0`},
	{"NotIn matches what lacks the key", []string{
		`{podSelector: {}, ingress: [{from: [{namespaceSelector: {matchExpressions: [{key: stage, operator: NotIn, values: [a]}]}}]}]}`}, `
		in z/web -> x/web 80/TCP: allowed by x/p0`},
	{"operators of a pod peer", []string{`
podSelector: {}
ingress: [{from: [{podSelector: {matchExpressions: [
  {key: app, operator: In, values: [web, cache]}, {key: tier, operator: Exists}]}}]}]`}, `
		in x/web -> x/db 80/TCP: allowed by x/p0
		in x/db -> x/web 80/TCP: denied by x/p0`},
	{"a namespace without object is matched by no namespaceSelector", []string{`
podSelector: {}
ingress: [{from: [{namespaceSelector: {}}, {namespaceSelector: {matchExpressions: [{key: team, operator: DoesNotExist}]}}]}]`}, `
		in lost/web -> x/web 80/TCP: denied by x/p0`},
	{"ipBlock with except", []string{`
podSelector: {}
policyTypes: [Ingress, Egress]
ingress: [{from: [{ipBlock: {cidr: 172.17.0.0/16, except: [172.17.1.0/24]}}]}]
egress: [{to: [{ipBlock: {cidr: 172.17.1.0/24}}]}]`}, `
		in 172.17.2.1 -> x/web 80/TCP: allowed by x/p0
		in 172.17.1.1 -> x/web 80/TCP: denied by x/p0
		out x/web -> 172.17.1.1 80/TCP: allowed by x/p0
		out x/web -> 172.17.2.1 80/TCP: denied by x/p0`},
	{"ipBlock is about addresses, those of pods too", []string{`{podSelector: {}, ingress: [{from: [{ipBlock: {cidr: 10.0.0.3/32}}]}]}`}, `
		in z/web -> x/web 80/TCP: allowed by x/p0
		in lost/web -> x/web 80/TCP: denied by x/p0`},
	{"ipBlock with host bits is masked", []string{`{podSelector: {}, ingress: [{from: [{ipBlock: {cidr: 172.17.9.9/16, except: [172.17.1.7/24]}}]}]}`}, `
		in 172.17.0.1 -> x/web 80/TCP: allowed by x/p0
		in 172.17.1.1 -> x/web 80/TCP: denied by x/p0`},
	{"except of everything leaves nobody", []string{`{podSelector: {}, ingress: [{from: [{ipBlock: {cidr: 172.17.0.0/16, except: [172.17.0.0/17, 172.17.128.0/17]}}]}]}`}, `
		in 172.17.0.1 -> x/web 80/TCP: denied by x/p0
		in 10.1.1.1 -> x/web 80/TCP: denied by x/p0`},
	{"IPv6 blocks match nothing, their neighbours do", []string{
		`{podSelector: {}, ingress: [{from: [{ipBlock: {cidr: "::/0"}}, {ipBlock: {cidr: "::ffff:0.0.0.0/96"}}, {podSelector: {}}]}]}`}, `
		in 8.8.8.8 -> x/web 80/TCP: denied by x/p0
		in x/db -> x/web 80/TCP: allowed by x/p0`},
	{"several ports: OR, protocol defaults to TCP", []string{`{podSelector: {}, ingress: [{ports: [{port: 80}, {port: 53, protocol: UDP}]}]}`}, `
		in z/web -> x/web 80/TCP: allowed by x/p0
		in z/web -> x/web 53/UDP: allowed by x/p0
		in z/web -> x/web 80/UDP: denied by x/p0
		in z/web -> x/web 53/TCP: denied by x/p0`},
	{"a port without number is the whole protocol", []string{`{podSelector: {}, ingress: [{ports: [{protocol: SCTP}]}]}`}, `
		in z/web -> x/web 9/SCTP: allowed by x/p0
		in z/web -> x/web 9/TCP: denied by x/p0`},
	{"peers and ports of one rule: AND", []string{`{podSelector: {}, ingress: [{from: [{podSelector: {}}], ports: [{port: 80}]}, {from: [{namespaceSelector: {}}], ports: [{port: 81}]}]}`}, `
		in z/web -> x/web 80/TCP: denied by x/p0
		in z/web -> x/web 81/TCP: allowed by x/p0
		in x/db -> x/web 80/TCP: allowed by x/p0`},
	{"endPort", []string{`{podSelector: {}, egress: [{ports: [{port: 32000, endPort: 32768}, {port: 7, endPort: 7}]}], policyTypes: [Egress]}`}, `
		out x/web -> 8.8.8.8 31999/TCP: denied by x/p0
		out x/web -> 8.8.8.8 32000/TCP: allowed by x/p0
		out x/web -> 8.8.8.8 32768/TCP: allowed by x/p0
		out x/web -> 8.8.8.8 32769/TCP: denied by x/p0
		out x/web -> 8.8.8.8 7/TCP: allowed by x/p0
		out x/web -> 8.8.8.8 32000/UDP: denied by x/p0`},
	{"named port, ingress: the pod's own", []string{`{podSelector: {}, ingress: [{ports: [{port: http}, {port: mesh}, {port: setup}, {port: dns}]}]}`}, `
		in z/web -> x/web 8080/TCP: allowed by x/p0
		in z/web -> x/web 8888/TCP: denied by x/p0
		in z/web -> x/web 15001/TCP: allowed by x/p0
		in z/web -> x/web 15002/TCP: denied by x/p0
		in z/web -> x/web 7000/TCP: denied by x/p0
		in z/web -> x/web 53/TCP: denied by x/p0
		in z/web -> x/db 8080/TCP: denied by x/p0`},
	{"named port with protocol", []string{`{podSelector: {}, ingress: [{ports: [{port: dns, protocol: UDP}]}]}`}, `
		in z/web -> x/web 53/UDP: allowed by x/p0`},
	{"named port, egress: the destination's", []string{`{podSelector: {}, policyTypes: [Egress], egress: [{ports: [{port: http}]}]}`}, `
		out x/db -> x/web 8080/TCP: allowed by x/p0
		out x/db -> z/web 8081/TCP: allowed by x/p0
		out x/db -> z/web 8080/TCP: denied by x/p0
		out x/db -> x/host 8080/TCP: denied by x/p0
		out x/db -> 8.8.8.8 8080/TCP: denied by x/p0`},
	{"named port with ipBlock: holders inside the block", []string{`{podSelector: {}, policyTypes: [Egress], egress: [{to: [{ipBlock: {cidr: 10.0.0.0/30}}], ports: [{port: http}]}]}`}, `
		out x/db -> x/web 8080/TCP: allowed by x/p0
		out x/db -> z/web 8081/TCP: allowed by x/p0
		out x/db -> lost/web 8080/TCP: denied by x/p0`},
	{"host-network, finished: no members, not selected", []string{`
podSelector: {}
policyTypes: [Ingress, Egress]
ingress: [{from: [{podSelector: {}}]}]
egress: [{to: [{podSelector: {}}]}]`}, `
		in x/host -> x/web 80/TCP: denied by x/p0
		in x/done -> x/web 80/TCP: denied by x/p0
		out x/web -> x/host 80/TCP: denied by x/p0
		in x/web -> x/host 80/TCP: allowed
		in z/web -> x/done 80/TCP: allowed`},
	{"host-network pods are addresses of a block", []string{`{podSelector: {}, ingress: [{from: [{ipBlock: {cidr: 192.168.0.9/32}}]}]}`}, `
		in x/host -> x/web 80/TCP: allowed by x/p0`},
	{"a Pending pod with an address is a member", []string{`{podSelector: {}, ingress: [{from: [{namespaceSelector: {matchLabels: {team: blue}}, podSelector: {matchLabels: {app: web}}}]}]}`}, `
		in z/web -> x/web 80/TCP: allowed by x/p0`},
	{"the node may always come in, not be gone to", []string{`{podSelector: {}, policyTypes: [Ingress, Egress], ingress: [{}]}`}, `
		in 192.168.0.1 -> x/web 80/TCP: allowed although isolated
		out x/web -> 192.168.0.1 80/TCP: denied by x/p0`},
	{"a pod reaches itself", []string{`{podSelector: {}, policyTypes: [Ingress, Egress]}`}, `
		in x/web -> x/web 80/TCP: allowed although isolated
		out x/web -> x/web 80/TCP: allowed although isolated`},
	{"malformed podSelector isolates everybody and opens nobody", []string{
		`{podSelector: {matchExpressions: [{key: app, operator: Like, values: [web]}]}, policyTypes: [Ingress, Egress], ingress: [{}], egress: [{}]}`}, `
		in z/web -> x/web 80/TCP: denied by x/p0
		in z/web -> x/db 80/TCP: denied by x/p0
		out x/db -> z/web 80/TCP: denied by x/p0
		in x/db -> z/web 80/TCP: allowed`},
	{"malformed peers match nothing", []string{`
podSelector: {}
ingress:
- from: [{}]
- from: [{podSelector: {}, ipBlock: {cidr: 0.0.0.0/0}}]
- from: [{namespaceSelector: {matchExpressions: [{key: team, operator: In}]}}]
- from: [{namespaceSelector: {matchLabels: {"-": a}}, podSelector: {}}]
- from: [{podSelector: {matchExpressions: [{key: app, operator: Exists, values: [web]}]}}]
- from: [{ipBlock: {cidr: 0.0.0.0}}, {ipBlock: {cidr: 0.0.0.0/33}}, {ipBlock: {cidr: ""}}]
- from: [{ipBlock: {cidr: 10.0.0.0/24, except: [11.0.0.0/24]}}]
- from: [{ipBlock: {cidr: 10.0.0.0/24, except: [10.0.0.0/16]}}]
- from: [{ipBlock: {cidr: 10.0.0.0/24, except: ["fd00::/64"]}}]
- from: [{ipBlock: {cidr: 10.0.0.0/24, except: [nonsense]}}]`}, `
		in x/db -> x/web 80/TCP: denied by x/p0
		in z/web -> x/web 80/TCP: denied by x/p0
		in 8.8.8.8 -> x/web 80/TCP: denied by x/p0`},
	{"malformed ports match nothing", []string{`
podSelector: {}
ingress:
- ports: [{port: 0}, {port: 65536}, {port: -80}]
- ports: [{port: 80, endPort: 79}, {port: 80, endPort: 65536}, {endPort: 80}, {port: http, endPort: 9000}]
- ports: [{port: 80, protocol: ICMP}, {protocol: tcp}, {protocol: ""}]
- ports: [{port: ""}, {port: "80"}, {port: none}]`}, `
		in z/web -> x/web 80/TCP: denied by x/p0
		in z/web -> x/web 8080/TCP: denied by x/p0
		in z/web -> x/web 80/ICMP: denied by x/p0
		in z/web -> x/web 65535/TCP: denied by x/p0`},
}
