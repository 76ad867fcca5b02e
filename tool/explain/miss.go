package explain

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"

	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/pkg/ipsets"
	"github.com/winnpm/winnpm/pkg/policy"
	"github.com/winnpm/winnpm/pkg/state"
)

// misses returns the single changes with which a rule of a NetworkPolicy would allow the
// connection at its end own. Changes that only let a ClusterNetworkPolicy decide otherwise are not
// looked for.
func (c *Cluster) misses(own, peer End, q question, places Places) []Miss {
	namespace, _, _ := strings.Cut(own.pod.Pod, "/")
	out := []Miss{}
	if own.pod.OverBudget != "" {
		return out // no policy helps
	}
	tiers := len(c.tierRules(own.pod, q.dir)) > 0
	for i := range c.dump.Policies {
		p := &c.dump.Policies[i]
		ns, name, _ := strings.Cut(p.Policy, "/")
		if ns != namespace || p.Spec == nil || tiers && c.overBudget(p.Policy) {
			continue
		}
		compiled := policy.Compile(&networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name}, Spec: *p.Spec})
		s := seeker{c: c, own: own, peer: peer, q: q, subject: &p.Spec.PodSelector, selects: compiled.Subject.Matches(own.pod.Labels)}
		for _, r := range compiled.Rules {
			if (r.Direction == policy.Ingress) != (q.dir == hns.In) {
				continue
			}
			path := rulePath(q.dir, r.Index)
			for _, m := range s.rule(r) {
				if !c.leftToPolicies(own, peer, q, m) {
					continue
				}
				m.Policy, m.Path, m.Line = p.Policy, path, places.Rule(p.Policy, path)
				out = append(out, m)
			}
		}
	}
	slices.SortStableFunc(out, compareMisses)
	return slices.CompactFunc(out, func(a, b Miss) bool { return a.Words == b.Words })
}

// kindOrder orders the kinds of changes by how likely the user intended them.
var kindOrder = []Kind{PodLabel, NamespaceLabel, PortNumber, PortName, SubjectLabel, OtherNamespace, Address}

// compareMisses puts the likeliest first: a label that is there with another
// value is likelier wrong than one that is missing, and a policy that selects
// the pod is likelier meant than another.
func compareMisses(a, b Miss) int {
	far := func(m Miss) int {
		switch {
		case m.Kind == SubjectLabel:
			return 2
		case m.near || m.Kind == PortNumber:
			return 0
		}
		return 1
	}
	return cmp.Or(cmp.Compare(far(a), far(b)),
		cmp.Compare(slices.Index(kindOrder, a.Kind), slices.Index(kindOrder, b.Kind)),
		cmp.Compare(a.Words, b.Words), cmp.Compare(a.Policy, b.Policy), cmp.Compare(a.Path, b.Path))
}

// seeker looks for what a policy's rules lack.
type seeker struct {
	c         *Cluster
	own, peer End
	q         question
	subject   *metav1.LabelSelector
	selects   bool
}

// rule returns the changes that make a rule allow the packet: none when it does,
// or when more than one thing is in the way.
func (s seeker) rule(r policy.Rule) []Miss {
	found := s.inTheWay(r)
	if len(found) != 1 {
		return nil
	}
	return found[0]
}

// inTheWay returns a list of changes for each thing that keeps a rule from allowing the
// packet; an empty one for what cannot be changed.
func (s seeker) inTheWay(r policy.Rule) (found [][]Miss) {
	if !s.selects {
		found = append(found, s.subjectMisses())
	}
	if !anyPort(r.Ports, s.destination(), s.q.packet) {
		found = append(found, s.portMiss(r.Ports))
	}
	if len(r.Peer.Blocks) > 0 && !slices.ContainsFunc(r.Peer.Blocks, func(b netip.Prefix) bool { return b.Contains(s.peer.addr) }) {
		found = append(found, s.blockMiss(r.Peer.Blocks))
	}
	return append(found, s.setMisses(r.Peer.Sets)...)
}

