package desired

import (
	networkingv1 "k8s.io/api/networking/v1"

	"github.com/winnpm/winnpm/pkg/ipsets"
	"github.com/winnpm/winnpm/pkg/policy"
	"github.com/winnpm/winnpm/pkg/render"
	"github.com/winnpm/winnpm/pkg/state"
)

// policyState is a policy and what follows from it. While it is idle (see active.go)
// its Rules and Sets are nil; the rest of what was compiled never changes.
type policyState struct {
	policy.Compiled
	spec      *networkingv1.NetworkPolicySpec // of the object, which nobody changes
	ruleCount int                             // how many Rules it has, or had when active
	selects   int                             // local pods that it selects
	active    bool
	// warnings are about what the text of the policy has and cannot be expressed.
	warnings []state.Warning
	// views are the named ports that its egress rules use.
	views map[render.Reach][]*view
	// sized is the number of its ACLs on every pod; 0 if it is not known, or differs between pods.
	sized int
	// group is the policy on every endpoint; nil when it is not rendered, or is
	// another one for each pod.
	group *render.Group
}

// namesPorts reports whether a rule has a named port, whose number follows from
// pods.
func (p *policyState) namesPorts() bool {
	for rules := range p.ByRule() {
		if len(render.NamedPorts(rules[0].Ports)) > 0 {
			return true
		}
	}
	return false
}

// served returns the numbers of the policy's named ports within a reach. Of each namespace other
// than the policy's own it returns at most the each lowest numbers.
func (p *policyState) served(at render.Reach, each int) []render.ServedPort {
	var out []render.ServedPort
	for _, v := range p.views[at] {
		out = append(out, v.served(each)...)
	}
	return out
}

// cluster reports whether it stands for a ClusterNetworkPolicy's named ports.
func (p *policyState) cluster() bool {
	_, is := state.ClusterName(p.Key)
	return is
}

// own is the namespace of the policy, "" for a ClusterNetworkPolicy.
func (p *policyState) own() string {
	if p.cluster() {
		return ""
	}
	return p.Key.Namespace
}

// ref is how the policy holds the sets that it mentions.
func (p *policyState) ref() ipsets.Ref {
	return ipsets.Ref{Kind: ipsets.RefSelector, Owner: p.Key.String()}
}
