package gen

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/winnpm/winnpm/test/oracle"
)

// Mutation is one change of a cluster.
type Mutation struct {
	Kind string
	// After is the cluster as it is then. It shares the objects that did not
	// change with the cluster before, which is left as it was.
	After oracle.Cluster
}

// mutation is one kind of change. It changes a cluster whose slices it may edit,
// never the objects in them; it reports false if there was nothing to change.
type mutation struct {
	kind  string
	apply func(*Gen, *oracle.Cluster) bool
}

var mutations = []mutation{
	{"pod created", (*Gen).createPod},
	{"pod relabelled", editPod((*Gen).relabel)},
	{"policy edited", (*Gen).editPolicy},
	{"policy created", (*Gen).createPolicy},
	{"policy deleted", (*Gen).deletePolicy},
	{"pod deleted", (*Gen).deletePod},
	{"pod recreated", editPod((*Gen).recreate)},
	{"pod takes another's address", editPod((*Gen).steal)},
	{"pod changes its address", editPod((*Gen).move)},
	{"pod loses its address", editPod((*Gen).lose)},
	{"pod finishes", editPod((*Gen).finish)},
	{"pod is being deleted", editPod((*Gen).terminate)},
	{"pod runs", editPod((*Gen).run)},
	{"namespace relabelled", (*Gen).relabelNamespace},
	{"namespace object created", (*Gen).createNamespace},
	{"namespace object deleted", (*Gen).deleteNamespace},
	{"node addresses changed", (*Gen).changeNode},
	{"nothing new", func(*Gen, *oracle.Cluster) bool { return true }},
}

// Mutation draws a change of the cluster. With tiers every second one is of the objects
// that make them.
func (g *Gen) Mutation(c oracle.Cluster) Mutation {
	if g.tiers && g.Flip("of the tiers") {
		return g.mutate(c, pick(g, tierMutations, "mutation"))
	}
	return g.mutate(c, pick(g, mutations, "mutation"))
}

// PolicyMutation draws a change of one of the cluster's policies.
func (g *Gen) PolicyMutation(c oracle.Cluster) Mutation {
	ofPolicies := slices.DeleteFunc(slices.Clone(mutations), func(m mutation) bool { return !strings.HasPrefix(m.kind, "policy ") })
	return g.mutate(c, pick(g, ofPolicies, "mutation"))
}

func (g *Gen) mutate(c oracle.Cluster, m mutation) Mutation {
	after := c
	after.Namespaces, after.Pods = slices.Clone(c.Namespaces), slices.Clone(c.Pods)
	after.Policies, after.NodeAddrs = slices.Clone(c.Policies), slices.Clone(c.NodeAddrs)
	after.ClusterPolicies, after.Nodes = slices.Clone(c.ClusterPolicies), slices.Clone(c.Nodes)
	if !m.apply(g, &after) {
		return Mutation{Kind: "nothing new", After: after}
	}
	return Mutation{Kind: m.kind, After: after}
}

// editPod makes a mutation of one that changes a copy of a pod.
func editPod(edit func(*Gen, oracle.Cluster, *corev1.Pod) bool) func(*Gen, *oracle.Cluster) bool {
	return func(g *Gen, c *oracle.Cluster) bool {
		i, ok := g.index(len(c.Pods), "which pod")
		if !ok {
			return false
		}
		pod := c.Pods[i].DeepCopy()
		if !edit(g, *c, pod) {
			return false
		}
		c.Pods[i] = *pod
		return true
	}
}

// index draws an index of a slice; there is none if it is empty.
func (g *Gen) index(length int, what string) (int, bool) {
	if length == 0 {
		return 0, false
	}
	return g.between(0, length-1, what), true
}

func (g *Gen) createPod(c *oracle.Cluster) bool {
	c.Pods = append(c.Pods, g.pod(*c, g.newPodKey(*c)))
	return true
}

func (g *Gen) deletePod(c *oracle.Cluster) bool {
	i, ok := g.index(len(c.Pods), "which pod")
	if ok {
		c.Pods = slices.Delete(c.Pods, i, i+1)
	}
	return ok
}

