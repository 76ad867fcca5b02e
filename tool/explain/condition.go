package explain

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"

	"github.com/winnpm/winnpm/pkg/ipsets"
	"github.com/winnpm/winnpm/tool/match"
)

// condition is the condition for being a member of a set, parsed from the set's name.
type condition struct {
	kind ipsets.Kind
	// namespace is the namespace of a namespace set or of a pod selector; empty: all namespaces.
	namespace string
	reqs      []labels.Requirement // on the pod's labels, or for KindNamespaceSelector on its namespace's
	port      string               // name:number/protocol, as in state.PodDump
	block     string               // restricts a named port to these blocks; empty: no restriction
}

// conditionOf parses the name of a set. It returns false if the name has another format.
func conditionOf(n ipsets.Name) (c condition, ok bool) {
	c.kind, ok = n.Kind(), true
	text := n.Text()
	switch n.Kind() {
	case ipsets.KindNamespace:
		c.namespace = text
	case ipsets.KindPodSelector:
		if c.namespace, text, ok = strings.Cut(text, "/"); ok {
			c.reqs, ok = requirements(text)
		}
	case ipsets.KindNamespaceSelector:
		if text != ipsets.AllNamespaces().Text() { // or its deny twin
			c.reqs, ok = requirements(strings.TrimSuffix(strings.TrimPrefix(text, "{"), "}"))
		}
	case ipsets.KindPodLabel, ipsets.KindNestedLabel, ipsets.KindNodes:
		c.reqs, ok = requirements(text)
	case ipsets.KindNamedPort: // NAME:PROTOCOL:NUMBER with an optional @BLOCK
		text, c.block, _ = strings.Cut(text, "@")
		parts := strings.Split(text, ":")
		if ok = len(parts) == 3; ok {
			c.port = fmt.Sprintf("%s:%s/%s", parts[0], parts[2], parts[1])
		}
	case ipsets.KindInBlocks:
		c.block = text
	default:
	}
	return c, ok
}

// requirements parses a selector, or KEY:VALUE, KEY:VALUE:VALUE and so on.
func requirements(text string) ([]labels.Requirement, bool) {
	key, values, some := strings.Cut(text, ":")
	if !some {
		reqs, err := labels.ParseToRequirements(text)
		return reqs, err == nil
	}
	r, err := labels.NewRequirement(key, selection.In, strings.Split(values, ":"))
	if err != nil {
		return nil, false
	}
	return []labels.Requirement{*r}, true
}

// isMember reports whether an end meets the condition of a set, and why. It returns maybe if the dump does
// not say.
func (c *Cluster) isMember(cond condition, e End) (truth, string) {
	switch {
	case cond.kind == ipsets.KindInBlocks:
		return inBlocks(e.addr, cond.block), fmt.Sprintf("the address is %s", e.addr)
	case cond.kind == ipsets.KindNodes:
		return c.isNode(cond.reqs, e.addr)
	case cond.kind == ipsets.KindDoubt && e.unclear():
		return yes, fmt.Sprintf("the sets that contain %s are not known", e.pod.Pod)
	case cond.kind == ipsets.KindDoubt:
		return no, "the sets that contain the address are known"
	case e.pod == nil:
		return no, e.Name + " is no pod that sets have"
	case e.pod.OverBudget != "":
		return no, fmt.Sprintf("%s is in no set: it has %s", e.pod.Pod, e.pod.OverBudget)
	}
	namespace := namespaceOf(e.pod.Pod)
	switch cond.kind {
	case ipsets.KindNamespaceSelector:
		switch {
		case !e.namespace.known:
			return no, fmt.Sprintf("there is no Namespace object %s, or it is over its budget, so no namespaceSelector matches", namespace)
		case len(cond.reqs) == 0:
			return yes, fmt.Sprintf("every pod of every namespace is, and %s is one", e.pod.Pod)
		default:
			return facts("namespace "+namespace, e.namespace.labels, cond.reqs)
		}
	case ipsets.KindNamespace:
		return truthOf(namespace == cond.namespace), fmt.Sprintf("%s is in namespace %s", e.pod.Pod, namespace)
	case ipsets.KindPodLabel, ipsets.KindNestedLabel, ipsets.KindPodSelector:
		if cond.namespace != "" && cond.namespace != namespace {
			return no, fmt.Sprintf("%s is in namespace %s", e.pod.Pod, namespace)
		}
		return facts(e.pod.Pod, e.pod.Labels, cond.reqs)
	case ipsets.KindNamedPort:
		return isPortMember(cond, e)
	default:
		return maybe, ""
	}
}

// ofAddress reports whether the condition is about an address, which need not be a pod's.
func (c condition) ofAddress() bool {
	return c.kind == ipsets.KindInBlocks || c.kind == ipsets.KindNodes || c.kind == ipsets.KindDoubt
}

// isNode is isMember for sets of nodes.
func (c *Cluster) isNode(reqs []labels.Requirement, addr netip.Addr) (is truth, why string) {
	for _, n := range c.dump.Nodes {
		switch {
		case !slices.Contains(n.Addrs, addr):
		case n.OverBudget != "":
			return maybe, ""
		default:
			if is, why = facts("node "+n.Name, n.Labels, reqs); is == yes {
				return yes, fmt.Sprintf("%s is node %s", addr, n.Name)
			}
		}
	}
	return no, cmp.Or(why, fmt.Sprintf("%s is no node", addr))
}

// isPortMember is isMember for named ports. It returns maybe if the set's name has a truncated block.
func isPortMember(cond condition, e End) (truth, string) {
	name, _, _ := strings.Cut(cond.port, ":")
	var serves []string
	for _, port := range e.pod.Ports {
		if number, ok := strings.CutPrefix(port, name+":"); ok {
			serves = append(serves, number)
		}
	}
	why := fmt.Sprintf("%s names no port %s", e.pod.Pod, name)
	if len(serves) > 0 {
		why = fmt.Sprintf("%s names %s as %s", e.pod.Pod, list(serves, "and"), name)
	}
	is := truthOf(slices.Contains(e.pod.Ports, cond.port))
	if is == no || cond.block == "" {
		return is, why
	}
	inside := inBlocks(e.addr, cond.block)
	if inside == no {
		why = fmt.Sprintf("%s has %s, which is not in %s", e.pod.Pod, e.addr, cond.block)
	}
	return inside, why
}

// inBlocks reports whether one of the comma-separated blocks contains an address. It returns maybe if the
// text is not a list of blocks.
func inBlocks(addr netip.Addr, blocks string) truth {
	for text := range strings.SplitSeq(blocks, ",") {
		sp, ok := match.ParseSpan(text)
		if !ok {
			return maybe
		}
		if (match.Spans{sp}).Contain(addr) {
			return yes
		}
	}
	return no
}

// facts reports whether labels meet all requirements, and describes the labels that the failing
// requirements are about, or all requirements if none fails.
func facts(subject string, set map[string]string, reqs []labels.Requirement) (truth, string) {
	var holding, failing []string
	for _, r := range reqs {
		fact := subject + " has no label " + r.Key()
		if value, ok := set[r.Key()]; ok {
			fact = fmt.Sprintf("%s has %s=%s", subject, r.Key(), value)
		}
		if r.Matches(labels.Set(set)) {
			holding = append(holding, fact)
		} else {
			failing = append(failing, fact)
		}
	}
	if len(failing) > 0 {
		return no, list(failing, "and")
	}
	return yes, list(holding, "and")
}
