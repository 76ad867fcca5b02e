package policy

import (
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/network-policy-api/apis/v1alpha2"
)

// protocols compiles `protocols` into the fewest ports. An empty list means everything, including
// ICMP. some is false if there are entries and none can match a packet; ok is false if the rule has
// to close.
func (c *compiler) protocols(list []v1alpha2.ClusterNetworkPolicyProtocol, at *field.Path, action Action) (ports []Port, some, ok bool) {
	ok = true
	for i := range list {
		one, good := c.protocol(&list[i], at.Index(i), action)
		ports = append(ports, one...)
		ok = ok && good
	}
	return Fewest(ports), len(ports) > 0 || len(list) == 0, ok
}

// protocol compiles one entry. A named port applies to all protocols.
func (c *compiler) protocol(p *v1alpha2.ClusterNetworkPolicyProtocol, at *field.Path, action Action) ([]Port, bool) {
	var out []Port
	fields, ok := 0, true
	add := func(protocol Protocol, number *v1alpha2.Port, at *field.Path) {
		fields++
		one, good := c.destination(protocol, number, at, action)
		out, ok = append(out, one), good
	}
	if p.TCP != nil {
		add(TCP, p.TCP.DestinationPort, at.Child("tcp", "destinationPort"))
	}
	if p.UDP != nil {
		add(UDP, p.UDP.DestinationPort, at.Child("udp", "destinationPort"))
	}
	if p.SCTP != nil {
		add(SCTP, p.SCTP.DestinationPort, at.Child("sctp", "destinationPort"))
	}
	if p.DestinationNamedPort != "" {
		fields++
		out = c.namedPort(p.DestinationNamedPort, at.Child("destinationNamedPort"))
	}
	switch {
	case fields == 0:
		c.unsupported(at, action, "the entry has no field that is known, use tcp, udp, sctp or destinationNamedPort")
		return nil, false
	case fields > 1:
		c.unsupported(at, action, "the entry has %d fields, make as many entries of them", fields)
		return nil, false
	}
	return out, ok
}

// destination compiles the destination port of a protocol. A port without a known field closes the
// rule, because an unknown field may select some ports only, or not concern ports at all.
func (c *compiler) destination(protocol Protocol, p *v1alpha2.Port, at *field.Path, action Action) (Port, bool) {
	first, last := int32(0), int32(0)
	switch {
	case p == nil || p.Number == 0 && p.Range == nil:
		c.unsupported(at, action, "the port has no field that is known, use number or range")
		return Port{}, false
	case p.Number != 0 && p.Range != nil:
		c.unsupported(at, action, "number stands beside range, make two entries of them")
		return Port{}, false
	case p.Range != nil:
		first, last = p.Range.Start, p.Range.End
	default:
		first, last = p.Number, p.Number
	}
	if first < 1 || first > last || last > maxPort {
		c.invalid(at, closes(action), "%d to %d are no ports, use 1 to 65535, the smaller one first", first, last)
		return Port{}, false
	}
	return Port{Protocol: protocol, First: uint16(first), Last: uint16(last)}, true
}

// namedPort compiles the name of a port. The API accepts any text, but pods can have only valid
// port names, so an invalid name exactly matches nothing.
func (c *compiler) namedPort(name string, at *field.Path) []Port {
	if wrong := validation.IsValidPortName(name); len(wrong) > 0 {
		c.invalid(at, "the entry matches nothing", "no port of a pod can be called %q: %s", name, wrong[0])
		return nil
	}
	return []Port{{Protocol: TCP, Name: name}, {Protocol: UDP, Name: name}, {Protocol: SCTP, Name: name}}
}
