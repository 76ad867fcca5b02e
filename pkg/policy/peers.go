package policy

import (
	"strings"

	"go4.org/netipx"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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

// peerList collects the peers of one rule, each once. All blocks become one peer, in the
// place of the first.
type peerList struct {
	out    []candidate
	seen   map[string]bool
	blocks netipx.IPSetBuilder
	place  *int // of the blocks in out
}

// add adds a peer with sets; one without any is none.
func (l *peerList) add(p candidate) {
	if key := setsKey(p.peer.Sets); key != "" && !l.seen[key] {
		if l.seen == nil {
			l.seen = map[string]bool{}
		}
		l.seen[key] = true
		l.out = append(l.out, p)
	}
}

// addBlocks adds the addresses of blocks.
func (l *peerList) addBlocks(ranges []netipx.IPRange) {
	if len(ranges) > 0 && l.place == nil {
		l.place = new(len(l.out))
		l.out = append(l.out, candidate{})
	}
	for _, r := range ranges {
		l.blocks.AddRange(r)
	}
}

// peers returns the peers. Their blocks are the fewest prefixes, sorted.
func (l *peerList) peers() []candidate {
	if l.place != nil {
		l.out[*l.place].peer.Blocks = mustSet(&l.blocks).Prefixes()
	}
	return l.out
}

// peers compiles `from` or `to`. No entries mean everyone; the result is empty
// only if there were entries and each was left out or matches nobody.
func (c *compiler) peers(list []networkingv1.NetworkPolicyPeer, at *field.Path) []candidate {
	if len(list) == 0 {
		return []candidate{{}}
	}
	var out peerList
	for i := range list {
		p, here := &list[i], at.Index(i)
		selects := p.PodSelector != nil || p.NamespaceSelector != nil
		switch {
		case p.IPBlock != nil && selects:
			c.invalid(here, peerLeftOut, "ipBlock stands beside a selector, make two peers of them")
		case p.IPBlock != nil:
			out.addBlocks(c.block(p.IPBlock, here.Child("ipBlock")))
		case selects:
			one, ok := c.pods(selectors{p.NamespaceSelector, here.Child("namespaceSelector"), p.PodSelector, here.Child("podSelector")}, peerLeftOut)
			if ok {
				out.add(one)
			}
		default:
			c.invalid(here, peerLeftOut, "the peer is empty, give it a podSelector, a namespaceSelector or an ipBlock")
		}
	}
	return out.peers()
}

func setsKey(names []ipsets.Name) string {
	parts := make([]string, len(names))
	for i, n := range names {
		parts[i] = n.String()
	}
	return strings.Join(parts, "\n")
}

// selectors are those of a peer. Without one for namespaces it is of the policy's own.
type selectors struct {
	namespaces   *metav1.LabelSelector
	namespacesAt *field.Path
	pods         *metav1.LabelSelector
	podsAt       *field.Path
}

// pods compiles a peer that selects pods: the sets that contain exactly those.
// It reports false if a selector is malformed, with that consequence.
func (c *compiler) pods(s selectors, consequence string) (candidate, bool) {
	var out candidate
	ok := true
	namespace := c.namespace
	if s.namespaces == nil {
		out.need(SetDef{Name: ipsets.Namespace(namespace)})
	} else {
		namespace = ""
		var sel selector
		sel, ok = c.selector(s.namespaces, s.namespacesAt, consequence)
		out.need(SetDef{Name: namespaceSet(sel), Namespaces: sel.matcher()})
	}
	if s.pods != nil {
		sel, podsOK := c.selector(s.pods, s.podsAt, consequence)
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
