package policy

import (
	"net/netip"

	"go4.org/netipx"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/network-policy-api/apis/v1alpha2"

	"github.com/winnpm/winnpm/pkg/ipsets"
)

// clusterPeers compiles `from` or `to`. The caller passes the peers of an ingress rule as egress
// peers with the fields that both have. It reports false if the rule has to close. The networks of
// all entries are merged into one peer, in the place of the first.
func (c *compiler) clusterPeers(list []v1alpha2.ClusterNetworkPolicyEgressPeer, at *field.Path, action Action) ([]Peer, bool) {
	if len(list) == 0 {
		c.unsupported(at, action, "the rule has no peers, give it one")
		return nil, false
	}
	var out []Peer
	ok := true
	for i := range list {
		p, here, good := &list[i], at.Index(i), false
		switch fields := fieldsOf(p); {
		case fields == 0:
			c.unsupported(here, action, "the peer has no field that is known, use namespaces, pods, nodes or networks")
		case fields > 1:
			c.unsupported(here, action, "the peer has %d fields, make as many peers of them", fields)
		case p.Networks != nil:
			var one Peer
			if one.Blocks, good = c.networks(p.Networks, here.Child("networks"), action); len(one.Blocks) > 0 {
				out = append(out, one)
			}
		case p.DomainNames != nil:
			good = c.domainNames(here.Child("domainNames"), action)
		default:
			var one Peer
			one, good = c.selected(p, here, action)
			out = append(out, one)
		}
		ok = ok && good
	}
	return fewestPeers(out), ok
}

// fieldsOf counts the fields of a peer.
func fieldsOf(p *v1alpha2.ClusterNetworkPolicyEgressPeer) (n int) {
	for _, is := range [...]bool{p.Namespaces != nil, p.Pods != nil, p.Nodes != nil, p.Networks != nil, p.DomainNames != nil} {
		if is {
			n++
		}
	}
	return n
}

// selected compiles a peer with selectors into the sets whose common members the selectors match.
// It reports false if a selector is malformed, or if the nodes of the cluster are unknown.
func (c *compiler) selected(p *v1alpha2.ClusterNetworkPolicyEgressPeer, at *field.Path, action Action) (Peer, bool) {
	switch {
	case p.Nodes != nil && withoutNodes(p.Nodes):
		c.problem(ReasonNodesUnknown, at.Child("nodes"), "%s here yet, the agent's log and /readyz say why; until they are, %s", nodesUnknown, closes(action))
		return Peer{}, false
	case p.Nodes != nil:
		sel, ok := c.selector(p.Nodes, at.Child("nodes"), closes(action))
		return Peer{Sets: []ipsets.Name{ipsets.Nodes(sel.text())}}, ok
	}
	s := selectors{namespaces: p.Namespaces, namespacesAt: at.Child("namespaces")}
	if p.Pods != nil {
		pods := at.Child("pods")
		s = selectors{&p.Pods.NamespaceSelector, pods.Child("namespaceSelector"), &p.Pods.PodSelector, pods.Child("podSelector")}
	}
	return c.pods(s, closes(action))
}

// networks returns the IPv4 networks of a networks peer. It leaves out IPv6 networks: on
// endpoints with IPv6 addresses, every Deny blocks all IPv6 of its direction anyway. It reports
// false if the list is empty or has a malformed network.
func (c *compiler) networks(list []v1alpha2.CIDR, at *field.Path, action Action) ([]netip.Prefix, bool) {
	var set netipx.IPSetBuilder
	ok, consequence := len(list) > 0, "the network is left out"
	if action == Deny {
		consequence = "pods with IPv6 addresses are denied all IPv6 in this direction"
	}
	if !ok {
		c.unsupported(at, action, "the peer has no networks, give it one")
	}
	for i, text := range list {
		cidr, err := netip.ParsePrefix(string(text))
		switch {
		case err != nil || cidr.Addr().Is4In6():
			c.invalid(at.Index(i), closes(action), "%q is no CIDR, write it like 10.0.0.0/8", text)
			ok = false
		case !cidr.Addr().Is4():
			c.problem(ReasonIPv6Peer, at.Index(i), "%q is of IPv6, which is not programmed, use IPv4; %s", text, consequence)
		default:
			set.AddPrefix(cidr)
		}
	}
	return mustSet(&set).Prefixes(), ok
}

// domainNames notes that a peer of domain names is not programmed, because the agent does not see
// DNS answers. It reports false if the rule has to close.
func (c *compiler) domainNames(at *field.Path, action Action) bool {
	consequence := closes(action)
	if action == Accept {
		consequence = peerLeftOut
	}
	c.problem(ReasonUnsupportedPeer, at, "domain names are not programmed, use networks; %s", consequence)
	return action == Accept
}

// nodesUnknown is the operator that marks the selector of a peer of nodes while the nodes are
// unknown. The API has no such operator, so a policy that has it anyway closes too.
const nodesUnknown = "the nodes of the cluster are not known"

// WithoutNodes returns a copy of a policy to use while the nodes of the cluster are unknown: a rule
// with a peer of nodes matches nothing if it accepts, and otherwise denies everything of its
// direction. The mark is a part of the spec, so that every reader of the spec sees it.
func WithoutNodes(cnp *v1alpha2.ClusterNetworkPolicy) *v1alpha2.ClusterNetworkPolicy {
	out := cnp.DeepCopy()
	unknown := &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "nodes", Operator: nodesUnknown}}}
	for i := range out.Spec.Egress {
		for j := range out.Spec.Egress[i].To {
			if p := &out.Spec.Egress[i].To[j]; p.Nodes != nil {
				p.Nodes = unknown
			}
		}
	}
	return out
}

// withoutNodes reports whether a selector has the mark of WithoutNodes.
func withoutNodes(sel *metav1.LabelSelector) bool {
	return len(sel.MatchExpressions) == 1 && sel.MatchExpressions[0].Operator == nodesUnknown
}
