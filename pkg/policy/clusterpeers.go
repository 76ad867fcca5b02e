package policy

import (
	"net/netip"

	"go4.org/netipx"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/network-policy-api/apis/v1alpha2"

	"github.com/winnpm/winnpm/pkg/ipsets"
)

// clusterPeers compiles `from` or `to`; the peers of an ingress rule have the fields of
// an egress peer that they know. It reports false if the rule has to close. The networks
// of all entries become one peer, in the place of the first.
func (c *clusterCompiler) clusterPeers(list []v1alpha2.ClusterNetworkPolicyEgressPeer, at *field.Path, action Action) ([]candidate, bool) {
	if len(list) == 0 {
		c.unsupported(at, action, "the rule has no peers, give it one")
		return nil, false
	}
	var out []candidate
	var blocks blockUnion
	seen := map[string]bool{}
	ok := true
	for i := range list {
		p, here := &list[i], at.Index(i)
		var one candidate
		good := false
		switch fields := fieldsOf(p); {
		case fields == 0:
			c.unsupported(here, action, "the peer has no field that is known, use namespaces, pods, nodes or networks")
		case fields > 1:
			c.unsupported(here, action, "the peer has %d fields, make as many peers of them", fields)
		case p.Networks != nil:
			ranges, readable := c.networks(p.Networks, here.Child("networks"), action)
			good = readable
			if len(ranges) > 0 && blocks.add(ranges) {
				blocks.place = len(out)
				out = append(out, candidate{})
			}
		case p.DomainNames != nil:
			good = c.domainNames(here.Child("domainNames"), action)
		default:
			one, good = c.selected(p, here, action)
		}
		ok = ok && good
		if key := setsKey(one.peer.Sets); key != "" && !seen[key] {
			seen[key] = true
			out = append(out, one)
		}
	}
	if blocks.some {
		out[blocks.place].peer.Blocks = blocks.prefixes()
	}
	return out, ok
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

// selected compiles a peer that selectors give: the sets that contain exactly those. It
// reports false if a selector is malformed, or nobody knows what it selects.
func (c *clusterCompiler) selected(p *v1alpha2.ClusterNetworkPolicyEgressPeer, at *field.Path, action Action) (candidate, bool) {
	var out candidate
	switch {
	case p.Nodes != nil && withoutNodes(p.Nodes):
		c.problem(ReasonNodesUnknown, at.Child("nodes"), "%s here yet, the agent's log and /readyz say why; until they are, %s", nodesUnknown, closes(action))
		return out, false
	case p.Nodes != nil:
		sel, ok := c.selector(p.Nodes, at.Child("nodes"), closes(action))
		out.need(SetDef{Name: ipsets.Nodes(sel.text()), Nodes: sel.matcher()})
		return out, ok
	}
	namespaces, namespacesAt := p.Namespaces, at.Child("namespaces")
	if p.Pods != nil {
		namespaces, namespacesAt = &p.Pods.NamespaceSelector, at.Child("pods", "namespaceSelector")
	}
	sel, ok := c.selector(namespaces, namespacesAt, closes(action))
	out.need(SetDef{Name: namespaceSet(sel), Namespaces: sel.matcher()})
	if p.Pods != nil {
		pods, podsOK := c.selector(&p.Pods.PodSelector, at.Child("pods", "podSelector"), closes(action))
		out.needPods(pods, "")
		ok = ok && podsOK
	}
	return out, ok
}

// networks returns the IPv4 networks of a networks peer. It leaves out IPv6 networks: on
// endpoints with IPv6 addresses, every Deny blocks all IPv6 of its direction anyway. It reports
// false if the list is empty or has a malformed network.
func (c *clusterCompiler) networks(list []v1alpha2.CIDR, at *field.Path, action Action) ([]netipx.IPRange, bool) {
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
	return mustSet(&set).Ranges(), ok
}

// domainNames says what becomes of a rule that names domains: nobody here sees answers
// of DNS. It reports false if the rule has to close.
func (c *clusterCompiler) domainNames(at *field.Path, action Action) bool {
	consequence := closes(action)
	if action == Accept {
		consequence = peerLeftOut
	}
	c.problem(ReasonUnsupportedPeer, at, "domain names are not programmed, use networks; %s", consequence)
	return action == Accept
}
