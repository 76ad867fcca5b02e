package manifest

import (
	"fmt"
	"net/netip"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// namespacedKind is the kind of a NetworkPolicy.
const namespacedKind = "NetworkPolicy"

// policyChecker refuses in one policy what the validation of the API server
// refuses, and fills in its defaults.
type policyChecker struct {
	place
	masked func(at *field.Path, from, to string)
}

// noteMasked returns what notes that host bits of an object's networks are masked.
func (l *loader) noteMasked(object, kind string) func(at *field.Path, from, to string) {
	return func(path *field.Path, from, to string) {
		l.warnings = append(l.warnings, Warning{
			Object: object, Kind: kind, Reason: HostBitsMasked,
			Message: oneLine(fmt.Sprintf("%s: %q has bits behind its mask; %s is used", path, from, to)),
		})
	}
}

func (l *loader) checkPolicy(at place, np *networkingv1.NetworkPolicy) error {
	c := policyChecker{at, l.noteMasked(np.Namespace+"/"+np.Name, namespacedKind)}
	spec := field.NewPath("spec")
	if err := checkSelector(at, &np.Spec.PodSelector, spec.Child("podSelector")); err != nil {
		return err
	}
	for i, rule := range np.Spec.Ingress {
		here := spec.Child("ingress").Index(i)
		if err := c.rule(rule.Ports, here.Child("ports"), rule.From, here.Child("from")); err != nil {
			return err
		}
	}
	for i, rule := range np.Spec.Egress {
		here := spec.Child("egress").Index(i)
		if err := c.rule(rule.Ports, here.Child("ports"), rule.To, here.Child("to")); err != nil {
			return err
		}
	}
	if err := checkTypes(at, np.Spec.PolicyTypes, spec.Child("policyTypes")); err != nil {
		return err
	}
	if len(np.Spec.PolicyTypes) == 0 {
		np.Spec.PolicyTypes = []networkingv1.PolicyType{networkingv1.PolicyTypeIngress}
		if len(np.Spec.Egress) > 0 {
			np.Spec.PolicyTypes = append(np.Spec.PolicyTypes, networkingv1.PolicyTypeEgress)
		}
	}
	return nil
}

func checkTypes(at place, types []networkingv1.PolicyType, path *field.Path) error {
	if len(types) > 2 {
		return at.fail(path, "has %d entries; give Ingress, Egress or both", len(types))
	}
	for i, t := range types {
		if t != networkingv1.PolicyTypeIngress && t != networkingv1.PolicyTypeEgress {
			return at.fail(path.Index(i), "unknown policy type %q; use Ingress or Egress", t)
		}
	}
	return nil
}

func (c policyChecker) rule(ports []networkingv1.NetworkPolicyPort, portsAt *field.Path, peers []networkingv1.NetworkPolicyPeer, peersAt *field.Path) error {
	for i := range ports {
		if err := c.port(&ports[i], portsAt.Index(i)); err != nil {
			return err
		}
	}
	for i := range peers {
		if err := c.peer(&peers[i], peersAt.Index(i)); err != nil {
			return err
		}
	}
	return nil
}

func (c policyChecker) port(p *networkingv1.NetworkPolicyPort, at *field.Path) error {
	if p.Protocol == nil {
		tcp := corev1.ProtocolTCP
		p.Protocol = &tcp
	}
	if err := checkProtocol(c.place, *p.Protocol, at.Child("protocol")); err != nil {
		return err
	}
	end := at.Child("endPort")
	switch {
	case p.Port == nil && p.EndPort != nil:
		return c.fail(end, "stands without a port; give the first port of the range as port")
	case p.Port == nil:
		return nil
	case p.Port.Type == intstr.String && p.EndPort != nil:
		return c.fail(end, "stands beside the named port %q; give the first port of the range as a number", p.Port.StrVal)
	case p.Port.Type == intstr.String:
		return checkPortName(c.place, p.Port.StrVal, at.Child("port"))
	}
	if err := checkPortNumber(c.place, p.Port.IntVal, at.Child("port")); err != nil {
		return err
	}
	if p.EndPort == nil {
		return nil
	}
	if *p.EndPort < p.Port.IntVal {
		return c.fail(end, "%d is below port %d; swap them", *p.EndPort, p.Port.IntVal)
	}
	return checkPortNumber(c.place, *p.EndPort, end)
}

func (c policyChecker) peer(p *networkingv1.NetworkPolicyPeer, at *field.Path) error {
	selects := p.PodSelector != nil || p.NamespaceSelector != nil
	switch {
	case p.IPBlock != nil && selects:
		return c.fail(at, "ipBlock stands beside a selector; make two peers of them")
	case p.IPBlock != nil:
		return c.block(p.IPBlock, at.Child("ipBlock"))
	case !selects:
		return c.fail(at, "the peer is empty; give a podSelector, a namespaceSelector or an ipBlock")
	}
	if p.PodSelector != nil {
		if err := checkSelector(c.place, p.PodSelector, at.Child("podSelector")); err != nil {
			return err
		}
	}
	if p.NamespaceSelector != nil {
		return checkSelector(c.place, p.NamespaceSelector, at.Child("namespaceSelector"))
	}
	return nil
}

// block checks an ipBlock and masks what stands behind the prefix lengths.
func (c policyChecker) block(b *networkingv1.IPBlock, at *field.Path) error {
	whole, err := c.cidr(&b.CIDR, at.Child("cidr"))
	if err != nil {
		return err
	}
	for i := range b.Except {
		here := at.Child("except").Index(i)
		except, err := c.cidr(&b.Except[i], here)
		if err != nil {
			return err
		}
		if !whole.Contains(except.Addr()) || except.Bits() <= whole.Bits() {
			return c.fail(here, "%s is not a smaller part of %s; correct it, or remove it from the list", except, whole)
		}
	}
	return nil
}

func (c policyChecker) cidr(text *string, at *field.Path) (netip.Prefix, error) {
	p, err := netip.ParsePrefix(*text)
	if err != nil || p.Addr().Is4In6() {
		return p, c.fail(at, "%q is not a CIDR; write an address and a prefix length, like 10.0.0.0/8", *text)
	}
	if masked := p.Masked(); masked != p {
		c.masked(at, *text, masked.String())
		*text, p = masked.String(), masked
	}
	return p, nil
}

func checkSelector(at place, s *metav1.LabelSelector, path *field.Path) error {
	return at.refuse(metav1validation.ValidateLabelSelector(s, metav1validation.LabelSelectorValidationOptions{}, path))
}

func checkProtocol(at place, p corev1.Protocol, path *field.Path) error {
	switch p {
	case corev1.ProtocolTCP, corev1.ProtocolUDP, corev1.ProtocolSCTP:
		return nil
	}
	return at.fail(path, "unknown protocol %q; use TCP, UDP or SCTP", p)
}

func checkPortNumber(at place, n int32, path *field.Path) error {
	if n < 1 || n > 65535 {
		return at.fail(path, "%d is no port number; use 1 to 65535", n)
	}
	return nil
}

func checkPortName(at place, name string, path *field.Path) error {
	if len(validation.IsValidPortName(name)) > 0 {
		return at.fail(path, "%q is no port name; use at most 15 of a-z, 0-9 and '-', with a letter, "+
			"and write a number without quotes", name)
	}
	return nil
}
