package cluster

import (
	"fmt"
	"strings"
	"time"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// Attack is what one tenant writes, who may write policies and pods of one
// namespace; or one lost node, which may write the status of its pods.
type Attack struct {
	Name    string
	Objects []Object
}

// Bytes is the length of all objects on the wire, which is less than as JSON.
func (a Attack) Bytes() int {
	sum := 0
	for _, o := range a.Objects {
		sum += o.Make().Size()
	}
	return sum
}

// Attacks returns the known attacks that are objects.
func Attacks() []Attack {
	return []Attack{
		{"notin", []Object{peers("notin", "nobody", 400, notIn)}},
		{"namespaces", []Object{peers("namespaces", "nobody", 1000, ofNamespaces)}},
		{"ports", []Object{PeersByPorts("ports", "db", 1000, 5000)}},
		{"peers", []Object{peers("peers", "db", 6000, ofValue)}},
		{"nobody", []Object{
			peers("nobody-0", "nobody", 10_000, ofKey), peers("nobody-1", "nobody", 10_000, ofKey), peers("nobody-2", "nobody", 10_000, ofKey),
		}},
		{"labels", objects(20, func(i int) Object { return Labels(i, 1<<20) })},
		{"ipv6", []Object{peers("ipv6", "db", 50_000, blockIPv6)}},
		{"facts", []Object{peers("facts", "db", 2000, blockIPv6)}},
		{"http", objects(1000, ServesHTTP)},
		{"theft", []Object{
			Thief("thief", VictimAddr(0).String(), year2999), Thief("early-thief", FreshAddr, year2999),
		}},
		{"nobodys", objects(len(NobodysAddrs), func(i int) Object {
			return Thief(fmt.Sprintf("odd-%d", i), NobodysAddrs[i], time.Time{})
		})},
	}
}

// year2999 is when nothing has started yet.
var year2999 = time.Date(2999, 1, 1, 0, 0, 0, 0, time.UTC)

// Largest is what an object may have in bytes of JSON, and MostObjects how many of
// them a tenant writes.
const (
	Largest     = 1_500_000
	MostObjects = 100
)

// Floods returns what more of makes worse, each with MostObjects objects of nearly so
// many bytes of JSON, Largest at most. What is too large for a budget may do less than
// what is just below it, so sizes matter.
func Floods(bytes int) []Attack {
	full := func(name string, of func(name string, n int) Object) Attack {
		few, many := jsonBytes(of(name, 100).Make()), jsonBytes(of(name, 200).Make())
		n := max(100+100*(bytes-few)/(many-few+2), 1)
		return Attack{fmt.Sprintf("flood-%s of %d kB", name, bytes/1000), objects(MostObjects, func(i int) Object { return of(fmt.Sprintf("%s-%03d", name, i), n) })}
	}
	var out []Attack
	for _, f := range []struct {
		name, role string
		of         peer
	}{
		{"notin", "nobody", notIn}, {"notin-own", "db", notIn}, {"namespaces", "nobody", ofNamespaces}, {"namespaces-own", "db", ofNamespaces},
		{"pods", "db", ofKey}, {"peers", "db", ofValue}, {"blocks", "db", blockIPv4}, {"ipv6", "db", blockIPv6},
	} {
		out = append(out, full(f.name, func(name string, n int) Object { return peers(name, f.role, n, f.of) }))
	}
	return append(out,
		full("ports", func(name string, n int) Object { return PeersByPorts(name, "db", n/4, n) }),
		Attack{fmt.Sprintf("flood-labels of %d kB", bytes/1000), objects(MostObjects, func(i int) Object { return Labels(i, bytes-1000) })},
	)
}

// Mixed is MostObjects objects of Largest bytes, of all kinds of Floods by turns.
func Mixed() Attack {
	out, floods := Attack{Name: "mixed of 1500 kB"}, Floods(Largest)
	for i := range MostObjects {
		out.Objects = append(out.Objects, floods[i%len(floods)].Objects[i])
	}
	return out
}

func objects(n int, of func(i int) Object) []Object {
	out := make([]Object, n)
	for i := range out {
		out[i] = of(i)
	}
	return out
}

// ruled is a policy of the tenant on its pods of a role, with one ingress rule.
func ruled(name, role string, rule func() networkingv1.NetworkPolicyIngressRule) Object {
	return ofSpec(Tenant, name, func() networkingv1.NetworkPolicySpec {
		return networkingv1.NetworkPolicySpec{
			PodSelector: metav1.LabelSelector{MatchLabels: map[string]string{"role": role}},
			Ingress:     []networkingv1.NetworkPolicyIngressRule{rule()},
		}
	})
}

// peer returns peer i of a policy.
type peer func(name string, i int) networkingv1.NetworkPolicyPeer

// peers is ruled with n peers.
func peers(name, role string, n int, of peer) Object {
	return ruled(name, role, func() (rule networkingv1.NetworkPolicyIngressRule) {
		for i := range n {
			rule.From = append(rule.From, of(name, i))
		}
		return rule
	})
}

// notInValue returns a selector that nearly every object matches.
func notInValue(name string, i int) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{
		Key: "k", Operator: metav1.LabelSelectorOpNotIn, Values: []string{fmt.Sprintf("%s-%d", name, i)},
	}}}
}

