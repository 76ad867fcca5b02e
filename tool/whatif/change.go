package whatif

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"sigs.k8s.io/network-policy-api/apis/v1alpha2"

	"github.com/winnpm/winnpm/pkg/policy"
	"github.com/winnpm/winnpm/pkg/state"
	"github.com/winnpm/winnpm/tool/explain"
	"github.com/winnpm/winnpm/tool/phrase"
)

// Change is a change of a world to be planned.
type Change struct {
	// After is the world after the change. Only its policies, pods, namespaces and nodes are used.
	After World
	// Named are the policies that the change sets or deletes, named as in PolicyChange.Policy.
	Named []string
	// Objects are the changes of objects other than policies. Warnings are about objects that the plan
	// treats otherwise than a user would expect.
	Objects  []ObjectChange
	Warnings []state.Warning
}

// ClusterPrefix precedes the name of a ClusterNetworkPolicy in lists of policies of all tiers. It cannot be
// a namespace.
const ClusterPrefix = "ClusterNetworkPolicy/"

// PolicyChange is the change of one policy.
type PolicyChange struct {
	Policy string `json:"policy"` // namespace/name or ClusterNetworkPolicy/name
	Change string `json:"change"` // new, changed, unchanged or deleted
	// SelectsNothing reports that the policy selects no pod of the cluster after the change.
	SelectsNothing bool `json:"selectsNothing,omitempty"`
	// NoLonger reports that the policy selects a pod before the change and none after it.
	NoLonger bool `json:"noLonger,omitempty"`
}

// The values of PolicyChange.Change and ObjectChange.Change.
const (
	IsNew     = "new"
	Changed   = "changed"
	Unchanged = "unchanged"
	Deleted   = "deleted"
)

// ChangeOf returns the change of an object: had and has tell whether it exists before and after, and same
// whether it is equal.
func ChangeOf(had, has, same bool) string {
	switch {
	case !has:
		return Deleted
	case !had:
		return IsNew
	case same:
		return Unchanged
	}
	return Changed
}

// Specs returns the specs of the policies of all tiers. Its keys are namespace/name, and the name with
// ClusterPrefix.
func (w World) Specs() map[string]any {
	out := map[string]any{}
	for _, np := range w.Policies {
		out[keyOf(np).String()] = np.Spec
	}
	for _, cnp := range w.ClusterPolicies {
		out[ClusterPrefix+cnp.Name] = cnp.Spec
	}
	return out
}

func (w World) classify(c Change) []PolicyChange {
	before, after := w.Specs(), c.After.Specs()
	out := []PolicyChange{}
	for _, name := range c.Named {
		old, had := before[name]
		spec, has := after[name]
		out = append(out, PolicyChange{Policy: name, Change: ChangeOf(had, has, equality.Semantic.DeepEqual(old, spec))})
	}
	slices.SortFunc(out, func(a, b PolicyChange) int { return cmp.Compare(a.Policy, b.Policy) })
	return out
}

// idle returns the policies of a dump that select no pod. It has the keys of World.Specs.
func idle(d *state.Dump) map[string]bool {
	out := map[string]bool{}
	for _, w := range explain.Idle(*d, math.MaxInt) {
		if w.Kind == "ClusterNetworkPolicy" {
			w.Object = ClusterPrefix + w.Object
		}
		out[w.Object] = true
	}
	return out
}

// noNamespaces returns a warning for each object to apply whose namespace does not exist: the API server
// would reject it.
func (w World) noNamespaces(c Change, policies []PolicyChange) []state.Warning {
	var names []string
	for _, p := range w.Pods {
		names = append(names, p.Namespace)
	}
	for _, np := range w.Policies {
		names = append(names, np.Namespace)
	}
	for _, ns := range c.After.Namespaces {
		names = append(names, ns.Name)
	}
	slices.Sort(names)
	var objects []ObjectChange
	for _, p := range policies {
		if !strings.HasPrefix(p.Policy, ClusterPrefix) {
			objects = append(objects, ObjectChange{Kind: "NetworkPolicy", Object: p.Policy, Change: p.Change})
		}
	}
	var out []state.Warning
	for _, o := range slices.Concat(objects, c.Objects) {
		namespace, _, namespaced := strings.Cut(o.Object, "/")
		if !namespaced || o.Change == Deleted || slices.Contains(names, namespace) {
			continue
		}
		message := fmt.Sprintf("the cluster has no namespace %s, so it cannot be applied there", namespace)
		if like := phrase.Similar(namespace, names); like != "" {
			message += fmt.Sprintf("; did you mean %s?", like)
		}
		out = append(out, state.Warning{Object: o.Object, Kind: o.Kind, Reason: reasonNoNamespace, Message: message})
	}
	return out
}

