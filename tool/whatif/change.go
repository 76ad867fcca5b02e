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

	"github.com/winnpm/winnpm/pkg/dataplane"
	"github.com/winnpm/winnpm/pkg/policy"
	"github.com/winnpm/winnpm/pkg/similar"
	"github.com/winnpm/winnpm/pkg/state"
	"github.com/winnpm/winnpm/tool/explain"
)

// Change is what is to become of policies, and of the objects that they are about.
type Change struct {
	Set    []*networkingv1.NetworkPolicy
	Delete []policy.Key
	// SetCluster and DeleteCluster, by name, are about ClusterNetworkPolicies.
	SetCluster    []*v1alpha2.ClusterNetworkPolicy
	DeleteCluster []string
	// After, if it is there, has the pods, namespaces and nodes of the cluster afterwards,
	// in place of those before. Objects says of which objects that comes, and Warnings what
	// of them counts otherwise than it looks.
	After    *World
	Objects  []ObjectChange
	Warnings []state.Warning
}

// NoPolicyError is a policy to delete that is not there.
type NoPolicyError struct {
	Policy string // namespace/name or ClusterNetworkPolicy/name
}

func (e NoPolicyError) Error() string {
	if name, ok := strings.CutPrefix(e.Policy, clusterPrefix); ok {
		return fmt.Sprintf("ClusterNetworkPolicy %s is not there, so there is nothing to delete; check its name", name)
	}
	return fmt.Sprintf("NetworkPolicy %s is not there, so there is nothing to delete; check namespace and name", e.Policy)
}

// clusterPrefix begins what a ClusterNetworkPolicy is called among policies of all
// tiers. No namespace is called so.
const clusterPrefix = "ClusterNetworkPolicy/"

// PolicyChange is what becomes of one policy.
type PolicyChange struct {
	Policy string `json:"policy"` // namespace/name or ClusterNetworkPolicy/name
	Change string `json:"change"` // new, changed, unchanged or deleted
	// SelectsNothing: no pod of the cluster is selected by it, afterwards.
	SelectsNothing bool `json:"selectsNothing,omitempty"`
	// NoLonger: it selected some before.
	NoLonger bool `json:"noLonger,omitempty"`
}

// The changes of a policy.
const (
	isNew     = "new"
	unchanged = "unchanged"
	deleted   = "deleted"
)

// classify returns the change of each policy.
func (w World) classify(c Change) ([]PolicyChange, error) {
	have, set := map[string]any{}, map[string]any{}
	for _, np := range w.Policies {
		have[keyOf(np).String()] = np.Spec
	}
	for _, cnp := range w.ClusterPolicies {
		have[clusterPrefix+cnp.Name] = cnp.Spec
	}
	for _, np := range c.Set {
		set[keyOf(np).String()] = np.Spec
	}
	for _, cnp := range c.SetCluster {
		set[clusterPrefix+cnp.Name] = cnp.Spec
	}
	out := []PolicyChange{}
	for name, spec := range set {
		kind := isNew
		if old, ok := have[name]; ok {
			if kind = changed; equality.Semantic.DeepEqual(old, spec) {
				kind = unchanged
			}
		}
		out = append(out, PolicyChange{Policy: name, Change: kind})
	}
	for _, name := range c.deletes() {
		if _, ok := have[name]; !ok {
			return nil, NoPolicyError{name}
		}
		out = append(out, PolicyChange{Policy: name, Change: deleted})
	}
	slices.SortFunc(out, func(a, b PolicyChange) int { return cmp.Compare(a.Policy, b.Policy) })
	return out, nil
}

// idle returns the policies of a dump that select no pod, by what they are called among
// policies of all tiers.
func idle(d *state.Dump) map[string]bool {
	out := map[string]bool{}
	for _, w := range explain.Idle(*d, math.MaxInt) {
		if w.Kind == "ClusterNetworkPolicy" {
			w.Object = clusterPrefix + w.Object
		}
		out[w.Object] = true
	}
	return out
}