// anyPort reports whether one of the ports is the packet's, whose destination is a pod,
// or none. No ports are every port.
func anyPort(ports []policy.Port, pod *state.Pod, packet hns.Packet) bool {
	return len(ports) == 0 || slices.ContainsFunc(ports, func(p policy.Port) bool {
		if protocolNumbers[p.Protocol] != packet.Protocol {
			return false
		}
		port := packet.DstPort
		if p.Name != "" {
			return pod != nil && slices.Contains(pod.Ports, fmt.Sprintf("%s:%d/%s", p.Name, port, p.Protocol))
		}
		return p.First == 0 || p.First <= port && port <= p.Last
	})
}

// destination is the pod that is connected to; nil when it is none.
func (s seeker) destination() *state.Pod {
	if s.q.dir == hns.In {
		return s.own.pod
	}
	return s.peer.pod
}

// portMiss returns the ports that the rule allows. A named port is the number that the
// destination gives it. When the rule has only names, and the destination none of them, the
// change is to name a port.
func (s seeker) portMiss(ports []policy.Port) []Miss {
	var numbers []policy.Port
	var texts, unnamed []string
	for _, p := range ports {
		if p.Name == "" {
			numbers, texts = append(numbers, p), append(texts, portText(p))
			continue
		}
		pod := s.destination()
		if pod == nil {
			continue
		}
		found := false
		for _, text := range pod.Ports {
			name, rest, _ := strings.Cut(text, ":")
			number, protocol, err := ParsePort(rest)
			if err == nil && name == p.Name && protocol == p.Protocol {
				found = true
				numbers = append(numbers, policy.Port{Protocol: protocol, First: number, Last: number})
				texts = append(texts, fmt.Sprintf("%s, which %s names %s", rest, pod.Pod, name))
			}
		}
		if !found {
			unnamed = append(unnamed, portText(p))
		}
	}
	if len(numbers) > 0 {
		return []Miss{{Kind: PortNumber, Ports: numbers, Words: "a connection to " + list(texts, "or")}}
	}
	if len(unnamed) == 0 {
		return nil
	}
	return []Miss{{
		Kind: PortName, Object: s.destination().Pod,
		Words: fmt.Sprintf("%s with a container port named %s", s.destination().Pod, list(unnamed, "or")),
	}}
}

// blockMiss returns the addresses that the rule is for; nothing for a pod, which cannot
// choose its address.
func (s seeker) blockMiss(blocks []netip.Prefix) []Miss {
	if s.peer.pod != nil {
		return nil
	}
	texts := make([]string, len(blocks))
	for i, b := range blocks {
		texts[i] = b.String()
	}
	return []Miss{{
		Kind: Address, Object: s.peer.addr.String(),
		Words: fmt.Sprintf("an address in %s instead of %s", shorten(strings.Join(texts, ",")), s.peer.addr),
	}}
}

// setMisses returns a list for the labels of the pod, one for those of its
// namespace, and one for the namespace that it is in, as far as they fail.
func (s seeker) setMisses(sets []ipsets.Name) [][]Miss {
	var found [][]Miss
	if len(sets) == 0 {
		return nil
	}
	if s.peer.pod == nil || s.peer.pod.OverBudget != "" {
		return [][]Miss{nil} // no change makes a pod of it, or no single one puts it into a set
	}
	namespace, _, _ := strings.Cut(s.peer.pod.Pod, "/")
	var onPod []labels.Requirement
	for _, name := range sets {
		cond, ok := conditionOf(name.String(), name.Nested())
		if !ok {
			return [][]Miss{nil, nil}
		}
		switch {
		case cond.onNamespace():
			set, exists := s.c.namespaces[namespace]
			if !exists {
				found = append(found, nil)
			} else if !matchesAll(cond.reqs, set) {
				found = append(found, labelMisses(NamespaceLabel, "namespace "+namespace, namespace, set, cond.reqs))
			}
		case cond.namespace != "" && cond.namespace != namespace:
			found = append(found, []Miss{{
				Kind: OtherNamespace, Object: cond.namespace,
				Words: fmt.Sprintf("%s in namespace %s instead of %s: the rule has no namespaceSelector, so it means its own", s.peer.pod.Pod, cond.namespace, namespace),
			}})
			onPod = append(onPod, cond.reqs...)
		default:
			onPod = append(onPod, cond.reqs...)
		}
	}
	if !matchesAll(onPod, s.peer.pod.Labels) {
		found = append(found, labelMisses(PodLabel, "pod "+s.peer.pod.Pod, s.peer.pod.Pod, s.peer.pod.Labels, onPod))
	}
	// A pod selector names its namespace beside the namespace set: one thing.
	return slices.CompactFunc(found, func(a, b []Miss) bool {
		return len(a) == 1 && len(b) == 1 && a[0].Kind == OtherNamespace && a[0].Words == b[0].Words
	})
}