func (g *Gen) relabel(_ oracle.Cluster, pod *corev1.Pod) bool {
	pod.Labels = g.labels(podLabels)
	return true
}

// recreate is what a StatefulSet does: another pod under the same name.
func (g *Gen) recreate(c oracle.Cluster, pod *corev1.Pod) bool {
	*pod = g.pod(c, types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name})
	return true
}

func (g *Gen) steal(c oracle.Cluster, pod *corev1.Pod) bool {
	i := g.between(0, len(c.Pods)-1, "whose address")
	addr := oracle.Address(&c.Pods[i])
	atNode := oracle.AtNode(pod)
	if !addr.IsValid() || atNode != oracle.AtNode(&c.Pods[i]) {
		return false
	}
	pod.Status = corev1.PodStatus{Phase: pod.Status.Phase}
	if atNode {
		g.startAtNode(pod, addr)
	} else {
		g.start(pod, addr)
	}
	return true
}

func (g *Gen) move(c oracle.Cluster, pod *corev1.Pod) bool {
	if oracle.AtNode(pod) {
		return false
	}
	pod.Status = corev1.PodStatus{Phase: pod.Status.Phase}
	g.start(pod, g.podAddr(c))
	return true
}

func (g *Gen) lose(_ oracle.Cluster, pod *corev1.Pod) bool {
	pod.Status.PodIP, pod.Status.PodIPs = "", nil
	return true
}

func (g *Gen) finish(_ oracle.Cluster, pod *corev1.Pod) bool {
	pod.Status.Phase = pick(g, []corev1.PodPhase{corev1.PodSucceeded, corev1.PodFailed}, "phase")
	return true
}

func (g *Gen) terminate(_ oracle.Cluster, pod *corev1.Pod) bool {
	deleted := g.minute("deleted")
	pod.DeletionTimestamp = &deleted
	return true
}

func (g *Gen) run(c oracle.Cluster, pod *corev1.Pod) bool {
	pod.Status.Phase = corev1.PodRunning
	if pod.Status.PodIP == "" && !oracle.AtNode(pod) {
		g.start(pod, g.podAddr(c))
	}
	return true
}

func (g *Gen) createPolicy(c *oracle.Cluster) bool {
	np, ok := g.newPolicy(*c)
	if ok {
		c.Policies = append(c.Policies, np)
	}
	return ok
}

func (g *Gen) deletePolicy(c *oracle.Cluster) bool {
	i, ok := g.index(len(c.Policies), "which policy")
	if ok {
		c.Policies = slices.Delete(c.Policies, i, i+1)
	}
	return ok
}

// editPolicy changes one part of a policy and keeps the rest.
func (g *Gen) editPolicy(c *oracle.Cluster) bool {
	i, ok := g.index(len(c.Policies), "which policy")
	if !ok {
		return false
	}
	np := c.Policies[i].DeepCopy()
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
	c.Policies[i] = *np
	return true
}

func (g *Gen) relabelNamespace(c *oracle.Cluster) bool {
	i, ok := g.index(len(c.Namespaces), "which namespace")
	if ok {
		c.Namespaces[i] = g.namespace(c.Namespaces[i].Name)
	}
	return ok
}

func (g *Gen) createNamespace(c *oracle.Cluster) bool {
	name := pick(g, g.namespaces, "which namespace")
	if slices.ContainsFunc(c.Namespaces, func(ns corev1.Namespace) bool { return ns.Name == name }) {
		return false
	}
	c.Namespaces = append(c.Namespaces, g.namespace(name))
	return true
}

func (g *Gen) deleteNamespace(c *oracle.Cluster) bool {
	i, ok := g.index(len(c.Namespaces), "which namespace")
	if ok {
		c.Namespaces = slices.Delete(c.Namespaces, i, i+1)
	}
	return ok
}

func (g *Gen) changeNode(c *oracle.Cluster) bool {
	c.NodeAddrs = g.nodeAddrs()
	return true
}
