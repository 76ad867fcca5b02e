package cluster

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// Gene is some objects of an attack that a search can change: a policy, pods, or
// other labels of the tenant's namespace.
type Gene struct {
	Policy *PolicyGene `json:",omitempty"`
	Pods   *PodsGene   `json:",omitempty"`
	// Labels is how many labels the tenant's namespace has more.
	Labels int `json:",omitempty"`
}

// PolicyGene is a policy whose rules are alike.
type PolicyGene struct {
	Role          string // of the pods that it selects; "": all of the tenant
	Egress        bool
	Rules         int
	Peers         map[string]int `json:",omitempty"` // of each rule, by word of peerWords
	Ports         map[string]int `json:",omitempty"` // of each rule, by word of portWords
	Same, Excepts int            // Same: so many peers in a row ask for the same
}

// PodsGene is pods that are alike.
type PodsGene struct {
	N, Labels, Ports int
	Role             string
	Addr             string // a word of AddrWords
	Local            bool
	Future           bool
}

// PeerWords, PortWords and AddrWords are what a gene may say.
var (
	PeerWords = []string{"value", "key", "in", "notin", "exists", "missing", "all", "ns-value", "ns-notin", "ns-both", "cidr", "cidr6", "bad"}
	PortWords = []string{"number", "range", "nested", "name", "bad", "udp", "any"}
	AddrWords = []string{"own", "one", "victim", "fresh", "nobody", "none", "node"}
)

// String is the attack as JSON, to play it again.
func (g Gene) String() string {
	text, err := json.Marshal(g)
	if err != nil {
		panic("BUG: a gene always encodes: " + err.Error())
	}
	return string(text)
}

// Objects returns what the gene is; name is unique.
func (g Gene) Objects(name string) []Object {
	var out []Object
	if g.Policy != nil {
		out = append(out, g.Policy.object(name))
	}
	if g.Pods != nil {
		for i := range g.Pods.N {
			out = append(out, g.Pods.object(name, i))
		}
	}
	if g.Labels > 0 {
		out = append(out, relabelled(g.Labels))
	}
	return out
}

// tenantNamespace is the namespace as it is before an attack.
func tenantNamespace() Object { return namespace(Tenant, teams+1) }

// relabelled is the tenant's namespace with more labels.
func relabelled(n int) Object {
	was := tenantNamespace()
	return Object{Namespaces, "", Tenant, func() message {
		o := was.Make()
		labels := o.GetLabels()
		for i := range n {
			labels[fmt.Sprintf("more-%d", i)] = fmt.Sprint(i)
		}
		o.SetLabels(labels)
		return o
	}}
}

func (g *PolicyGene) object(name string) Object {
	return ofSpec(Tenant, name, func() networkingv1.NetworkPolicySpec {
		var spec networkingv1.NetworkPolicySpec
		if g.Role != "" {
			spec.PodSelector.MatchLabels = map[string]string{"role": g.Role}
		}
		for r := range g.Rules {
			all, ports := g.peers(name, r), g.ports(r)
			if g.Egress {
				spec.Egress = append(spec.Egress, networkingv1.NetworkPolicyEgressRule{To: all, Ports: ports})
			} else {
				spec.Ingress = append(spec.Ingress, networkingv1.NetworkPolicyIngressRule{From: all, Ports: ports})
			}
		}
		if g.Egress {
			spec.PolicyTypes = []networkingv1.PolicyType{networkingv1.PolicyTypeEgress}
		}
		return spec
	})
}

// peers returns those of a rule, by its number.
func (g *PolicyGene) peers(name string, rule int) (all []networkingv1.NetworkPolicyPeer) {
	for _, word := range PeerWords {
		for i := range g.Peers[word] {
			n := rule*g.Peers[word] + i
			all = append(all, g.peer(word, fmt.Sprintf("%s-%d", name, n/max(g.Same, 1)), n))
		}
	}
	return all
}

// ports returns those of a rule, by its number.
func (g *PolicyGene) ports(rule int) (all []networkingv1.NetworkPolicyPort) {
	for _, word := range PortWords {
		for i := range g.Ports[word] {
			all = append(all, port(word, rule*g.Ports[word]+i))
		}
	}
	return all
}

