package explain

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/pkg/ipsets"
	"github.com/winnpm/winnpm/pkg/policy"
	"github.com/winnpm/winnpm/pkg/state"
)

// misses returns the single changes after which a rule of a NetworkPolicy would allow the connection at the
// end own. It does not search for changes that affect ClusterNetworkPolicies only.
func (c *Cluster) misses(own, peer End, q question, places Places) []Miss {
	out := []Miss{}
	if own.pod.OverBudget != "" {
		return out // it stays closed whatever policies say
	}
	for i := range c.dump.Policies {
		p := &c.dump.Policies[i]
		if namespaceOf(p.Policy) != namespaceOf(own.pod.Pod) || p.Spec == nil || c.deniesAll(p.Policy) {
			continue
		}
		subject, err := metav1.LabelSelectorAsSelector(&p.Spec.PodSelector)
		if err != nil {
			continue // it has no rules
		}
		np := networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: namespaceOf(p.Policy)}, Spec: *p.Spec}
		for _, r := range policy.Compile(&np).Rules {
			if (r.Direction == policy.Ingress) != (q.dir == hns.In) {
				continue
			}
			path := rulePath(q.dir, r.Index)
			for _, from := range r.Peers {
				for _, m := range (attempt{c, own, peer, q, subject, from, r.Ports}).misses() {
					m.Policy, m.Path, m.Line = p.Policy, path, places[p.Policy+" "+path]
					out = append(out, m)
				}
			}
		}
	}
	// The likeliest first: a label with a wrong value is a likelier mistake than a missing label, and a
	// policy that selects the pod is likelier to be the intended one.
	slices.SortStableFunc(out, func(a, b Miss) int {
		return cmp.Or(cmp.Compare(a.distance, b.distance), cmp.Compare(slices.Index(kindOrder, a.Kind), slices.Index(kindOrder, b.Kind)),
			cmp.Compare(a.Words, b.Words), cmp.Compare(a.Policy, b.Policy), cmp.Compare(a.Path, b.Path))
	})
	return slices.CompactFunc(out, func(a, b Miss) bool { return a.Words == b.Words })
}

// deniesAll reports whether a NetworkPolicy allows nothing on some pods because it is over its budget or
// HNS rejects it.
func (c *Cluster) deniesAll(name string) bool {
	return slices.ContainsFunc(c.dump.Warnings, func(w state.Warning) bool {
		return (w.Reason == state.ReasonOverBudget || w.Reason == state.ReasonHNSRejected) && w.Kind == "NetworkPolicy" && w.Object == name
	})
}

// kindOrder orders the kinds of changes, the likeliest first.
var kindOrder = []Kind{PodLabel, NamespaceLabel, PortNumber, PortName, SubjectLabel, OtherNamespace, Address}

// attempt compares a connection with one peer of one rule of a NetworkPolicy.
type attempt struct {
	c         *Cluster
	own, peer End
	q         question
	subject   labels.Selector // the policy's podSelector
	from      policy.Peer
	ports     []policy.Port
}

// allows reports whether the policy selects the pod and the rule allows the connection.
func (t attempt) allows() bool {
	return t.subject.Matches(labels.Set(t.own.pod.Labels)) &&
		anyPort(t.ports, destination(t.own, t.peer, t.q), t.q.packet) && t.c.isPeer(t.from, t.peer, false) == yes
}

// misses returns the single changes after which the rule allows the connection; none if it allows it
// already.
func (t attempt) misses() []Miss {
	if t.allows() {
		return nil
	}
	reqs, _ := t.subject.Requirements()
	out := t.labelMisses(Miss{Kind: SubjectLabel, Object: t.own.pod.Pod, Words: "pod " + t.own.pod.Pod}, t.own.pod.Labels, reqs)
	out = append(out, t.portMisses()...)
	out = append(out, t.peerMisses()...)
	return slices.DeleteFunc(out, func(m Miss) bool { return !t.helps(m) })
}

