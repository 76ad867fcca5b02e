package policy

import (
	"strings"

	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/winnpm/winnpm/pkg/ipsets"
)

// peerLeftOut is what becomes of a malformed peer.
const peerLeftOut = "the peer is left out"

// candidate is a peer with the definitions of the sets that it needs.
type candidate struct {
	peer Peer
	defs []SetDef
}

// peers compiles `from` or `to`. No entries mean everyone; the result is empty
// only if there were entries and each was left out or matches nobody. The
// blocks of all entries become one peer, in the place of the first.
func (c *compiler) peers(list []networkingv1.NetworkPolicyPeer, at *field.Path) []candidate {
	if len(list) == 0 {
		return []candidate{{}}
	}
	var out []candidate
	var blocks blockUnion
	seen := map[string]bool{}
	for i := range list {
		p, here := &list[i], at.Index(i)
		selects := p.PodSelector != nil || p.NamespaceSelector != nil
		switch {
		case p.IPBlock != nil && selects:
			c.invalid(here, peerLeftOut, "ipBlock stands beside a selector, make two peers of them")
		case p.IPBlock != nil:
			ranges := c.block(p.IPBlock, here.Child("ipBlock"))
			if len(ranges) > 0 && blocks.add(ranges) {
				blocks.place = len(out)
				out = append(out, candidate{})
			}
		case selects:
			one, ok := c.pods(p, here)
			if key := setsKey(one.peer.Sets); ok && !seen[key] {
				seen[key] = true
				out = append(out, one)
			}
		default:
			c.invalid(here, peerLeftOut, "the peer is empty, give it a podSelector, a namespaceSelector or an ipBlock")
		}
	}
	if blocks.some {
		out[blocks.place].peer.Blocks = blocks.prefixes()
	}
	return out
}

func setsKey(names []ipsets.Name) string {
	parts := make([]string, len(names))
	for i, n := range names {
		parts[i] = n.String()
	}
	return strings.Join(parts, "\n")
}

// pods compiles a peer that selects pods: the sets that contain exactly those.
// It reports false if a selector is malformed.
func (c *compiler) pods(p *networkingv1.NetworkPolicyPeer, at *field.Path) (candidate, bool) {
	var out candidate
	ok := true
	namespace := c.namespace
	if p.NamespaceSelector == nil {
		out.need(SetDef{Name: ipsets.Namespace(namespace)})
	} else {
		namespace = ""
		var sel selector
		sel, ok = c.selector(p.NamespaceSelector, at.Child("namespaceSelector"), peerLeftOut)
		out.need(SetDef{Name: namespaceSet(sel), Namespaces: sel.matcher()})
	}
	if p.PodSelector != nil {
		sel, podsOK := c.selector(p.PodSelector, at.Child("podSelector"), peerLeftOut)
		ok = ok && podsOK
		out.needPods(sel, namespace)
	}
	return out, ok
}

// namespaceSet names the set of the namespaces that sel matches.
func namespaceSet(sel selector) ipsets.Name {
	if len(sel) == 0 {
		return ipsets.AllNamespaces()
	}
	if values := sel[0].ValuesUnsorted(); len(sel) == 1 && sel[0].Operator() == selection.Equals {
		return ipsets.NamespaceLabel(sel[0].Key(), values[0])
	}
	return ipsets.NamespaceSelector(sel.text())
}

// needPods adds the sets of a pod selector. Positive terms use the sets that
// all selectors share. No AND of sets says "not", so a selector with a negative
// term has a set of its own: of the pods in namespace, or with "" in all.
func (p *candidate) needPods(sel selector, namespace string) {
	if sel.negative() {
		p.need(SetDef{
			Name:      ipsets.PodSelector(namespace, sel.text()),
			Pods:      sel.matcher(),
			Namespace: namespace,
		})
		return
	}
	for i := range sel {
		key, values := sel[i].Key(), sel[i].ValuesUnsorted()
		switch len(values) {
		case 0: // Exists
			p.need(SetDef{Name: ipsets.PodLabelKey(key)})
		case 1:
			p.need(SetDef{Name: ipsets.PodLabel(key, values[0])})
		default:
			members := make([]ipsets.Name, len(values))
			for j, v := range values {
				members[j] = ipsets.PodLabel(key, v)
				p.defs = append(p.defs, SetDef{Name: members[j]})
			}
			p.need(SetDef{Name: ipsets.NestedLabel(key, values...), Members: members})
		}
	}
}

// need lets the peer be in the defined set.
func (p *candidate) need(def SetDef) {
	p.peer.Sets = append(p.peer.Sets, def.Name)
	p.defs = append(p.defs, def)
}
