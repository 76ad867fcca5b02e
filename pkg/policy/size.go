package policy

import (
	"slices"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// Size is the estimated cost of a NetworkPolicy. It depends on the text of the policy alone.
type Size struct {
	Bytes int // of the decoded policy, and of the rules that it needs
	// Members is the price of the members of the sets that only this policy needs, in bytes. Each
	// of these sets may contain every pod, or every namespace, of the cluster.
	Members int
}

// Total returns the part of its namespace's limit that a policy uses.
func (s Size) Total() int { return s.Bytes + s.Members }

const (
	// itemBytes is the memory that a rule, peer, port, except or value takes in addition to its
	// text. A label or term counts as labelItems items.
	itemBytes, labelItems = 64, 4
	// viewBytes is the price of a named port of an egress rule for one peer. blockViewBytes is its
	// price for ipBlocks, for which the agent searches all pods.
	viewBytes, blockViewBytes = 1 << 10, 32 << 10
	// smallSetBytes is the price of a set of pods of one namespace, or of a set of namespaces.
	// largeSetBytes is the price of a set of pods of all namespaces.
	smallSetBytes, largeSetBytes = 64 << 10, 256 << 10
)

// SizeOf returns the size of a spec.
func SizeOf(spec *networkingv1.NetworkPolicySpec) Size {
	s := Size{Bytes: spec.Size()}
	items := selectorItems(&spec.PodSelector) + len(spec.PolicyTypes)
	for i := range spec.Ingress {
		items += len(spec.Ingress[i].Ports) + s.peers(spec.Ingress[i].From)
	}
	for i := range spec.Egress {
		items += len(spec.Egress[i].Ports) + s.peers(spec.Egress[i].To)
		s.Bytes += viewsOf(&spec.Egress[i])
	}
	s.Bytes += itemBytes * items
	return s
}

// peers returns the number of items in a rule's peers, and adds the price of the sets that only
// these peers need.
func (s *Size) peers(peers []networkingv1.NetworkPolicyPeer) int {
	n := 1 + len(peers)
	for i := range peers {
		p := &peers[i]
		n += selectorItems(p.PodSelector) + selectorItems(p.NamespaceSelector)
		if p.IPBlock != nil {
			n += len(p.IPBlock.Except)
		}
		if sel := p.NamespaceSelector; sel != nil && len(sel.MatchExpressions) > 0 {
			s.Members += smallSetBytes
		}
		switch sel := p.PodSelector; {
		case sel == nil || !slices.ContainsFunc(sel.MatchExpressions, excludes): // all policies share its sets
		case p.NamespaceSelector == nil:
			s.Members += smallSetBytes
		default:
			s.Members += largeSetBytes
		}
	}
	return n
}

// excludes reports whether a term of a selector is negative, so that the selector needs a set of its
// own.
func excludes(term metav1.LabelSelectorRequirement) bool {
	return term.Operator == metav1.LabelSelectorOpNotIn || term.Operator == metav1.LabelSelectorOpDoesNotExist
}

// viewsOf returns the price of the named ports of an egress rule. All blocks of the rule count as
// one peer, and so do all peers in the policy's own namespace.
func viewsOf(r *networkingv1.NetworkPolicyEgressRule) int {
	named, selectors, blocks := 0, 1, 0
	for i := range r.Ports {
		if port := r.Ports[i].Port; port != nil && port.Type == intstr.String {
			named++
		}
	}
	for i := range r.To {
		if r.To[i].IPBlock != nil {
			blocks = blockViewBytes
		} else if r.To[i].NamespaceSelector != nil {
			selectors++
		}
	}
	return named * (viewBytes*selectors + blocks)
}

// selectorItems returns the number of items in a selector, which may be nil.
func selectorItems(sel *metav1.LabelSelector) int {
	if sel == nil {
		return 0
	}
	n := labelItems * (len(sel.MatchLabels) + len(sel.MatchExpressions))
	for i := range sel.MatchExpressions {
		n += len(sel.MatchExpressions[i].Values)
	}
	return n
}

// selectorSize returns the size of a selector.
func selectorSize(sel *metav1.LabelSelector) int { return sel.Size() + itemBytes*selectorItems(sel) }
