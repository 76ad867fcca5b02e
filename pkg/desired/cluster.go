package desired

import (
	"cmp"
	"slices"

	"sigs.k8s.io/network-policy-api/apis/v1alpha2"

	"github.com/winnpm/winnpm/pkg/ipsets"
	"github.com/winnpm/winnpm/pkg/policy"
	"github.com/winnpm/winnpm/pkg/progress"
	"github.com/winnpm/winnpm/pkg/render"
	"github.com/winnpm/winnpm/pkg/state"
)

// clusterState is a ClusterNetworkPolicy and what follows from it. Cluster admins alone
// make them: there are some tens, a thousand at most, and what one comes to is bounded
// (policy.ClusterItems). So an idle one keeps its rules, but no sets in the cache.
type clusterState struct {
	policy.Cluster
	spec    *v1alpha2.ClusterNetworkPolicySpec // of the object, which nobody changes
	selects int                                // local pods that it selects, or may select
	active  bool                               // it selects one, and holds its sets
	// named are its egress rules with named ports, as those of a NetworkPolicy of which
	// it uses views; nil without any.
	named *policyState
	// warnings are about what the text of the policy has and cannot be expressed.
	warnings []state.Warning
}

// subjection is that a ClusterNetworkPolicy selects a local pod.
type subjection struct {
	policy *clusterState
	// maybe: the namespace of the pod is not known, so neither is whether the policy
	// selects it.
	maybe bool
}

// ObjectOf returns how warnings call the policy of a key, and its kind.
func ObjectOf(key policy.Key) (object, kind string) {
	if name, is := state.ClusterName(key); is {
		return name, progress.ClusterNetworkPolicy
	}
	return key.String(), progress.NetworkPolicy
}

// ref is how the policy holds the sets that it mentions.
func (cs *clusterState) ref() ipsets.Ref {
	return ipsets.Ref{Kind: ipsets.RefSelector, Owner: state.ClusterKey(cs.Name).String()}
}

// compareClusters sorts policies by when they have their say.
func compareClusters(a, b *clusterState) int {
	return cmp.Or(cmp.Compare(a.Tier, b.Tier), cmp.Compare(a.Priority, b.Priority), cmp.Compare(a.Name, b.Name))
}

// Tiered reports whether a ClusterNetworkPolicy with rules selects the pod.
func (p *PodState) Tiered() bool {
	return p.Placement != nil && slices.ContainsFunc(p.clusters, func(s subjection) bool { return len(s.policy.Rules) > 0 })
}

// namedOf returns the egress rules of a policy that have named ports, as a
// NetworkPolicy that can use views; nil for none. Its sets are those that the rules
// name, whether they are defined for these or only as deny twins.
func namedOf(c *policy.Cluster) *policyState {
	ps := &policyState{Compiled: policy.Compiled{Key: state.ClusterKey(c.Name)}}
	for _, r := range c.Rules {
		if r.Direction != policy.Egress || len(render.NamedPorts(r.Ports)) == 0 {
			continue
		}
		for _, peer := range r.Peers {
			ps.Rules = append(ps.Rules, policy.Rule{Direction: r.Direction, Index: r.Index, Peer: peer, Ports: r.Ports})
		}
	}
	if len(ps.Rules) == 0 {
		return nil
	}
	for _, def := range c.Sets {
		if def.Name.Denies() {
			def.Name = def.Name.Twin()
		}
		ps.Sets = append(ps.Sets, def)
	}
	return ps
}