// noNamespaces returns a warning for each object that is set and whose namespace the cluster
// does not have: the API server refuses such an object.
func (w World) noNamespaces(c Change) []state.Warning {
	var names []string
	for _, p := range w.Pods {
		names = append(names, p.Namespace)
	}
	for _, np := range w.Policies {
		names = append(names, np.Namespace)
	}
	if c.differs() {
		w.Namespaces = c.After.Namespaces
	}
	for _, ns := range w.Namespaces {
		names = append(names, ns.Name)
	}
	slices.Sort(names)
	out := []state.Warning{}
	check := func(kind, object, namespace, word string) {
		if slices.Contains(names, namespace) {
			return
		}
		message := fmt.Sprintf("the cluster has no namespace %s, so the %s cannot be applied there", namespace, word)
		if like := similar.Name(namespace, names); like != "" {
			message += fmt.Sprintf("; did you mean %s?", like)
		}
		out = append(out, state.Warning{Object: object, Kind: kind, Reason: reasonNoNamespace, Message: message})
	}
	for _, np := range c.Set {
		check("NetworkPolicy", keyOf(np).String(), np.Namespace, "policy")
	}
	for _, o := range c.Objects {
		if namespace, _, ok := strings.Cut(o.Object, "/"); ok && o.Change != deleted {
			check(o.Kind, o.Object, namespace, "object")
		}
	}
	return out
}

// reasonNoNamespace is the reason of a warning about an object whose namespace does not exist.
const reasonNoNamespace state.Reason = "NoNamespace"

// deletes names the policies to delete.
func (c Change) deletes() []string {
	var out []string
	for _, key := range c.Delete {
		out = append(out, key.String())
	}
	for _, name := range c.DeleteCluster {
		out = append(out, clusterPrefix+name)
	}
	return out
}

// ErrNoNodes is a change that is about nodes, in a world that does not know them.
var ErrNoNodes = errors.New("it has nodes as peers, and the dump does not say which there are: no policy of its cluster asked for them; " +
	"take the cluster of --kubeconfig or --manifests")

// checkPeers fails with ErrNoNodes.
func (w World) checkPeers(c Change) error {
	for _, cnp := range c.SetCluster {
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

// fit closes what is over a budget, before the change and after it. A change may
// close policies that it does not name, or make room for them: these are in it then.
// A ClusterNetworkPolicy has a budget of its own, which its compilation keeps.
func (w World) fit(c Change) (World, Change) {
	b := policy.DefaultBudgets()
	named := map[policy.Key]bool{}
	for _, key := range c.Delete {
		named[key] = true
	}
	for _, np := range c.Set {
		named[keyOf(np)] = true
	}
	after := slices.Clone(c.Set)
	for _, np := range w.Policies {
		if !named[keyOf(np)] {
			after = append(after, np)
		}
	}
	before := b.Fit(w.Policies)
	was := map[policy.Key]*networkingv1.NetworkPolicy{}
	for _, np := range before {
		was[keyOf(np)] = np
	}
	out := c
	out.Set = nil
	for _, np := range b.Fit(after) {
		if named[keyOf(np)] || was[keyOf(np)] != np {
			out.Set = append(out.Set, np)
		}
	}
	w.Policies = before
	return w, out
}

// keyOf names a policy.
func keyOf(np *networkingv1.NetworkPolicy) policy.Key {
	return policy.Key{Namespace: np.Namespace, Name: np.Name}
}

// transaction tells a node a change of the world before; local says which pods run there.
func (c Change) transaction(before World, local func(Pod) bool) *dataplane.Transaction {
	tx := dataplane.NewTransaction()
	c.tell(tx, before, local)
	for _, np := range c.Set {
		tx.SetPolicy(np)
	}
	for _, key := range c.Delete {
		tx.DeletePolicy(key)
	}
	for _, cnp := range c.SetCluster {
		tx.SetClusterPolicy(cnp)
	}
	for _, name := range c.DeleteCluster {
		tx.DeleteClusterPolicy(name)
	}
	return tx
}

// warnings returns those that are about what is set, those that are new, and those about
// addresses that several pods claim: verdicts of these pods may be others.
func warnings(before, after []state.Warning, c Change) []state.Warning {
	type object struct{ kind, name string }
	set := map[object]bool{}
	for _, np := range c.Set {
		set[object{"NetworkPolicy", keyOf(np).String()}] = true
	}
	for _, cnp := range c.SetCluster {
		set[object{"ClusterNetworkPolicy", cnp.Name}] = true
	}
	out := []state.Warning{}
	for _, w := range after {
		if w.Reason == state.ReasonAddressContested || set[object{w.Kind, w.Object}] || !slices.Contains(before, w) {
			out = append(out, w)
		}
	}
	return out
}