// notIn is nearly every pod of the cluster.
func notIn(name string, i int) networkingv1.NetworkPolicyPeer {
	return networkingv1.NetworkPolicyPeer{NamespaceSelector: &metav1.LabelSelector{}, PodSelector: notInValue(name, i)}
}

// ofNamespaces is nearly every namespace.
func ofNamespaces(name string, i int) networkingv1.NetworkPolicyPeer {
	return networkingv1.NetworkPolicyPeer{NamespaceSelector: notInValue(name, i)}
}

// ofValue is a value of one label that no pod has.
func ofValue(name string, i int) networkingv1.NetworkPolicyPeer {
	return ofLabel("k", fmt.Sprintf("%s-%d", name, i))
}

// ofKey is a label with a key of its own that no pod has.
func ofKey(name string, i int) networkingv1.NetworkPolicyPeer {
	return ofLabel(fmt.Sprintf("%s-%d", name, i), strings.Repeat("v", 40))
}

func ofLabel(key, value string) networkingv1.NetworkPolicyPeer {
	return networkingv1.NetworkPolicyPeer{PodSelector: &metav1.LabelSelector{MatchLabels: map[string]string{key: value}}}
}

func blockIPv4(_ string, i int) networkingv1.NetworkPolicyPeer {
	return networkingv1.NetworkPolicyPeer{IPBlock: &networkingv1.IPBlock{CIDR: fmt.Sprintf("172.%d.%d.%d/32", 16+i>>15, i>>7&255, 2*i&255)}}
}

func blockIPv6(_ string, i int) networkingv1.NetworkPolicyPeer {
	return networkingv1.NetworkPolicyPeer{IPBlock: &networkingv1.IPBlock{CIDR: fmt.Sprintf("fd00:%x:%x::/48", i>>16, i&0xffff)}}
}

// PeersByPorts has n peers and m ports no two of which are neighbours.
func PeersByPorts(name, role string, n, m int) Object {
	return ruled(name, role, func() networkingv1.NetworkPolicyIngressRule {
		rule := peers(name, role, n, ofValue).Make().(*networkingv1.NetworkPolicy).Spec.Ingress[0]
		for i := range m {
			rule.Ports = append(rule.Ports, networkingv1.NetworkPolicyPort{Port: new(intstr.FromInt(1 + 2*i%65534))})
		}
		return rule
	})
}

// Labels is a pod with labels of so many bytes, as short ones as there are.
func Labels(i, bytes int) Object {
	name := fmt.Sprintf("labels-%d", i)
	return Object{Pods, Tenant, name, func() message {
		p := Pod{Namespace: Tenant, Name: name, Addr: tenantPodAddr(i), Labels: map[string]string{}}
		for k := range bytes / len(`"00-00000":"",`) {
			p.Labels[fmt.Sprintf("%02x-%05x", i, k)] = ""
		}
		return p.Object().Make()
	}}
}

// tenantPodAddr is an address for one more remote pod of the tenant.
func tenantPodAddr(i int) string { return fmt.Sprintf("10.77.%d.%d", i/250, 1+i%250) }

// ServesHTTP is a pod whose port of that name has a number of its own.
func ServesHTTP(i int) Object {
	return Pod{
		Namespace: Tenant, Name: fmt.Sprintf("http-%d", i), Addr: tenantPodAddr(i),
		Labels: map[string]string{"role": "web"}, HTTP: 10_000 + i,
	}.Object()
}

// NobodysAddrs are addresses that no pod can have.
var NobodysAddrs = []string{"0.0.0.0", "0.1.2.3", "127.0.0.1", "169.254.1.1", "224.0.0.1", "255.255.255.255", NodeAddr}

// Thief is a pod of another node that says it has an address. It bears the labels
// of the victim's clients.
func Thief(name, address string, started time.Time) Object {
	return Pod{Namespace: Tenant, Name: name, Addr: address, Labels: map[string]string{"role": "web"}, Started: started}.Object()
}
