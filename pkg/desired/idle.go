package desired

import (
	"maps"
	"slices"

	"github.com/winnpm/winnpm/pkg/policy"
	"github.com/winnpm/winnpm/pkg/state"
)

const (
	// mostIdle is of how many policies of a namespace it is said that they select nothing.
	mostIdle = 64
	// mostCompared is how often a selector is asked about a group of pods to find them. A
	// namespace in which it takes more has too many policies that select nothing, and pods
	// that are all different: of these nothing is said. That is some milliseconds.
	mostCompared = 20_000
)

// PolicyNamespaces returns the namespaces that have policies, sorted; "" is of
// ClusterNetworkPolicies.
func (d *State) PolicyNamespaces() []string {
	out := slices.Sorted(maps.Keys(d.byNS))
	if len(d.clusters) > 0 {
		out = slices.Insert(out, 0, "")
	}
	return out
}

// SelectingNothing returns the policies of a namespace that select no pod of the cluster, of
// this node or of another one, sorted: the first of them, as a tenant may write thousands. Where
// pods are over their budget their labels are not known, and nothing is said.
func (d *State) SelectingNothing(namespace string) []policy.Key {
	asked := &comparisons{left: mostCompared}
	var idle []policy.Key
	if namespace == "" {
		idle = d.idleClusters(asked)
	} else {
		for key, ps := range d.byNS[namespace] {
			if ps.selects == 0 && !asked.some(d.members, namespace, ps.Subject) {
				idle = append(idle, key)
			}
		}
	}
	if asked.left < 0 {
		return nil
	}
	slices.SortFunc(idle, policy.Key.Compare)
	return idle[:min(len(idle), mostIdle)]
}

func (d *State) idleClusters(asked *comparisons) []policy.Key {
	var idle []policy.Key
	for name, cs := range d.clusters {
		if cs.selects == 0 && !asked.subject(d.members, cs) {
			idle = append(idle, policy.Key{Name: name})
		}
	}
	return idle
}

// MaySelectIn reports whether a ClusterNetworkPolicy may select pods of one of the namespaces; of
// one that is not there nobody knows. It takes a comparison for each namespace.
func (d *State) MaySelectIn(name string, namespaces []string) bool {
	cs := d.clusters[name]
	return slices.ContainsFunc(namespaces, func(namespace string) bool {
		ns, known := d.members.namespaces[namespace]
		return cs == nil || !known || ns.OverBudget != "" || cs.Namespaces.Matches(ns.Labels)
	})
}

// subject reports whether a ClusterNetworkPolicy selects a pod. One of a namespace whose labels
// are not known may be.
func (c *comparisons) subject(m *members, cs *clusterState) bool {
	for namespace := range m.podGroup.byNS {
		ns, known := m.namespaces[namespace]
		if c.left--; c.left < 0 {
			return false
		}
		known = known && ns.OverBudget == ""
		if (!known || cs.Namespaces.Matches(ns.Labels)) && c.some(m, namespace, cs.Pods) {
			return true
		}
	}
	return false
}

// comparisons counts what may still be asked; below zero the answers are not known.
type comparisons struct{ left int }

// some reports whether a selector matches a pod of a namespace, or may match one. Like kubectl npm simulate,
// it ignores host-network pods, finished pods and lost pods.
func (c *comparisons) some(m *members, namespace string, match policy.LabelMatcher) bool {
	if len(m.over.pods[namespace]) > 0 {
		return true
	}
	for k := range m.podGroup.in(namespace) {
		if c.left--; c.left < 0 {
			return false
		}
		if !match.Matches(k.labels) {
			continue
		}
		for _, p := range k.pods {
			if c.left--; c.left < 0 {
				return false
			}
			if !p.HostNetwork && !p.Finished && !p.IsLost() {
				return true
			}
		}
	}
	return false
}

// SelectingNothing words that a policy selects no pod: everywhere and always in the same way.
func SelectingNothing(key policy.Key) state.Warning {
	if key.Namespace == "" {
		return state.Warning{
			Object: key.Name, Kind: "ClusterNetworkPolicy", Reason: state.ReasonSelectsNothing,
			Message: "spec.subject selects no pod, so the policy changes nothing; check its selectors",
		}
	}
	return state.Warning{
		Object: key.String(), Kind: "NetworkPolicy", Reason: state.ReasonSelectsNothing,
		Message: "spec.podSelector selects no pod of namespace " + key.Namespace + ", so the policy changes nothing; check its labels",
	}
}
