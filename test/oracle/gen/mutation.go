package gen

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/network-policy-api/apis/v1alpha2"

	"github.com/winnpm/winnpm/test/oracle"
)

// Mutation is one change of a cluster.
type Mutation struct {
	Kind string
	// After is the cluster as it is then. It shares the objects that did not
	// change with the cluster before, which is left as it was.
	After oracle.Cluster
}

// mutation is one kind of change. It changes a cluster whose slices it may edit, never
// the objects in them, or nothing where there is nothing to change.
type mutation struct {
	kind  string
	apply func(*Gen, *oracle.Cluster)
}

var mutations = []mutation{
	{"pod created", (*Gen).createPod},
	{"pod relabelled", edit(pods, func(g *Gen, _ *oracle.Cluster, pod *corev1.Pod) { pod.Labels = g.labels(podLabels) })},
	{"policy edited", edit(policies, (*Gen).editPolicy)},
	{"policy created", (*Gen).createPolicy},
	{"policy deleted", remove(policies)},
	{"pod deleted", remove(pods)},
	{"pod recreated", edit(pods, func(g *Gen, c *oracle.Cluster, pod *corev1.Pod) { // as by a StatefulSet
		*pod = g.pod(*c, types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name})
	})},
	{"pod takes another's address", edit(pods, (*Gen).steal)},
	{"pod changes its address", edit(pods, (*Gen).move)},
	{"pod loses its address", edit(pods, func(_ *Gen, _ *oracle.Cluster, pod *corev1.Pod) {
		pod.Status.PodIP, pod.Status.PodIPs = "", nil
	})},
	{"pod finishes", edit(pods, func(g *Gen, _ *oracle.Cluster, pod *corev1.Pod) { g.finish(pod) })},
	{"pod is being deleted", edit(pods, func(g *Gen, _ *oracle.Cluster, pod *corev1.Pod) { g.terminate(pod) })},
	{"pod runs", edit(pods, func(g *Gen, c *oracle.Cluster, pod *corev1.Pod) {
		pod.Status.Phase = corev1.PodRunning
		if pod.Status.PodIP == "" && !oracle.AtNode(pod) {
			g.start(pod, g.podAddr(*c))
		}
	})},
	{"namespace relabelled", edit(namespaceObjects, func(g *Gen, _ *oracle.Cluster, ns *corev1.Namespace) { *ns = g.namespace(ns.Name) })},
	{"namespace object created", (*Gen).createNamespace},
	{"namespace object deleted", remove(namespaceObjects)},
	{"node addresses changed", func(g *Gen, c *oracle.Cluster) { c.NodeAddrs = g.nodeAddrs() }},
	{"nothing new", func(*Gen, *oracle.Cluster) {}},
}

// tierMutations are changes of ClusterNetworkPolicies and nodes.
var tierMutations = []mutation{
	{"cluster policy edited", edit(clusterPolicies, (*Gen).editClusterPolicy)},
	{"cluster policy created", (*Gen).createClusterPolicy},
	{"cluster policy deleted", remove(clusterPolicies)},
	{"cluster policies gone", func(_ *Gen, c *oracle.Cluster) { c.ClusterPolicies = nil }},
	{"node changed", edit(nodeObjects, func(g *Gen, _ *oracle.Cluster, n *corev1.Node) { *n = g.node(n.Name) })},
}

// These are the objects of a cluster.
func namespaceObjects(c *oracle.Cluster) *[]corev1.Namespace             { return &c.Namespaces }
func pods(c *oracle.Cluster) *[]corev1.Pod                               { return &c.Pods }
func policies(c *oracle.Cluster) *[]networkingv1.NetworkPolicy           { return &c.Policies }
func clusterPolicies(c *oracle.Cluster) *[]v1alpha2.ClusterNetworkPolicy { return &c.ClusterPolicies }
func nodeObjects(c *oracle.Cluster) *[]corev1.Node                       { return &c.Nodes }

// edit returns a change of a copy of one object.
func edit[T any, P interface {
	*T
	DeepCopy() *T
}](of func(*oracle.Cluster) *[]T, change func(*Gen, *oracle.Cluster, *T)) func(*Gen, *oracle.Cluster) {
	return func(g *Gen, c *oracle.Cluster) {
		if all := *of(c); len(all) > 0 {
			i := g.between(0, len(all)-1, "which object")
			object := P(&all[i]).DeepCopy()
			change(g, c, object)
			all[i] = *object
		}
	}
}

// remove returns the removal of one object.
func remove[T any](of func(*oracle.Cluster) *[]T) func(*Gen, *oracle.Cluster) {
	return func(g *Gen, c *oracle.Cluster) {
		if all := of(c); len(*all) > 0 {
			i := g.between(0, len(*all)-1, "which object")
			*all = slices.Delete(*all, i, i+1)
		}
	}
}

// Mutation draws a change of the cluster. With tiers every second one is of the objects
// that make them.
func (g *Gen) Mutation(c oracle.Cluster) Mutation {
	if g.tiers && g.Flip("of the tiers") {
		return g.mutate(c, tierMutations)
	}
	return g.mutate(c, mutations)
}

