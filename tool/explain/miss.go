package explain

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"

	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/pkg/policy"
)

// misses returns the single changes with which a rule that was tried would allow the connection: of
// rules of NetworkPolicies of which one condition fails. It returns none for a pod that has
// ClusterNetworkPolicies in this direction, which might deny the connection nevertheless.
func (c *Cluster) misses(own, peer End, q question, tried []Rule, places Places) []Miss {
	out := []Miss{}
	if len(c.tierRules(own.pod, q.dir)) > 0 {
		return out
	}
	for _, r := range tried {
		if r.failing() != 1 || len(r.Path) == 0 {
			continue
		}
		at := slices.IndexFunc(r.Checks, func(check Check) bool { return !check.OK })
		for _, m := range c.missesOf(r, r.Checks[at], peer) {
			m.Policy, m.Path, m.Line = r.Policy, r.Path[0], places.Rule(r.Policy, r.Path[0])
			out = append(out, m)
		}
	}
	order := []Kind{PodLabel, NamespaceLabel, PortNumber}
	slices.SortStableFunc(out, func(a, b Miss) int {
		return cmp.Or(-cmp.Compare(a.near, b.near), cmp.Compare(slices.Index(order, a.Kind), slices.Index(order, b.Kind)),
			cmp.Compare(a.Words, b.Words), cmp.Compare(a.Policy, b.Policy), cmp.Compare(a.Path, b.Path))
	})
	return slices.CompactFunc(out, func(a, b Miss) bool { return a.Words == b.Words })
}

// missesOf returns the changes with which the failing condition of a rule holds.
func (c *Cluster) missesOf(r Rule, failing Check, peer End) []Miss {
	switch {
	case failing.kind == PortNumber:
		return portMiss(r.ACL)
	case peer.pod == nil || peer.pod.OverBudget != "":
		return nil // no label puts it into a set
	case failing.kind == PodLabel:
		return labelMisses(Miss{Kind: PodLabel, Object: peer.pod.Pod}, "pod", peer.pod.Labels, r, failing)
	case failing.kind == NamespaceLabel && len(c.clusters) == 0:
		namespace := namespaceOf(peer.pod.Pod)
		if set, exists := c.namespaces[namespace]; exists {
			return labelMisses(Miss{Kind: NamespaceLabel, Object: namespace}, "namespace", set, r, failing)
		}
	}
	return nil
}

// portMiss returns the ports that a rule allows.
func portMiss(a hns.ACL) []Miss {
	ranges, ok := hns.ParsePorts(a.DstPorts())
	protocol := policy.Protocol(protocolNames[a.Protocols])
	if !ok || !protocol.Known() {
		return nil
	}
	m := Miss{Kind: PortNumber, near: 1}
	var texts []string
	for _, r := range ranges {
		p := policy.Port{Protocol: protocol, First: r[0], Last: r[1]}
		m.Ports, texts = append(m.Ports, p), append(texts, portText(p))
	}
	m.Words = "a connection to " + list(texts, "or")
	return []Miss{m}
}

// labelMisses returns the changes of one label of m.Object with which it has all labels that a rule
// asks for: the values of the only requirement that fails.
func labelMisses(m Miss, what string, set map[string]string, r Rule, failing Check) (out []Miss) {
	var all, missing []labels.Requirement
	for _, check := range r.Checks {
		if check.kind == m.Kind {
			all = append(all, check.reqs...)
		}
	}
	for _, req := range failing.reqs {
		if !req.Matches(labels.Set(set)) {
			missing = append(missing, req)
		}
	}
	if len(missing) != 1 || missing[0].Operator() != selection.In && missing[0].Operator() != selection.Equals {
		return nil
	}
	m.Key = missing[0].Key()
	if m.Kind == NamespaceLabel && m.Key == corev1.LabelMetadataName { // the API server sets it
		return nil
	}
	have := "no label " + m.Key
	if was, ok := set[m.Key]; ok {
		have, m.near = m.Key+"="+was, 1
	}
	for _, m.Value = range missing[0].Values().List() {
		changed := map[string]string{}
		maps.Copy(changed, set)
		changed[m.Key] = m.Value
		if slices.ContainsFunc(all, func(req labels.Requirement) bool { return !req.Matches(labels.Set(changed)) }) {
			continue
		}
		m.Words = fmt.Sprintf("%s %s with label %s=%s (it has %s)", what, m.Object, m.Key, m.Value, have)
		out = append(out, m)
	}
	return out
}
