package explain

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/pkg/policy"
	"github.com/winnpm/winnpm/pkg/state"
)

// Where tiers are about a pod, a change that makes one rule match may make another one
// match before it. So each change is tried: what would all tiers say then?

// maxTries bounds the changes that are tried for one end.
const maxTries = 512

// supposed is two ends as they would be after a change.
type supposed struct {
	c         *Cluster
	own, peer End
	q         question
	policies  []tenantPolicy // of the own pod's namespace
}

// tenantPolicy is a NetworkPolicy with its meaning.
type tenantPolicy struct {
	name    string
	subject *metav1.LabelSelector
	policy.Compiled
}

// tierMisses returns the single changes with which the tiers would allow the connection
// at its end own.
func (c *Cluster) tierMisses(own, peer End, q question, places Places) []Miss {
	now := supposed{c: c, own: own, peer: peer, q: q, policies: c.tenantPolicies(own.pod)}
	out := []Miss{}
	tries := 0
	for m := range now.candidates() {
		if tries++; tries > maxTries {
			break
		}
		if by, path, ok := now.with(m).allowed(); ok {
			m.Policy, m.Path, m.Line = by, path, places.Rule(by, path)
			out = append(out, m)
		}
	}
	slices.SortStableFunc(out, compareMisses)
	return slices.CompactFunc(out, func(a, b Miss) bool { return a.Words == b.Words })
}

func (c *Cluster) tenantPolicies(pod *state.Pod) (out []tenantPolicy) {
	namespace, _, _ := strings.Cut(pod.Pod, "/")
	for i := range c.dump.Policies {
		p := &c.dump.Policies[i]
		ns, name, _ := strings.Cut(p.Policy, "/")
		if ns == namespace && p.Spec != nil {
			compiled := policy.Compile(&networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name}, Spec: *p.Spec})
			if c.overBudget(p.Policy) {
				compiled.Rules = nil // it isolates, and allows nothing on some pods
			}
			out = append(out, tenantPolicy{p.Policy, &p.Spec.PodSelector, compiled})
		}
	}
	return out
}

// overBudget reports whether a NetworkPolicy is closed because of its size, on every pod
// or on some.
func (c *Cluster) overBudget(name string) bool {
	return slices.ContainsFunc(c.dump.Warnings, func(w state.Warning) bool {
		return w.Reason == state.ReasonOverBudget && w.Kind == "NetworkPolicy" && w.Object == name
	})
}

// allowed reports whether the tiers allow the connection, and which rule of which policy
// does; "" when none has to.
func (s supposed) allowed() (by, path string, ok bool) {
	direction := policy.Egress
	if s.q.dir == hns.In {
		direction = policy.Ingress
	}
	isolated := false
	for _, p := range s.policies {
		if !p.Isolates[direction] || !p.Subject.Matches(s.own.pod.Labels) {
			continue
		}
		isolated = true
		seek := seeker{c: s.c, own: s.own, peer: s.peer, q: s.q, selects: true}
		for _, r := range p.Rules {
			if r.Direction == direction && !ok && seek.matches(r) {
				by, path, ok = p.name, rulePath(s.q.dir, r.Index), true
			}
		}
	}
	switch at := s.c.stage(s.own, s.peer, s.q, isolated); {
	case at.rule != nil:
		return clusterPrefix + at.rule.of.Name, rulePath(s.q.dir, at.rule.Index), at.rule.Action != policy.Deny
	case at.namespaced:
		return by, path, ok
	}
	return "", "", true
}

// with returns the ends after a change.
func (s supposed) with(m Miss) supposed {
	change := func(set map[string]string) map[string]string {
		out := maps.Clone(set)
		if out == nil {
			out = map[string]string{}
		}
		out[m.Key] = m.Value
		if m.Remove {
			delete(out, m.Key)
		}
		return out
	}
	c := *s.c
	c.subjectRules = map[subjectKey][]tierRule{}
	relabel := func(e End) End {
		if e.pod != nil && e.pod.Pod == m.Object {
			pod := *e.pod
			pod.Labels = change(pod.Labels)
			e.pod = &pod
		}
		return e
	}
	switch m.Kind {
	case PodLabel, SubjectLabel:
		s.own, s.peer = relabel(s.own), relabel(s.peer)
	case NamespaceLabel:
		c.namespaces = maps.Clone(c.namespaces)
		c.namespaces[m.Object] = change(c.namespaces[m.Object])
	default:
		s.q.packet.DstPort = m.Ports[0].First
	}
	s.c = &c
	return s
}

// candidates yields the changes that are worth a try: to each label that some selector
// asks for, and to the ports at which some rule begins or ends.
func (s supposed) candidates() func(func(Miss) bool) {
	return func(yield func(Miss) bool) {
		pods, namespaces, subject := s.asked()
		namespace := func(pod *state.Pod) string { ns, _, _ := strings.Cut(pod.Pod, "/"); return ns }
		var all []Miss
		for _, n := range s.numbers() {
			p := policy.Port{Protocol: protocolOf(s.q.packet.Protocol), First: n, Last: n}
			all = append(all, Miss{Kind: PortNumber, Ports: []policy.Port{p}, Words: "a connection to " + portText(p)})
		}
		if pod := s.peer.pod; pod != nil {
			all = append(all, relabels(PodLabel, "pod "+pod.Pod, pod.Pod, pod.Labels, pods)...)
			ns := namespace(pod)
			if set, known := s.c.namespaces[ns]; known {
				all = append(all, relabels(NamespaceLabel, "namespace "+ns, ns, set, namespaces)...)
			}
		}
		pod := s.own.pod
		all = append(all, relabels(SubjectLabel, "pod "+pod.Pod, pod.Pod, pod.Labels, append(pods, subject...))...)
		for _, m := range all {
			if !yield(m) {
				return
			}
		}
	}
}

