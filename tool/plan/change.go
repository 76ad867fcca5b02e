package plan

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/winnpm/winnpm/pkg/state"
	"github.com/winnpm/winnpm/tool/cluster"
	"github.com/winnpm/winnpm/tool/explain"
	"github.com/winnpm/winnpm/tool/phrase"
)

// PolicyChange is the change of one policy.
type PolicyChange struct {
	Policy string `json:"policy"` // namespace/name or ClusterNetworkPolicy/name
	Change string `json:"change"` // new, changed, unchanged or deleted
	// SelectsNothing reports that the policy selects no pod of the cluster after the change.
	SelectsNothing bool `json:"selectsNothing,omitempty"`
	// NoLonger reports that the policy selects a pod before the change and none after it.
	NoLonger bool `json:"noLonger,omitempty"`
}

// classify returns the changes of the named policies, sorted.
func classify(w cluster.World, c cluster.Change) []PolicyChange {
	before, after := w.Specs(), c.After.Specs()
	out := []PolicyChange{}
	for _, name := range c.Named {
		old, had := before[name]
		spec, has := after[name]
		out = append(out, PolicyChange{Policy: name, Change: cluster.ChangeOf(had, has, equality.Semantic.DeepEqual(old, spec))})
	}
	slices.SortFunc(out, func(a, b PolicyChange) int { return cmp.Compare(a.Policy, b.Policy) })
	return out
}

// idle returns the policies of a dump that select no pod. It has the keys of World.Specs.
func idle(d *state.Dump) map[string]bool {
	out := map[string]bool{}
	for _, w := range explain.Idle(*d, math.MaxInt) {
		if w.Kind == "ClusterNetworkPolicy" {
			w.Object = cluster.ClusterPrefix + w.Object
		}
		out[w.Object] = true
	}
	return out
}

// noNamespaces returns a warning for each object to apply whose namespace does not exist: the API server
// would reject it.
func noNamespaces(w cluster.World, c cluster.Change, policies []PolicyChange) []state.Warning {
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
	var objects []cluster.ObjectChange
	for _, p := range policies {
		if !strings.HasPrefix(p.Policy, cluster.ClusterPrefix) {
			objects = append(objects, cluster.ObjectChange{Kind: "NetworkPolicy", Object: p.Policy, Change: p.Change})
		}
	}
	var out []state.Warning
	for _, o := range slices.Concat(objects, c.Objects) {
		namespace, _, namespaced := strings.Cut(o.Object, "/")
		if !namespaced || o.Change == cluster.Deleted || slices.Contains(names, namespace) {
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

// checkNodes fails with ErrNoNodes if a policy has nodes as peers and the world does not know its nodes.
func checkNodes(w cluster.World, c cluster.Change) error {
	for _, cnp := range c.After.ClusterPolicies {
		if w.NodesUnknown && cluster.SelectsNodes(cnp) {
			return fmt.Errorf("ClusterNetworkPolicy %s: %w", cnp.Name, ErrNoNodes)
		}
	}
	return nil
}

// warnings returns the warnings after a change that are new, that are about changed policies, or that are
// about addresses that several pods claim, as verdicts for such pods may be wrong.
func warnings(before, after []state.Warning, c cluster.Change) []state.Warning {
	set := map[string]bool{}
	for _, name := range c.Named {
		if !strings.HasPrefix(name, cluster.ClusterPrefix) {
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

// noteLost marks, or adds, the existing policies that select a pod before the change and none after it.
func noteLost(w cluster.World, policies []PolicyChange, was, now map[string]bool) []PolicyChange {
	specs := w.Specs()
	for name := range now {
		if _, there := specs[name]; was[name] || !there {
			continue
		}
		if i := slices.IndexFunc(policies, func(p PolicyChange) bool { return p.Policy == name }); i >= 0 {
			policies[i].NoLonger = true
			continue
		}
		policies = append(policies, PolicyChange{Policy: name, Change: cluster.Unchanged, SelectsNothing: true, NoLonger: true})
	}
	slices.SortFunc(policies, func(a, b PolicyChange) int { return cmp.Compare(a.Policy, b.Policy) })
	return policies
}
