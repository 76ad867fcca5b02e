package cluster

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/netip"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"

	"github.com/winnpm/winnpm/test/effort"
)

// The cluster has 1,000 namespaces, or 200 in a quick run. Each has one workload of ten pods on different
// nodes. A hundred workloads have a pod on the agent's node, and victim and tenant have five each.
const (
	Node     = "n1"
	NodeAddr = "10.4.0.4"
	Victim   = "victim"
	Tenant   = "tenant"

	replicas    = 10
	localTeams  = 100
	localOfBoth = 5 // pods on the node, of victim and tenant each
)

// teams is the number of namespaces other than those of victim and tenant.
var teams = effort.Of(198, 998)

// withPolicy is the number of teams with a policy. Of these, localTeams have pods on the node.
var withPolicy = effort.Of(198, 300)

// began is the time at which all pods of the cluster were created and started.
var began = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC) // the clock of a synctest bubble begins here

// Honest returns all objects before the attack.
func Honest() []Object {
	out := []Object{OwnNode()}
	for i := range teams + 2 {
		out = append(out, Namespace(teamName(i), map[string]string{
			"kubernetes.io/metadata.name": teamName(i), "division": fmt.Sprintf("d%d", i%7), "number": fmt.Sprintf("n%03d", i),
		}))
		for r := range replicas {
			out = append(out, honestPod(i, r))
		}
		if i < withPolicy {
			out = append(out, honestPolicy(i))
		}
	}
	return append(out,
		Policy(Victim, "isolated", `{"podSelector": {}, "policyTypes": ["Ingress", "Egress"],
			"ingress": [{"from": [{"podSelector": {"matchLabels": {"role": "web"}}}], "ports": [{"port": 5432}]}],
			"egress": [{"to": [{"podSelector": {"matchLabels": {"role": "web"}}}], "ports": [{"port": "http"}]}]}`),
		Policy(Tenant, "own", `{"podSelector": {"matchLabels": {"role": "db"}}, "ingress": [{"from": [{"podSelector": {}}]}]}`),
	)
}

// teamName returns the name of namespace i; the last two are victim and tenant.
func teamName(i int) string {
	if i < teams {
		return fmt.Sprintf("team-%03d", i)
	}
	return []string{Victim, Tenant}[i-teams]
}

// OwnNode returns the node of the agent.
func OwnNode() Object {
	return Object{Nodes, "", Node, func() message {
		return &corev1.Node{Status: corev1.NodeStatus{Addresses: []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: NodeAddr}}}}
	}}
}

// Namespace returns a namespace with labels.
func Namespace(name string, labels map[string]string) Object {
	return Object{Namespaces, "", name, func() message { return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Labels: labels}} }}
}

// addr returns the address of pod r of namespace i. All addresses have the same length as text.
func addr(i, r int) netip.Addr {
	n := i*replicas + r
	return netip.AddrFrom4([4]byte{10, 100, byte(100 + n/100), byte(100 + n%100)})
}

// VictimAddr returns the address of pod r of the victim's ten pods. The first five are on the node.
func VictimAddr(r int) netip.Addr { return addr(teams, r) }

// TenantAddr returns the address of pod r of the tenant's ten pods. The first five are on the node.
func TenantAddr(r int) netip.Addr { return addr(teams+1, r) }

// LocalAddrs returns the addresses of the pods that are on the node.
func LocalAddrs() []netip.Addr {
	var out []netip.Addr
	for i := range teams + 2 {
		for r := range replicas {
			if isLocal(i, r) {
				out = append(out, addr(i, r))
			}
		}
	}
	return out
}

func isLocal(i, r int) bool { return i < localTeams && r == 0 || i >= teams && r < localOfBoth }

// honestPod returns pod r of namespace i. The first five pods of victim and tenant are databases, and the
// others their clients.
func honestPod(i, r int) Object {
	role := []string{"web", "api", "db", "cache"}[i%4]
	if i >= teams {
		role = map[bool]string{true: "db", false: "web"}[r < localOfBoth]
	}
	p := Pod{
		Namespace: teamName(i), Name: fmt.Sprintf("pod-%d", r), Addr: addr(i, r).String(), Local: isLocal(i, r),
		Labels: map[string]string{
			"app": fmt.Sprintf("app-%03d", i), "role": role, "version": fmt.Sprintf("v%d", i%3), "replica": fmt.Sprintf("r%d", r),
		},
		HTTP: 8080,
	}
	return p.Object()
}