// asked returns what the selectors of the tiers ask of pods, namespaces and subjects.
func (s supposed) asked() (pods, namespaces, subject []labels.Requirement) {
	var peers []policy.Peer
	for _, p := range s.policies {
		subject = append(subject, termsOf(p.subject)...)
		for _, r := range p.Rules {
			peers = append(peers, r.Peer)
		}
	}
	for _, p := range s.c.clusters {
		for _, r := range p.Rules {
			peers = append(peers, r.Peers...)
		}
	}
	for _, p := range s.c.dump.ClusterPolicies {
		if p.Spec != nil && p.Spec.Subject.Pods != nil {
			subject = append(subject, termsOf(&p.Spec.Subject.Pods.PodSelector)...)
		}
	}
	for _, p := range peers {
		for _, name := range p.Sets {
			if cond, ok := s.c.condition(name); ok && cond.onNamespace() {
				namespaces = append(namespaces, cond.reqs...)
			} else if ok && !cond.ofAddress() {
				pods = append(pods, cond.reqs...)
			}
		}
	}
	return pods, namespaces, subject
}

// termsOf returns the terms of a selector; none of one that cannot be read.
func termsOf(selector *metav1.LabelSelector) []labels.Requirement {
	sel, err := metav1.LabelSelectorAsSelector(selector)
	if err != nil || selector == nil {
		return nil
	}
	reqs, _ := sel.Requirements()
	return reqs
}

// numbers returns the ports of the connection's protocol at which a rule begins or ends,
// and those beside them, sorted.
func (s supposed) numbers() (out []uint16) {
	destination := s.peer.pod
	if s.q.dir == hns.In {
		destination = s.own.pod
	}
	add := func(ports []policy.Port) {
		for _, p := range ports {
			switch {
			case protocolNumbers[p.Protocol] != s.q.packet.Protocol:
			case p.Name != "":
				out = append(out, numbersOf(destination, p)...)
			case p.First > 0:
				out = append(out, p.First-1, p.First, p.Last, p.Last+1)
			}
		}
	}
	for _, p := range s.policies {
		for r := range p.ByRule() {
			add(r[0].Ports)
		}
	}
	for _, p := range s.c.clusters {
		for _, r := range p.Rules {
			add(r.Ports)
		}
	}
	slices.Sort(out)
	out = slices.Compact(out)
	return slices.DeleteFunc(out, func(n uint16) bool { return n == 0 || n == s.q.packet.DstPort })
}

// numbersOf returns the numbers under which a pod serves a named port; of nil none.
func numbersOf(pod *state.Pod, port policy.Port) (out []uint16) {
	if pod == nil {
		return nil
	}
	for _, text := range pod.Ports { // name:number/protocol
		name, rest, _ := strings.Cut(text, ":")
		number, protocol, _ := strings.Cut(rest, "/")
		if n, err := strconv.ParseUint(number, 10, 16); err == nil && name == port.Name && protocol == string(port.Protocol) {
			out = append(out, uint16(n))
		}
	}
	return out
}

// protocolOf returns the API's word for a protocol that can be asked about.
func protocolOf(number uint8) policy.Protocol {
	for p, n := range protocolNumbers {
		if n == number {
			return p
		}
	}
	return ""
}

// relabels returns changes of one label each, to what is asked for and away from it.
func relabels(kind Kind, what, object string, set map[string]string, reqs []labels.Requirement) (out []Miss) {
	byKey := map[string][]string{}
	for _, r := range reqs {
		byKey[r.Key()] = append(byKey[r.Key()], r.ValuesUnsorted()...)
	}
	for _, key := range slices.Sorted(maps.Keys(byKey)) {
		if fixed(kind, key) {
			continue
		}
		was, has := set[key]
		have := "no label " + key
		if has {
			have = key + "=" + was
			out = append(out, Miss{Kind: kind, Object: object, Key: key, Remove: true, Words: fmt.Sprintf("%s without label %s (it has %s)", what, key, have)})
		}
		values := slices.Compact(slices.Sorted(slices.Values(byKey[key])))
		other := "x"
		for slices.Contains(values, other) {
			other += "x"
		}
		for _, v := range append(values, other) {
			if has && v == was {
				continue
			}
			label := key + "=" + v
			if v == other {
				label = fmt.Sprintf("%s of another value than %s", key, cmp.Or(strings.Join(values, ", "), "none"))
			}
			out = append(out, Miss{Kind: kind, Object: object, Key: key, Value: v, Words: fmt.Sprintf("%s with label %s (it has %s)", what, label, have), near: has})
		}
	}
	return out
}