// helps reports whether the connection is allowed after a change: the rule allows it, no rule of another
// program blocks it, and NetworkPolicies decide it, rather than ClusterNetworkPolicies. For a pod that
// ClusterNetworkPolicies select it returns false for changes other than of a label or a port number.
func (t attempt) helps(m Miss) bool {
	applies := func(r tierRule) bool { return r.appliesTo(t.own, t.q.dir) }
	if slices.Contains([]Kind{PortName, OtherNamespace, Address}, m.Kind) && slices.ContainsFunc(t.c.tierRules, applies) {
		return false
	}
	return !slices.ContainsFunc(t.after(m), func(a attempt) bool {
		return !a.allows() || !a.c.evaluateTiers(a.own, a.peer, a.q, true).namespaced || a.foreignBlock()
	})
}

// foreignBlock reports whether a rule of another program blocks the connection.
func (t attempt) foreignBlock() bool {
	return slices.ContainsFunc(t.c.desired(t.own, t.q).traced.Matched, func(r hns.ACL) bool { return !r.Ours() && r.Action == hns.Block })
}

// after returns the attempt as it is after a change: for PortNumber one for the first and one for the last
// port of each range. For Address, PortName and PortNumber it drops the condition that the
// change satisfies.
func (t attempt) after(m Miss) (out []attempt) {
	switch m.Kind {
	case PodLabel, SubjectLabel, NamespaceLabel:
		t.own, t.peer = m.relabel(t.own), m.relabel(t.peer)
	case OtherNamespace:
		pod := *t.peer.pod
		pod.Pod = m.Object + "/"
		t.peer.pod, t.peer.namespace = &pod, t.c.namespaces[m.Object]
	case Address:
		t.from.Blocks = nil
	case PortName:
		t.ports = nil
	case PortNumber:
		t.ports = nil
		for _, p := range m.Ports {
			for _, number := range []uint16{max(p.First, 1), max(p.Last, 1)} { // 0 means every port
				t.q.packet.Protocol, t.q.packet.DstPort = protocolNumbers[p.Protocol], number
				out = append(out, t)
			}
		}
		return out
	}
	return []attempt{t}
}

// relabel returns an end after a change of a label.
func (m Miss) relabel(e End) End {
	if e.pod == nil {
		return e
	}
	pod := *e.pod
	set := &pod.Labels
	switch {
	case m.Kind == NamespaceLabel && m.Object == namespaceOf(pod.Pod):
		set = &e.namespace.labels
	case m.Kind == NamespaceLabel || m.Object != pod.Pod:
		return e
	}
	changed := map[string]string{}
	maps.Copy(changed, *set)
	changed[m.Key] = m.Value
	if m.Remove {
		delete(changed, m.Key)
	}
	*set, e.pod = changed, &pod
	return e
}

// portMisses returns a Miss with the ports that the rule allows. It resolves named ports at the
// destination. If the rule has only named ports and the destination has none of them, the change is to name
// a container port.
func (t attempt) portMisses() []Miss {
	pod := destination(t.own, t.peer, t.q)
	var numbers []policy.Port
	var texts, unnamed []string
	for _, p := range t.ports {
		if p.Name == "" {
			numbers, texts = append(numbers, p), append(texts, portText(p))
			continue
		}
		if pod == nil {
			continue
		}
		n := len(numbers)
		for _, text := range pod.Ports {
			name, rest, _ := strings.Cut(text, ":")
			number, protocol, err := ParsePort(rest)
			if err == nil && name == p.Name && protocol == p.Protocol && !slices.Contains(numbers, policy.Port{Protocol: protocol, First: number, Last: number}) {
				numbers = append(numbers, policy.Port{Protocol: protocol, First: number, Last: number})
				texts = append(texts, fmt.Sprintf("%s, which %s names %s", rest, pod.Pod, name))
			}
		}
		if len(numbers) == n && protocolNumbers[p.Protocol] == t.q.packet.Protocol {
			unnamed = append(unnamed, portText(p))
		}
	}
	switch {
	case len(numbers) > 0:
		return []Miss{{Kind: PortNumber, Ports: numbers, Words: "a connection to " + list(texts, "or")}}
	case len(unnamed) > 0:
		return []Miss{{Kind: PortName, distance: 1, Object: pod.Pod, Words: fmt.Sprintf("%s with a container port named %s", pod.Pod, list(unnamed, "or"))}}
	}
	return nil
}

