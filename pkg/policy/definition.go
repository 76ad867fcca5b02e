package policy

import (
	"net/netip"
	"strings"

	"go4.org/netipx"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"

	"github.com/winnpm/winnpm/pkg/ipsets"
)

// Definition returns the definition of a set according to its name. It is the definition that Compile,
// CompileCluster or InBlocks gives for the name or, for a deny twin, for the plain name. It reports
// false for any other name. Named port sets are in no Policy and have no definition here. The permanent
// empty set and the two sets of addresses in doubt have definitions with nothing but the name.
//
// A nested label set of the predecessor may have the same name as a set of WinNPM, and other members.
// It counts as a set of WinNPM if its members are the same.
func Definition(n ipsets.Name) (SetDef, bool) {
	doubt := n.Kind() == ipsets.KindDoubt || n.Kind() == ipsets.KindDoubtAddrs // they have no plain twin
	if n.Denies() && !doubt {
		def, ok := Definition(n.Twin())
		return def.Deny(), ok && n.Kind() != ipsets.KindEmpty
	}
	switch n.Kind() {
	case ipsets.KindDoubt, ipsets.KindDoubtAddrs:
		return SetDef{Name: n}, n == ipsets.Doubt() || n == ipsets.DoubtAddrs()
	case ipsets.KindNamespace, ipsets.KindPodLabel:
		return SetDef{Name: n}, true
	case ipsets.KindEmpty:
		return SetDef{Name: n}, n == ipsets.Empty()
	case ipsets.KindPodSelector:
		return podSelectorDefinition(n)
	case ipsets.KindNestedLabel:
		return nestedLabelDefinition(n)
	case ipsets.KindNamespaceSelector:
		return namespaceDefinition(n)
	case ipsets.KindNodes:
		sel, ok := parseSelector(n.Text())
		return SetDef{Name: n, Nodes: sel.matcher()}, ok && ipsets.Nodes(sel.text()) == n
	case ipsets.KindInBlocks:
		return inBlocksDefinition(n)
	case ipsets.KindNamedPort, ipsets.KindOrphan, ipsets.KindOrphanNested:
	}
	return SetDef{}, false
}

// podSelectorDefinition parses NAMESPACE/SELECTOR.
func podSelectorDefinition(n ipsets.Name) (SetDef, bool) {
	namespace, text, _ := strings.Cut(n.Text(), "/")
	sel, ok := parseSelector(text)
	if !ok || !sel.negative() || ipsets.PodSelector(namespace, sel.text()) != n {
		return SetDef{}, false
	}
	return SetDef{Name: n, Pods: sel.matcher(), Namespace: namespace}, true
}

// nestedLabelDefinition parses KEY:VALUE:VALUE and so on. Neither keys nor values contain a colon.
func nestedLabelDefinition(n ipsets.Name) (SetDef, bool) {
	parts := strings.Split(n.Text(), ":")
	key, values := parts[0], parts[1:]
	if len(values) < 2 || ipsets.NestedLabel(key, values...) != n {
		return SetDef{}, false
	}
	def := SetDef{Name: n}
	for _, v := range values {
		def.Members = append(def.Members, ipsets.PodLabel(key, v))
	}
	return def, true
}

// namespaceDefinition parses all-namespaces, KEY:VALUE or {SELECTOR}.
func namespaceDefinition(n ipsets.Name) (SetDef, bool) {
	var sel selector
	ok := true
	if text, braced := strings.CutPrefix(n.Text(), "{"); braced {
		sel, ok = parseSelector(strings.TrimSuffix(text, "}"))
	} else if n != ipsets.AllNamespaces() {
		key, value, _ := strings.Cut(n.Text(), ":")
		sel, ok = normalize(key, selection.In, []string{value})
	}
	if !ok || namespaceSet(sel) != n {
		return SetDef{}, false
	}
	return SetDef{Name: n, Namespaces: sel.matcher()}, true
}

// InBlocks returns the definition of the set of all known addresses inside blocks, for rules that
// allow. Such sets are in no Policy: pkg/acl decides which are needed.
func InBlocks(blocks []netip.Prefix) SetDef {
	var set netipx.IPSetBuilder
	for _, b := range blocks {
		set.AddPrefix(b)
	}
	fewest := mustSet(&set).Prefixes()
	parts := make([]string, len(fewest))
	for i, b := range fewest {
		parts[i] = b.String()
	}
	return SetDef{Name: ipsets.InBlocks(strings.Join(parts, ",")), Blocks: fewest}
}

// inBlocksDefinition parses BLOCK,BLOCK and so on.
func inBlocksDefinition(n ipsets.Name) (SetDef, bool) {
	var blocks []netip.Prefix
	for text := range strings.SplitSeq(n.Text(), ",") {
		b, err := netip.ParsePrefix(text)
		if err != nil || !b.Addr().Is4() {
			return SetDef{}, false
		}
		blocks = append(blocks, b)
	}
	def := InBlocks(blocks)
	return def, def.Name == n
}

// parseSelector parses the canonical text of a selector. It may report false for other texts.
func parseSelector(text string) (selector, bool) {
	reqs, err := labels.ParseToRequirements(text)
	if err != nil {
		return nil, false
	}
	var out selector
	for i := range reqs {
		op := reqs[i].Operator()
		switch op {
		case selection.Equals:
			op = selection.In
		case selection.NotEquals:
			op = selection.NotIn
		case selection.In, selection.NotIn, selection.Exists, selection.DoesNotExist:
		case selection.DoubleEquals, selection.GreaterThan, selection.LessThan:
			return nil, false // never canonical
		}
		one, ok := normalize(reqs[i].Key(), op, reqs[i].ValuesUnsorted())
		if !ok {
			return nil, false
		}
		out = append(out, one...)
	}
	return sorted(out), true
}

// normalize is requirement without error messages.
func normalize(key string, op selection.Operator, values []string) (selector, bool) {
	req, wrong := requirement(key, op, values)
	return selector{req}, len(wrong) == 0
}
