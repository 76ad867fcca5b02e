package gen

import (
	"reflect"
	"slices"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/network-policy-api/apis/v1alpha2"

	"github.com/winnpm/winnpm/test/oracle"
)

// Mutation draws a change of the cluster, or only of its policies, and names its kind. With tiers half of
// the changes are of ClusterNetworkPolicies and nodes. The new cluster shares unchanged objects with the
// old one, which is not modified.
func (g *Gen) Mutation(c oracle.Cluster, policiesAlone bool) (after oracle.Cluster, kind string) {
	c.Namespaces, c.Pods, c.Policies = slices.Clone(c.Namespaces), slices.Clone(c.Pods), slices.Clone(c.Policies)
	c.ClusterPolicies, c.Nodes = slices.Clone(c.ClusterPolicies), slices.Clone(c.Nodes)
	policies, tiers, others := g.mutations(&c)
	switch {
	case policiesAlone:
	case g.tiers && g.Flip("of the tiers"):
		policies = tiers
	default:
		policies = slices.Insert(others, 2, policies...) // the first ones are drawn a little more often
	}
	m := pick(g, policies, "mutation")
	m.apply()
	return c, m.kind
}

// mutation is one kind of change. It may change nothing.
type mutation struct {
	kind  string
	apply func()
}

// mutations returns the kinds of changes of a cluster. They may edit its slices, but not the objects in
// them.
func (g *Gen) mutations(c *oracle.Cluster) (policies, tiers, others []mutation) {
	pod := func(change func(pod *corev1.Pod)) func() { return func() { edit(g, c.Pods, change) } }
	policies = []mutation{
		{"policy edited", func() {
			edit(g, c.Policies, func(np *networkingv1.NetworkPolicy) { editField(g, &np.Spec, g.policy().Spec) })
		}},
		{"policy created", func() { add(&c.Policies, g.policy()) }},
		{"policy deleted", func() { remove(g, &c.Policies) }},
	}
	tiers = []mutation{
		{"cluster policy edited", func() {
			edit(g, c.ClusterPolicies, func(cnp *v1alpha2.ClusterNetworkPolicy) { editField(g, &cnp.Spec, g.clusterPolicy().Spec) })
		}},
		{"cluster policy created", func() { add(&c.ClusterPolicies, g.clusterPolicy()) }},
		{"cluster policy deleted", func() { remove(g, &c.ClusterPolicies) }},
		{"cluster policies gone", func() { c.ClusterPolicies = nil }},
		{"node changed", func() { edit(g, c.Nodes, func(n *corev1.Node) { *n = g.node(n.Name) }) }},
		{"action changed", func() { edit(g, c.ClusterPolicies, g.changeAction) }},
	}
	others = []mutation{
		{"pod created", func() { g.createPod(c) }},
		{"pod relabelled", pod(func(pod *corev1.Pod) { pod.Labels = g.labels(podLabels) })},
		{"pod deleted", func() { remove(g, &c.Pods) }},
		{"pod recreated", pod(func(pod *corev1.Pod) { *pod = g.pod(*c, pod.Namespace, pod.Name) })}, // as by a StatefulSet
		{"pod takes another's address", pod(func(pod *corev1.Pod) {
			from := pick(g, c.Pods, "whose address")
			if addr := oracle.Address(&from); addr.IsValid() && oracle.AtNode(pod) == oracle.AtNode(&from) {
				g.changeAddress(pod, addr)
			}
		})},
		{"pod changes its address", pod(func(pod *corev1.Pod) {
			if !oracle.AtNode(pod) {
				g.changeAddress(pod, g.podAddr(*c))
			}
		})},
		{"pod loses its address", pod(func(pod *corev1.Pod) { pod.Status.PodIP, pod.Status.PodIPs = "", nil })},
		{"pod finishes", pod(g.finish)},
		{"pod is being deleted", pod(g.terminate)},
		{"pod runs", pod(func(pod *corev1.Pod) {
			pod.Status.Phase = corev1.PodRunning
			if pod.Status.PodIP == "" && !oracle.AtNode(pod) {
				g.start(pod, g.podAddr(*c), false)
			}
		})},
		{"namespace relabelled", func() {
			edit(g, c.Namespaces, func(ns *corev1.Namespace) { ns.Labels = g.labels(namespaceLabels) })
		}},
		{"namespace object created", func() { add(&c.Namespaces, g.namespace(pick(g, g.namespaces, "which namespace"))) }},
		{"namespace object deleted", func() { remove(g, &c.Namespaces) }},
		{"node addresses changed", func() { c.NodeAddrs = g.nodeAddrs() }},
		{"nothing new", func() {}},
	}
	return policies, tiers, others
}

// edit changes a copy of one object.
func edit[T any, P interface {
	*T
	DeepCopy() *T
}](g *Gen, all []T, change func(*T)) {
	if len(all) > 0 {
		i := g.between(0, len(all)-1, "which object")
		object := P(&all[i]).DeepCopy()
		change(object)
		all[i] = *object
	}
}

// editField copies one drawn field of from into a spec.
func editField[T any](g *Gen, spec *T, from T) {
	i := g.between(0, reflect.TypeFor[T]().NumField()-1, "which part")
	reflect.ValueOf(spec).Elem().Field(i).Set(reflect.ValueOf(from).Field(i))
}

// changeAction changes the action of the first rule of a direction.
func (g *Gen) changeAction(cnp *v1alpha2.ClusterNetworkPolicy) {
	switch action, ingress := pick(g, actions, "action"), g.Flip("ingress"); {
	case ingress && len(cnp.Spec.Ingress) > 0:
		cnp.Spec.Ingress[0].Action = action
	case len(cnp.Spec.Egress) > 0:
		cnp.Spec.Egress[0].Action = action
	}
}

// remove removes one object.
func remove[T any](g *Gen, all *[]T) {
	if len(*all) > 0 {
		i := g.between(0, len(*all)-1, "which object")
		*all = slices.Delete(*all, i, i+1)
	}
}

// object is a pointer to an object of the API.
type object[T any] interface {
	*T
	metav1.Object
}

// add adds an object, unless its name is taken.
func add[T any, P object[T]](all *[]T, o T) {
	if !has[T, P](*all, P(&o).GetNamespace(), P(&o).GetName()) {
		*all = append(*all, o)
	}
}

// has reports whether one of the objects has the name.
func has[T any, P object[T]](all []T, namespace, name string) bool {
	return slices.ContainsFunc(all, func(o T) bool { return P(&o).GetNamespace() == namespace && P(&o).GetName() == name })
}