// Pod describes a pod of an attack.
type Pod struct {
	Namespace, Name, Addr string
	Local                 bool
	Labels                map[string]string
	HTTP                  int       // the number of its port named http; 0: none
	Started               time.Time // zero: began
}

// Object returns the pod.
func (p Pod) Object() Object {
	return Object{Pods, p.Namespace, p.Name, func() message {
		out := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{UID: types.UID(p.Namespace + "/" + p.Name), Labels: p.Labels, CreationTimestamp: metav1.NewTime(began)},
			Spec:       corev1.PodSpec{NodeName: map[bool]string{true: Node, false: "n2"}[p.Local], Containers: []corev1.Container{{Name: "main"}}},
			Status: corev1.PodStatus{
				Phase: corev1.PodRunning, StartTime: new(metav1.NewTime(cmp.Or(p.Started, began))), PodIP: p.Addr, PodIPs: []corev1.PodIP{{IP: p.Addr}},
			},
		}
		if p.HTTP > 0 {
			out.Spec.Containers[0].Ports = []corev1.ContainerPort{{Name: "http", Protocol: corev1.ProtocolTCP, ContainerPort: int32(p.HTTP)}}
		}
		return out
	}}
}

// honestPolicy returns the policy of the team of namespace i.
func honestPolicy(i int) Object {
	peers := []string{
		`{"podSelector": {"matchLabels": {"app": "app-%03[1]d"}}}`,
		`{"namespaceSelector": {"matchLabels": {"division": "d%[2]d"}}, "podSelector": {"matchExpressions": [{"key": "role", "operator": "In", "values": ["web", "api"]}]}}`,
		`{"namespaceSelector": {"matchLabels": {"division": "d%[2]d"}}}`,
		`{"ipBlock": {"cidr": "192.168.0.0/16", "except": ["192.168.7.0/24"]}}`,
	}
	return Policy(teamName(i), "team", fmt.Sprintf(`{"podSelector": {"matchLabels": {"app": "app-%03[1]d"}}, "ingress": [{"from": [`+peers[i%4]+`], "ports": [{"port": 8080}]}]}`, i, i%7))
}

// Policy returns a policy whose spec is JSON.
func Policy(namespace, name, spec string) Object {
	return made(namespace, name, func() string { return spec })
}

// made returns a policy whose spec is created for each request.
func made(namespace, name string, spec func() string) Object {
	return Object{Policies, namespace, name, func() message {
		out := &networkingv1.NetworkPolicy{
			ObjectMeta: metav1.ObjectMeta{UID: types.UID(namespace + "/" + name), CreationTimestamp: metav1.NewTime(began), Generation: 1},
		}
		utilruntime.Must(json.Unmarshal([]byte(spec()), &out.Spec))
		return out
	}}
}

// Late returns a policy that the victim adds during the attack. It allows the victim's clients to reach one
// pod on an additional port.
func Late(i int) Object {
	return Policy(Victim, fmt.Sprintf("late-%d", i), `{"podSelector": {"matchLabels": {"replica": "r0"}},
		"ingress": [{"from": [{"podSelector": {"matchLabels": {"role": "web"}}}], "ports": [{"port": 443}]}]}`)
}

// FreshAddr is the address of the pods of Fresh.
const FreshAddr = "10.88.0.1"

// Fresh returns a pod of the victim that starts on the node during the attack. i makes its name unique.
func Fresh(i int) Object {
	return Pod{
		Namespace: Victim, Name: fmt.Sprintf("fresh-%d", i), Addr: FreshAddr, Local: true, Labels: map[string]string{"role": "db"},
		Started: began.Add(time.Minute),
	}.Object()
}

// Odd returns a policy of the victim that cannot be fully enforced, so that it causes an Event.
func Odd(i int) Object {
	return Policy(Victim, fmt.Sprintf("odd-%d", i), fmt.Sprintf(`{"podSelector": {"matchLabels": {"replica": "r1"}},
		"ingress": [{"from": [{"ipBlock": {"cidr": "fd00:%x::/32"}}]}]}`, i))
}
