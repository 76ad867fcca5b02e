package policy

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// portLeftOut is the consequence of a malformed port.
const portLeftOut = "the port is left out"

// ports compiles `ports` into the fewest entries, sorted. An empty list means every port of every
// protocol. It reports false if there are entries and each was left out: then no port is allowed.
func (c *compiler) ports(list []networkingv1.NetworkPolicyPort, at *field.Path) ([]Port, bool) {
	var out []Port
	for i := range list {
		if p, ok := c.port(&list[i], at.Index(i)); ok {
			out = append(out, p)
		}
	}
	return Fewest(out), len(out) > 0 || len(list) == 0
}

func (c *compiler) port(p *networkingv1.NetworkPolicyPort, at *field.Path) (Port, bool) {
	protocol := TCP
	if p.Protocol != nil {
		switch *p.Protocol {
		case corev1.ProtocolTCP:
		case corev1.ProtocolUDP:
			protocol = UDP
		case corev1.ProtocolSCTP:
			protocol = SCTP
		default:
			c.invalid(at.Child("protocol"), portLeftOut, "unknown protocol %q, use TCP, UDP or SCTP", *p.Protocol)
			return Port{}, false
		}
	}
	portAt, endAt := at.Child("port"), at.Child("endPort")
	switch {
	case p.Port == nil && p.EndPort == nil:
		return Port{Protocol: protocol}, true
	case p.Port == nil:
		c.invalid(endAt, portLeftOut, "endPort needs a port to start from")
	case p.Port.Type == intstr.String && p.EndPort != nil:
		c.invalid(endAt, portLeftOut, "endPort stands beside the named port %q, give the port as a number", p.Port.StrVal)
	case p.Port.Type == intstr.String:
		if wrong := validation.IsValidPortName(p.Port.StrVal); len(wrong) > 0 {
			c.invalid(portAt, portLeftOut, "%q is no port name: %s", p.Port.StrVal, wrong[0])
			break
		}
		return Port{Protocol: protocol, Name: p.Port.StrVal}, true
	case p.Port.Type != intstr.Int:
		c.invalid(portAt, portLeftOut, "a port is a number or a name")
	case p.Port.IntVal < 1 || p.Port.IntVal > maxPort:
		c.invalid(portAt, portLeftOut, "%d is no port, use 1 to 65535", p.Port.IntVal)
	case p.EndPort == nil:
		return Port{Protocol: protocol, First: uint16(p.Port.IntVal), Last: uint16(p.Port.IntVal)}, true
	case *p.EndPort < p.Port.IntVal || *p.EndPort > maxPort:
		c.invalid(endAt, portLeftOut, "%d is no end for the range from %d, use %[2]d to 65535", *p.EndPort, p.Port.IntVal)
	default:
		return Port{Protocol: protocol, First: uint16(p.Port.IntVal), Last: uint16(*p.EndPort)}, true
	}
	return Port{}, false
}

// maxPort is the last port number.
const maxPort = 65535

// Fewest returns the smallest sorted list that covers the same ports, so that lists with equal
// meaning become equal. It merges ranges that overlap or touch, turns the range 1 to 65535 into
// the whole protocol, and drops ports of a protocol that is covered as a whole. It may reuse the
// memory of ports.
func Fewest(ports []Port) []Port {
	slices.SortFunc(ports, func(a, b Port) int {
		return cmp.Or(
			cmp.Compare(a.Protocol, b.Protocol),
			cmp.Compare(a.Name, b.Name), // numbers first, and before them the whole protocol
			cmp.Compare(a.First, b.First),
			cmp.Compare(a.Last, b.Last),
		)
	})
	var out []Port
	for _, p := range ports {
		if len(out) == 0 || !out[len(out)-1].absorb(p) {
			out = append(out, p)
		}
		if last := &out[len(out)-1]; last.First <= 1 && last.Last == maxPort {
			last.First, last.Last = 0, 0
		}
	}
	return out
}

// absorb widens p to cover next, which sorts after it, and reports whether it could.
func (p *Port) absorb(next Port) bool {
	switch {
	case p.Protocol != next.Protocol:
		return false
	case *p == next || p.First == 0 && p.Name == "":
		return true
	case p.Name != "" || next.Name != "" || int(next.First) > int(p.Last)+1:
		return false
	}
	p.Last = max(p.Last, next.Last)
	return true
}
