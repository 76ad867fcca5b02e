package manifest

import (
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

// masking is called when host bits of a network are masked.
type masking func(at *field.Path, from, to string)

// noteMasked returns a masking that warns about one object.
func (l *loader) noteMasked(object, kind string) masking {
	return func(path *field.Path, from, to string) {
		l.warn(object, kind, HostBitsMasked, "%s: %q has bits behind its mask; %s is used", path, from, to)
	}
}

// checkPolicy returns the errors that an API server would return for a policy, and sets its defaults.
func checkPolicy(np *networkingv1.NetworkPolicy, masked masking) field.ErrorList {
	spec := field.NewPath("spec")
	errs := checkSelector(&np.Spec.PodSelector, spec.Child("podSelector"))
	for i, rule := range np.Spec.Ingress {
		here := spec.Child("ingress").Index(i)
		errs = append(errs, checkPolicyPorts(rule.Ports, here.Child("ports"))...)
		errs = append(errs, checkPeers(rule.From, here.Child("from"), masked)...)
	}
	for i, rule := range np.Spec.Egress {
		here := spec.Child("egress").Index(i)
		errs = append(errs, checkPolicyPorts(rule.Ports, here.Child("ports"))...)
		errs = append(errs, checkPeers(rule.To, here.Child("to"), masked)...)
	}
	errs = append(errs, checkTypes(np.Spec.PolicyTypes, spec.Child("policyTypes"))...)
	if len(np.Spec.PolicyTypes) == 0 {
		np.Spec.PolicyTypes = []networkingv1.PolicyType{networkingv1.PolicyTypeIngress}
		if len(np.Spec.Egress) > 0 {
			np.Spec.PolicyTypes = append(np.Spec.PolicyTypes, networkingv1.PolicyTypeEgress)
		}
	}
	return errs
}

func checkTypes(types []networkingv1.PolicyType, path *field.Path) field.ErrorList {
	if len(types) > 2 {
		return invalid(path, "has %d entries; give Ingress, Egress or both", len(types))
	}
	for i, t := range types {
		if t != networkingv1.PolicyTypeIngress && t != networkingv1.PolicyTypeEgress {
			return invalid(path.Index(i), "unknown policy type %q; use Ingress or Egress", t)
		}
	}
	return nil
}

func checkPolicyPorts(ports []networkingv1.NetworkPolicyPort, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i := range ports {
		p, at := &ports[i], path.Index(i)
		if p.Protocol == nil {
			p.Protocol = new(corev1.ProtocolTCP)
		}
		errs = append(errs, checkProtocol(*p.Protocol, at.Child("protocol"))...)
		errs = append(errs, checkPolicyPort(p, at)...)
	}
	return errs
}

func checkPolicyPort(p *networkingv1.NetworkPolicyPort, at *field.Path) field.ErrorList {
	end := at.Child("endPort")
	switch {
	case p.Port == nil && p.EndPort != nil:
		return invalid(end, "stands without a port; give the first port of the range as port")
	case p.Port == nil:
		return nil
	case p.Port.Type == intstr.String && p.EndPort != nil:
		return invalid(end, "stands beside the named port %q; give the first port of the range as a number", p.Port.StrVal)
	case p.Port.Type == intstr.String:
		return checkPortName(p.Port.StrVal, at.Child("port"))
	case p.EndPort != nil && *p.EndPort < p.Port.IntVal:
		return invalid(end, "%d is below port %d; swap them", *p.EndPort, p.Port.IntVal)
	}
	errs := checkPortNumber(p.Port.IntVal, at.Child("port"))
	if p.EndPort != nil {
		errs = append(errs, checkPortNumber(*p.EndPort, end)...)
	}
	return errs
}

func checkPeers(peers []networkingv1.NetworkPolicyPeer, path *field.Path, masked masking) field.ErrorList {
	var errs field.ErrorList
	for i, p := range peers {
		at := path.Index(i)
		selects := p.PodSelector != nil || p.NamespaceSelector != nil
		switch {
		case p.IPBlock != nil && selects:
			errs = append(errs, invalid(at, "ipBlock stands beside a selector; make two peers of them")...)
		case p.IPBlock != nil:
			errs = append(errs, checkBlock(p.IPBlock, at.Child("ipBlock"), masked)...)
		case !selects:
			errs = append(errs, invalid(at, "the peer is empty; give a podSelector, a namespaceSelector or an ipBlock")...)
		}
		errs = append(errs, checkSelector(p.PodSelector, at.Child("podSelector"))...)
		errs = append(errs, checkSelector(p.NamespaceSelector, at.Child("namespaceSelector"))...)
	}
	return errs
}

// checkBlock checks an ipBlock and masks the host bits.
func checkBlock(b *networkingv1.IPBlock, at *field.Path, masked masking) field.ErrorList {
	whole, errs := parseCIDR(&b.CIDR, at.Child("cidr"), masked)
	for i := range b.Except {
		here := at.Child("except").Index(i)
		except, more := parseCIDR(&b.Except[i], here, masked)
		if errs = append(errs, more...); len(errs) > 0 {
			return errs
		}
		if !whole.Contains(except.Addr()) || except.Bits() <= whole.Bits() {
			return invalid(here, "%s is not a smaller part of %s; correct it, or remove it from the list", except, whole)
		}
	}
	return errs
}

func parseCIDR(text *string, at *field.Path, masked masking) (netip.Prefix, field.ErrorList) {
	p, err := netip.ParsePrefix(*text)
	if err != nil || p.Addr().Is4In6() {
		return p, invalid(at, "%q is not a CIDR; write an address and a prefix length, like 10.0.0.0/8", *text)
	}
	if m := p.Masked(); m != p {
		masked(at, *text, m.String())
		*text, p = m.String(), m
	}
	return p, nil
}

func checkSelector(s *metav1.LabelSelector, path *field.Path) field.ErrorList {
	return metav1validation.ValidateLabelSelector(s, metav1validation.LabelSelectorValidationOptions{}, path)
}

func checkProtocol(p corev1.Protocol, path *field.Path) field.ErrorList {
	switch p {
	case corev1.ProtocolTCP, corev1.ProtocolUDP, corev1.ProtocolSCTP:
		return nil
	}
	return invalid(path, "unknown protocol %q; use TCP, UDP or SCTP", p)
}

func checkPortNumber(n int32, path *field.Path) field.ErrorList {
	if len(validation.IsValidPortNum(int(n))) > 0 {
		return invalid(path, "%d is no port number; use 1 to 65535", n)
	}
	return nil
}

func checkPortName(name string, path *field.Path) field.ErrorList {
	if len(validation.IsValidPortName(name)) > 0 {
		return invalid(path, "%q is no port name; use at most 15 of a-z, 0-9 and '-', with a letter, and write a number without quotes", name)
	}
	return nil
}
