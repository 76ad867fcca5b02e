package policy

import (
	"fmt"
	"net/netip"

	"go4.org/netipx"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/winnpm/winnpm/pkg/ipsets"
)

// peerLeftOut is the consequence of a malformed peer.
const peerLeftOut = "the peer is left out"

// fewestPeers removes duplicate peers, and merges all blocks into one peer with the fewest
// prefixes, sorted, in the place of the first.
func fewestPeers(list []Peer) (out []Peer) {
	seen := map[string]bool{}
	var blocks netipx.IPSetBuilder
	place := -1 // of the blocks in out
	for _, p := range list {
		key := fmt.Sprintf("%q", p.Sets)
		switch {
		case len(p.Blocks) > 0:
			for _, b := range p.Blocks {
				blocks.AddPrefix(b)
			}
			if place < 0 {
				place = len(out)
				out = append(out, p)
			}
		case !seen[key]:
			seen[key] = true
			out = append(out, p)
		}
	}
	if place >= 0 {
		out[place].Blocks = mustSet(&blocks).Prefixes()
	}
	return out
}

// peers compiles `from` or `to`. An empty list means everyone. The result is empty only if there
// are entries, and each was left out or matches nothing.
func (c *compiler) peers(list []networkingv1.NetworkPolicyPeer, at *field.Path) []Peer {
	if len(list) == 0 {
		return []Peer{{}}
	}
	var out []Peer
	for i := range list {
		p, here := &list[i], at.Index(i)
		selects := p.PodSelector != nil || p.NamespaceSelector != nil
		switch {
		case p.IPBlock != nil && selects:
			c.invalid(here, peerLeftOut, "ipBlock stands beside a selector, make two peers of them")
		case p.IPBlock != nil:
			if blocks := c.block(p.IPBlock, here.Child("ipBlock")); len(blocks) > 0 {
				out = append(out, Peer{Blocks: blocks})
			}
		case selects:
			one, ok := c.pods(selectors{p.NamespaceSelector, here.Child("namespaceSelector"), p.PodSelector, here.Child("podSelector")}, peerLeftOut)
			if ok {
				out = append(out, one)
			}
		default:
			c.invalid(here, peerLeftOut, "the peer is empty, give it a podSelector, a namespaceSelector or an ipBlock")
		}
	}
	return fewestPeers(out)
}

// selectors are the selectors of a peer, with their paths. Without a namespace selector the peer
// selects pods of the policy's own namespace.
type selectors struct {
	namespaces   *metav1.LabelSelector
	namespacesAt *field.Path
	pods         *metav1.LabelSelector
	podsAt       *field.Path
}

// pods compiles a peer with selectors into the sets whose common members the selectors match. If a
// selector is malformed it notes that, with the consequence, and reports false.
func (c *compiler) pods(s selectors, consequence string) (out Peer, ok bool) {
	namespace, own := c.namespace, ipsets.Namespace(c.namespace)
	ok = true
	if s.namespaces != nil {
		var sel selector
		sel, ok = c.selector(s.namespaces, s.namespacesAt, consequence)
		namespace, own = "", namespaceSet(sel)
	}
	out.Sets = append(out.Sets, own)
	if s.pods != nil {
		sel, podsOK := c.selector(s.pods, s.podsAt, consequence)
		ok = ok && podsOK
		out.Sets = append(out.Sets, podSets(sel, namespace)...)
	}
	return out, ok
}

// namespaceSet returns the name of the set of namespaces that sel matches.
func namespaceSet(sel selector) ipsets.Name {
	if len(sel) == 0 {
		return ipsets.AllNamespaces()
	}
	if values := sel[0].ValuesUnsorted(); len(sel) == 1 && sel[0].Operator() == selection.Equals {
		return ipsets.NamespaceLabel(sel[0].Key(), values[0])
	}
	return ipsets.NamespaceSelector(sel.text())
}

// podSets returns the names of the sets for a pod selector. Positive terms use sets that all
// selectors share. An AND of sets cannot express "not", so a selector with a negative term has a
// set of its own: of the pods in namespace, or in all namespaces for "".
func podSets(sel selector, namespace string) (out []ipsets.Name) {
	if sel.negative() {
		return []ipsets.Name{ipsets.PodSelector(namespace, sel.text())}
	}
	for i := range sel {
		key, values := sel[i].Key(), sel[i].ValuesUnsorted()
		switch len(values) {
		case 0: // Exists
			out = append(out, ipsets.PodLabelKey(key))
		case 1:
			out = append(out, ipsets.PodLabel(key, values[0]))
		default:
			out = append(out, ipsets.NestedLabel(key, values...))
		}
	}
	return out
}

// block returns the addresses of cidr without the excepts. If a part is malformed or IPv6, it notes
// that and returns none. If the excepts cover the whole cidr, it returns none without a note. Host
// bits are ignored, as in package netip.
func (c *compiler) block(b *networkingv1.IPBlock, at *field.Path) []netip.Prefix {
	cidr, err := netip.ParsePrefix(b.CIDR)
	if err != nil {
		c.invalid(at.Child("cidr"), peerLeftOut, "%q is no CIDR, write it like 10.0.0.0/8", b.CIDR)
		return nil
	}
	if !cidr.Addr().Is4() {
		c.problem(ReasonIPv6Peer, at.Child("cidr"), "%q is of IPv6, which is not programmed, use IPv4; %s", b.CIDR, peerLeftOut)
		return nil
	}
	var set netipx.IPSetBuilder
	set.AddPrefix(cidr)
	for i, text := range b.Except {
		except, err := netip.ParsePrefix(text)
		if err != nil || !inside(except, cidr) {
			c.invalid(at.Child("except").Index(i), peerLeftOut, "%q is no CIDR inside %s, name only a part of it", text, cidr.Masked())
			return nil
		}
		set.RemovePrefix(except)
	}
	return mustSet(&set).Prefixes()
}

// inside reports whether outer contains all of inner. It returns false if they are of different IP
// versions.
func inside(inner, outer netip.Prefix) bool {
	return inner.Bits() >= outer.Bits() && outer.Contains(inner.Addr())
}

// mustSet builds a set. It panics if that fails, which valid prefixes and ranges never cause.
func mustSet(b *netipx.IPSetBuilder) *netipx.IPSet {
	set, err := b.IPSet()
	if err != nil {
		panic(fmt.Sprintf("BUG: ip block: %v", err))
	}
	return set
}