// peerMisses returns the changes of the other end: its address if it is not a pod, else the pod's labels,
// its namespace, or the namespace's labels.
func (t attempt) peerMisses() []Miss {
	pod := t.peer.pod
	switch {
	case pod == nil && len(t.from.Blocks) > 0:
		texts := make([]string, len(t.from.Blocks))
		for i, b := range t.from.Blocks {
			texts[i] = b.String()
		}
		return []Miss{{
			Kind: Address, distance: 1, Object: t.peer.addr.String(),
			Words: fmt.Sprintf("an address in %s instead of %s", shorten(strings.Join(texts, ",")), t.peer.addr),
		}}
	case pod == nil || pod.OverBudget != "":
		return nil // a change cannot make it a pod, or add it to a set
	}
	namespace := namespaceOf(pod.Pod)
	var out []Miss
	var onPod []labels.Requirement
	for _, name := range t.from.Sets {
		cond, _ := conditionOf(name)
		switch {
		case cond.kind != ipsets.KindNamespaceSelector:
			onPod = append(onPod, cond.reqs...)
		case t.peer.namespace.known:
			out = append(out, t.labelMisses(Miss{Kind: NamespaceLabel, Object: namespace, Words: "namespace " + namespace}, t.peer.namespace.labels, cond.reqs)...)
		}
		if cond.namespace != "" && cond.namespace != namespace {
			out = append(out, Miss{
				Kind: OtherNamespace, distance: 1, Object: cond.namespace,
				Words: fmt.Sprintf("%s in namespace %s instead of %s: the rule has no namespaceSelector, so it means its own", pod.Pod, cond.namespace, namespace),
			})
		}
	}
	return append(out, t.labelMisses(Miss{Kind: PodLabel, Object: pod.Pod, Words: "pod " + pod.Pod}, pod.Labels, onPod)...)
}

// labelMisses returns the changes of one label of m.Object after which the rule allows the connection. For
// each failing requirement it tries the values that the requirements name, then removing the label, and if
// none of these helps, another value. m.Words names the object.
func (t attempt) labelMisses(m Miss, set map[string]string, reqs []labels.Requirement) (out []Miss) {
	object := m.Words
	for _, r := range reqs {
		// The API server sets the name of a namespace itself.
		if m.Key = r.Key(); r.Matches(labels.Set(set)) || m.Kind == NamespaceLabel && m.Key == corev1.LabelMetadataName {
			continue
		}
		has, distance, then := "no label "+m.Key, 1, ""
		if value, ok := set[m.Key]; ok {
			has, distance = m.Key+"="+value, 0
		}
		if m.Kind == SubjectLabel {
			distance, then = 2, ", so that the policy selects it"
		}
		before := len(out)
		try := func(label string) {
			if t.helps(m) {
				m.Words = fmt.Sprintf("%s %s (it has %s)%s", object, label, has, then)
				out = append(out, m)
			}
		}
		named := valuesOf(m.Key, reqs)
		m.distance = distance
		for _, m.Value = range named {
			try(fmt.Sprintf("with label %s=%s", m.Key, m.Value))
		}
		m.Value, m.Remove, m.distance = "", true, max(distance, 1)
		try("without label " + m.Key)
		m.Remove, m.distance = false, distance
		for i := range named { // in the text below they are the excluded values
			named[i] = strconv.Quote(named[i])
		}
		other := strings.TrimSuffix(fmt.Sprintf("with label %s of any value but %s", m.Key, list(named, "and")), " but ")
		// These are more values than the requirements exclude, so at least one is accepted.
		for n := 0; n <= len(named) && len(out) == before; n++ {
			m.Value = strings.Repeat("x", n)
			try(other)
		}
	}
	return out
}

// valuesOf returns the values that requirements name for a label, sorted.
func valuesOf(key string, reqs []labels.Requirement) (out []string) {
	for _, r := range reqs {
		if r.Key() == key {
			out = append(out, r.ValuesUnsorted()...)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}