// peer returns one of a word; value is what it asks for.
func (g *PolicyGene) peer(word, value string, i int) networkingv1.NetworkPolicyPeer {
	pod := func(s *metav1.LabelSelector) networkingv1.NetworkPolicyPeer {
		return networkingv1.NetworkPolicyPeer{PodSelector: s}
	}
	ns := func(s, p *metav1.LabelSelector) networkingv1.NetworkPolicyPeer {
		return networkingv1.NetworkPolicyPeer{NamespaceSelector: s, PodSelector: p}
	}
	all := &metav1.LabelSelector{}
	bare := func(key string, operator metav1.LabelSelectorOperator) *metav1.LabelSelector {
		return &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: key, Operator: operator}}}
	}
	block := func(cidr string) networkingv1.NetworkPolicyPeer {
		out := networkingv1.NetworkPolicyPeer{IPBlock: &networkingv1.IPBlock{CIDR: cidr}}
		for e := range g.Excepts {
			out.IPBlock.Except = append(out.IPBlock.Except, fmt.Sprintf("10.%d.%d.%d/32", i&255, e>>7&255, 2*e&255))
		}
		return out
	}
	switch word {
	case "value":
		return pod(selector("k", value, metav1.LabelSelectorOpIn))
	case "key":
		return ns(all, selector(value, "v", metav1.LabelSelectorOpIn))
	case "in":
		return ns(all, &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
			{Key: "role", Operator: metav1.LabelSelectorOpIn, Values: []string{"web", "api", "db", "cache", value}},
		}})
	case "notin":
		return ns(all, selector("k", value, metav1.LabelSelectorOpNotIn))
	case "exists":
		return ns(all, bare("role", metav1.LabelSelectorOpExists))
	case "missing":
		return ns(all, bare(value, metav1.LabelSelectorOpDoesNotExist))
	case "all":
		return ns(all, all)
	case "ns-value":
		return ns(selector("number", fmt.Sprintf("n%03d", i%1000), metav1.LabelSelectorOpIn), nil)
	case "ns-notin":
		return ns(selector("k", value, metav1.LabelSelectorOpNotIn), nil)
	case "ns-both":
		return ns(selector("k", value, metav1.LabelSelectorOpNotIn), selector("k", value, metav1.LabelSelectorOpNotIn))
	case "cidr":
		return block(fmt.Sprintf("10.%d.0.0/16", i&255))
	case "cidr6":
		return block(fmt.Sprintf("fd00:%x::/32", i&0xffff))
	default:
		return block("no address " + value)
	}
}

func port(word string, i int) networkingv1.NetworkPolicyPort {
	out := networkingv1.NetworkPolicyPort{Port: new(intstr.FromInt(1 + 2*i%65534))}
	switch word {
	case "range":
		out.EndPort = new(min(out.Port.IntVal+int32(i%7), 65535))
	case "nested":
		out.Port, out.EndPort = new(intstr.FromInt(1+i%30_000)), new(int32(65535-i%30_000))
	case "name":
		out.Port = new(intstr.FromString(fmt.Sprintf("p%d", i)))
	case "bad":
		out.Port = new(intstr.FromString(strings.Repeat("bad name", 1+i%4)))
	case "udp":
		out.Protocol = new(corev1.ProtocolUDP)
	case "any":
		out.Port = nil
	}
	return out
}

func (g *PodsGene) object(name string, i int) Object {
	p := Pod{Namespace: Tenant, Name: fmt.Sprintf("%s-%d", name, i), Local: g.Local, Labels: map[string]string{"role": g.Role}, Ports: map[string]int{"http": 20_000 + i}}
	switch g.Addr {
	case "own":
		p.Addr = fmt.Sprintf("10.78.%d.%d", i>>7&255, 1+i&127)
	case "one":
		p.Addr = "10.79.0.1"
	case "victim":
		p.Addr = VictimAddr(i % 5).String()
	case "fresh":
		p.Addr = FreshAddr
	case "nobody":
		p.Addr = NobodysAddrs[i%len(NobodysAddrs)]
	case "node":
		p.Addr = NodeAddr
	}
	for k := range g.Labels {
		p.Labels[fmt.Sprintf("%s-%d", name, k)] = fmt.Sprint(i)
	}
	for k := range g.Ports {
		p.Ports[fmt.Sprintf("p%d", k)] = 1 + (i*g.Ports+k)%65535
	}
	if g.Future {
		p.Started = year2999.Add(time.Duration(i) * time.Second)
	}
	return p.Object()
}
