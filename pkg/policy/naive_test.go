package policy_test

import (
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"pgregory.net/rapid"

	"github.com/winnpm/winnpm/pkg/ipsets"
	"github.com/winnpm/winnpm/pkg/policy"
)

// icmp is the protocol of a packet without ports; no policy names it.
const icmp corev1.Protocol = "ICMP"

var protocols = []corev1.Protocol{corev1.ProtocolTCP, corev1.ProtocolUDP, corev1.ProtocolSCTP}

// other is the far side of a packet and the packet's way in there.
type other struct {
	namespace       string
	namespaceLabels map[string]string
	labels          map[string]string
	nodeLabels      map[string]string
	addr            netip.Addr
	protocol        corev1.Protocol
	port            int32
	portName        string // the destination's name for port and protocol
}

func drawOther(t *rapid.T) other {
	draw := func() map[string]string {
		out := map[string]string{}
		for _, k := range keys {
			if rapid.Bool().Draw(t, "has") {
				out[k] = pick(t, values, "value")
			}
		}
		return out
	}
	return other{
		namespace: pick(t, namespaces, "namespace"), namespaceLabels: draw(), labels: draw(), nodeLabels: draw(),
		addr:     netip.MustParseAddr(address(rapid.IntRange(0, 20).Draw(t, "addr"))),
		protocol: pick(t, protocols, "protocol"),
		port:     rapid.Int32Range(1, 10).Draw(t, "port"),
		portName: pick(t, append([]string{""}, portNames...), "name"),
	}
}

// naiveSelector of nil matches nothing.
func naiveSelector(s *metav1.LabelSelector, l map[string]string) bool {
	sel, err := metav1.LabelSelectorAsSelector(s)
	return err == nil && sel.Matches(labels.Set(l))
}

func peerHolds(c policy.Policy, p policy.Peer, o other) bool {
	if len(p.Blocks) > 0 {
		return slices.ContainsFunc(p.Blocks, func(b netip.Prefix) bool { return b.Contains(o.addr) })
	}
	for _, name := range p.Sets {
		if !setHolds(c, name, o) {
			return false
		}
	}
	return true
}

// setHolds knows what a kind of set means; a set that is not defined holds nobody.
func setHolds(c policy.Policy, name ipsets.Name, o other) bool {
	i := slices.IndexFunc(c.Sets, func(s policy.SetDef) bool { return s.Name == name })
	if i < 0 {
		return false
	}
	def := c.Sets[i]
	switch name.Kind() {
	case ipsets.KindNamespace:
		return name.Text() == o.namespace
	case ipsets.KindPodLabel:
		key, value, withValue := strings.Cut(name.Text(), ":")
		got, has := o.labels[key]
		return has && (!withValue || got == value)
	case ipsets.KindPodSelector:
		return (def.Namespace == "" || def.Namespace == o.namespace) && def.Pods.Matches(o.labels)
	case ipsets.KindNestedLabel:
		return slices.ContainsFunc(def.Members, func(m ipsets.Name) bool { return setHolds(c, m, o) })
	case ipsets.KindNamespaceSelector:
		return def.Namespaces.Matches(o.namespaceLabels)
	case ipsets.KindNodes:
		return def.Nodes.Matches(o.nodeLabels)
	default:
		panic("not a set of a policy: " + name.String())
	}
}

func portsHold(ports []policy.Port, o other) bool {
	return len(ports) == 0 || slices.ContainsFunc(ports, func(p policy.Port) bool {
		if string(p.Protocol) != string(o.protocol) {
			return false
		}
		if p.Name != "" {
			return p.Name == o.portName
		}
		return p.First == 0 || int32(p.First) <= o.port && o.port <= int32(p.Last)
	})
}
