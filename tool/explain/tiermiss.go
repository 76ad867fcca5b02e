package explain

import (
	"maps"
	"slices"

	"github.com/winnpm/winnpm/pkg/state"
)

// overBudget reports whether a NetworkPolicy is closed because of its size, on every pod
// or on some.
func (c *Cluster) overBudget(name string) bool {
	return slices.ContainsFunc(c.dump.Warnings, func(w state.Warning) bool {
		return w.Reason == state.ReasonOverBudget && w.Kind == "NetworkPolicy" && w.Object == name
	})
}

// leftToPolicies reports whether the ClusterNetworkPolicies leave a connection to the
// NetworkPolicies after a change that makes one of these allow it. Where they are about the pod
// already, changes of anything but a label or a port are not tried, and not suggested.
func (c *Cluster) leftToPolicies(own, peer End, q question, m Miss) bool {
	if len(c.clusters) == 0 {
		return true
	}
	changed := *c
	changed.subjectRules = map[subjectKey][]tierRule{}
	switch m.Kind {
	case PodLabel, SubjectLabel:
		own, peer = m.relabeled(own), m.relabeled(peer)
	case NamespaceLabel:
		changed.namespaces = maps.Clone(c.namespaces)
		changed.namespaces[m.Object] = m.changed(c.namespaces[m.Object])
	case PortNumber:
		for _, p := range m.Ports {
			for _, number := range []uint16{max(p.First, 1), max(p.Last, 1)} { // 0 is every port
				q.packet.Protocol, q.packet.DstPort = protocolNumbers[p.Protocol], number
				if !c.stage(own, peer, q, true).namespaced {
					return false
				}
			}
		}
		return true
	default:
		return len(c.tierRules(own.pod, q.dir)) == 0
	}
	return changed.stage(own, peer, q, true).namespaced
}

// relabeled returns an end after the change of a pod's label.
func (m Miss) relabeled(e End) End {
	if e.pod != nil && e.pod.Pod == m.Object {
		pod := *e.pod
		pod.Labels = m.changed(pod.Labels)
		e.pod = &pod
	}
	return e
}

// changed returns labels after the change of one.
func (m Miss) changed(set map[string]string) map[string]string {
	out := map[string]string{}
	maps.Copy(out, set)
	out[m.Key] = m.Value
	if m.Remove {
		delete(out, m.Key)
	}
	return out
}