// PolicyMutation draws a change of one of the cluster's policies.
func (g *Gen) PolicyMutation(c oracle.Cluster) Mutation {
	return g.mutate(c, slices.DeleteFunc(slices.Clone(mutations), func(m mutation) bool { return !strings.HasPrefix(m.kind, "policy ") }))
}

func (g *Gen) mutate(c oracle.Cluster, of []mutation) Mutation {
	m := pick(g, of, "mutation")
	c.Namespaces, c.Pods, c.Policies = slices.Clone(c.Namespaces), slices.Clone(c.Pods), slices.Clone(c.Policies)
	c.ClusterPolicies, c.Nodes = slices.Clone(c.ClusterPolicies), slices.Clone(c.Nodes)
	m.apply(g, &c)
	return Mutation{Kind: m.kind, After: c}
}

func (g *Gen) createPod(c *oracle.Cluster) { c.Pods = append(c.Pods, g.pod(*c, g.newPodKey(*c))) }

// steal gives a pod the address of another one, which keeps it.
func (g *Gen) steal(c *oracle.Cluster, pod *corev1.Pod) {
	from := &c.Pods[g.between(0, len(c.Pods)-1, "whose address")]
	if addr := oracle.Address(from); addr.IsValid() && oracle.AtNode(pod) == oracle.AtNode(from) {
		start := (*Gen).start
		if oracle.AtNode(pod) {
			start = (*Gen).startAtNode
		}
		pod.Status = corev1.PodStatus{Phase: pod.Status.Phase}
		start(g, pod, addr)
	}
}

// move gives a pod another address.
func (g *Gen) move(c *oracle.Cluster, pod *corev1.Pod) {
	if !oracle.AtNode(pod) {
		pod.Status = corev1.PodStatus{Phase: pod.Status.Phase}
		g.start(pod, g.podAddr(*c))
	}
}

// createPolicy draws a policy, if its name is free.
func (g *Gen) createPolicy(c *oracle.Cluster) {
	np := g.policy(pick(g, g.namespaces, "policy namespace"), pick(g, policyNames, "policy name"))
	if !slices.ContainsFunc(c.Policies, func(other networkingv1.NetworkPolicy) bool {
		return other.Namespace == np.Namespace && other.Name == np.Name
	}) {
		c.Policies = append(c.Policies, np)
	}
}

// editPolicy changes one part of a policy and keeps the rest.
func (g *Gen) editPolicy(_ *oracle.Cluster, np *networkingv1.NetworkPolicy) {
	fresh := g.policy(np.Namespace, np.Name)
	switch g.between(0, 3, "which part") {
	case 0:
		np.Spec.Ingress = fresh.Spec.Ingress
	case 1:
		np.Spec.Egress = fresh.Spec.Egress
	case 2:
		np.Spec.PodSelector = fresh.Spec.PodSelector
	default:
		np.Spec.PolicyTypes = fresh.Spec.PolicyTypes
	}
}

// createNamespace draws an object for a namespace that has none.
func (g *Gen) createNamespace(c *oracle.Cluster) {
	g.addNamespace(c, pick(g, g.namespaces, "which namespace"))
}

func (g *Gen) addNamespace(c *oracle.Cluster, name string) {
	if !slices.ContainsFunc(c.Namespaces, func(ns corev1.Namespace) bool { return ns.Name == name }) {
		c.Namespaces = append(c.Namespaces, g.namespace(name))
	}
}

// createClusterPolicy draws a ClusterNetworkPolicy, if its name is free.
func (g *Gen) createClusterPolicy(c *oracle.Cluster) {
	cnp := g.clusterPolicy(pick(g, policyNames, "cluster policy name"))
	if !slices.ContainsFunc(c.ClusterPolicies, func(other v1alpha2.ClusterNetworkPolicy) bool { return other.Name == cnp.Name }) {
		c.ClusterPolicies = append(c.ClusterPolicies, cnp)
	}
}

// editClusterPolicy changes one part of a policy, or the action of one rule.
func (g *Gen) editClusterPolicy(_ *oracle.Cluster, cnp *v1alpha2.ClusterNetworkPolicy) {
	fresh := g.clusterPolicy(cnp.Name)
	switch part := g.between(0, 5, "which part"); {
	case part == 0:
		cnp.Spec.Ingress = fresh.Spec.Ingress
	case part == 1:
		cnp.Spec.Egress = fresh.Spec.Egress
	case part == 2:
		cnp.Spec.Subject = fresh.Spec.Subject
	case part == 3:
		cnp.Spec.Tier, cnp.Spec.Priority = fresh.Spec.Tier, fresh.Spec.Priority
	case part == 4 && len(cnp.Spec.Ingress) > 0:
		cnp.Spec.Ingress[0].Action = pick(g, actions, "action")
	case len(cnp.Spec.Egress) > 0:
		cnp.Spec.Egress[0].Action = pick(g, actions, "action")
	}
}