// reasonNoNamespace is the reason of a warning about an object whose namespace does not exist.
const reasonNoNamespace state.Reason = "NoNamespace"

// ErrNoNodes means that a changed policy has nodes as peers, in a world that does not know its nodes.
var ErrNoNodes = errors.New("it has nodes as peers, and the dump does not say which there are: no policy of its cluster asked for them; " +
	"take the cluster of --kubeconfig or --manifests")

// checkPeers fails with ErrNoNodes if a policy has nodes as peers and the world does not know its nodes.
func (w World) checkPeers(c Change) error {
	for _, cnp := range c.After.ClusterPolicies {
		if w.PeersUnknown && namesNodes(cnp) {
			return fmt.Errorf("ClusterNetworkPolicy %s: %w", cnp.Name, ErrNoNodes)
		}
	}
	return nil
}

// namesNodes reports whether a policy has nodes as peers.
func namesNodes(cnp *v1alpha2.ClusterNetworkPolicy) bool {
	return slices.ContainsFunc(cnp.Spec.Egress, func(r v1alpha2.ClusterNetworkPolicyEgressRule) bool {
		return slices.ContainsFunc(r.To, func(p v1alpha2.ClusterNetworkPolicyEgressPeer) bool { return p.Nodes != nil })
	})
}

func keyOf(np *networkingv1.NetworkPolicy) policy.Key {
	return policy.Key{Namespace: np.Namespace, Name: np.Name}
}

// warnings returns the warnings after a change that are new, that are about changed policies, or that are
// about addresses that several pods claim, as verdicts for such pods may be wrong.
func warnings(before, after []state.Warning, c Change) []state.Warning {
	set := map[string]bool{}
	for _, name := range c.Named {
		if !strings.HasPrefix(name, ClusterPrefix) {
			name = "NetworkPolicy/" + name
		}
		set[name] = true
	}
	out := []state.Warning{}
	for _, w := range after {
		if w.Reason == state.ReasonAddressContested || set[w.Kind+"/"+w.Object] || !slices.Contains(before, w) {
			out = append(out, w)
		}
	}
	return out
}

// ObjectChange is the change of an object other than a policy.
type ObjectChange struct {
	Kind   string `json:"kind"`
	Object string `json:"object"` // namespace/name, or the name
	// Change is new, changed, unchanged or deleted. Workloads of a live cluster are not listed: a workload
	// without pods that gets some is new, and one without pods before and after is unchanged.
	Change string `json:"change"`
	// Pods counts the pods of the object or namespace after the change, plus the deleted ones. New and
	// Deleted are included in it.
	Pods    int `json:"pods"`
	New     int `json:"new,omitempty"`
	Deleted int `json:"deleted,omitempty"`
}

// noteLost marks, or adds, the existing policies that select a pod before the change and none after it.
func (w World) noteLost(policies []PolicyChange, was, now map[string]bool) []PolicyChange {
	specs := w.Specs()
	for name := range now {
		if _, there := specs[name]; was[name] || !there {
			continue
		}
		if i := slices.IndexFunc(policies, func(p PolicyChange) bool { return p.Policy == name }); i >= 0 {
			policies[i].NoLonger = true
			continue
		}
		policies = append(policies, PolicyChange{Policy: name, Change: Unchanged, SelectsNothing: true, NoLonger: true})
	}
	slices.SortFunc(policies, func(a, b PolicyChange) int { return cmp.Compare(a.Policy, b.Policy) })
	return policies
}