// subjectMisses are the labels with which the policy would select the own pod.
func (s seeker) subjectMisses() []Miss {
	sel, err := metav1.LabelSelectorAsSelector(s.subject)
	if err != nil {
		return nil
	}
	reqs, _ := sel.Requirements()
	return labelMisses(SubjectLabel, "pod "+s.own.pod.Pod, s.own.pod.Pod, s.own.pod.Labels, reqs)
}

func matchesAll(reqs []labels.Requirement, set map[string]string) bool {
	return !slices.ContainsFunc(reqs, func(r labels.Requirement) bool { return !r.Matches(labels.Set(set)) })
}

// fixed reports whether the API server sets a label itself: the name of a namespace.
func fixed(kind Kind, key string) bool {
	return kind == NamespaceLabel && key == corev1.LabelMetadataName
}

// labelMisses returns the changes of one label with which all requirements hold.
func labelMisses(kind Kind, what, object string, set map[string]string, reqs []labels.Requirement) []Miss {
	out := []Miss{}
	for _, r := range reqs {
		key := r.Key()
		if fixed(kind, key) && !r.Matches(labels.Set(set)) {
			return []Miss{}
		}
		if r.Matches(labels.Set(set)) || slices.ContainsFunc(out, func(m Miss) bool { return m.Key == key }) {
			continue
		}
		have, near := "no label "+key, false
		if was, ok := set[key]; ok {
			have, near = key+"="+was, true
		}
		for _, c := range labelChanges(key, set, reqs) {
			words := fmt.Sprintf("%s with label %s (it has %s)", what, c.words, have)
			if c.remove {
				words = fmt.Sprintf("%s without label %s (it has %s)", what, key, have)
			}
			if kind == SubjectLabel {
				words += ", so that the policy selects it"
			}
			out = append(out, Miss{
				Kind: kind, Object: object, Key: key, Value: c.value, Remove: c.remove, Words: words, near: near && !c.remove,
			})
		}
	}
	return out
}

// labelChange is one change of a label.
type labelChange struct {
	value  string
	remove bool
	words  string // the label in words
}

// labelChanges returns the changes of the label key with which all requirements
// hold: the values that are asked for, to be without it, or when none of these
// does, another value.
func labelChanges(key string, set map[string]string, reqs []labels.Requirement) []labelChange {
	var asked, refused []string
	for _, r := range reqs {
		switch op := r.Operator(); {
		case r.Key() != key:
		case op == selection.In || op == selection.Equals || op == selection.DoubleEquals:
			asked = append(asked, r.ValuesUnsorted()...)
		default:
			refused = append(refused, r.ValuesUnsorted()...)
		}
	}
	var out []labelChange
	try := func(c labelChange) {
		changed := map[string]string{}
		maps.Copy(changed, set)
		changed[key] = c.value
		if c.remove {
			delete(changed, key)
		}
		if matchesAll(reqs, changed) {
			out = append(out, c)
		}
	}
	slices.Sort(asked)
	for _, v := range slices.Compact(asked) {
		try(labelChange{value: v, words: key + "=" + v})
	}
	try(labelChange{remove: true})
	if len(out) > 0 {
		return out
	}
	slices.Sort(refused)
	refused = slices.Compact(refused)
	words := key + " of any value"
	if len(refused) > 0 {
		quoted := make([]string, len(refused))
		for i, v := range refused {
			quoted[i] = strconv.Quote(v)
		}
		words += " but " + list(quoted, "and")
	}
	// More values than the requirements refuse: at least one of them is accepted.
	for n := 0; n <= len(refused) && len(out) == 0; n++ {
		try(labelChange{value: strings.Repeat("x", n), words: words})
	}
	return out
}
