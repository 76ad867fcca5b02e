package cluster

import (
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/winnpm/winnpm/pkg/desired"
	"github.com/winnpm/winnpm/tool/manifest"
)

// prune deletes the policies, pods and namespaces that are not among the objects.
func (a *applying) prune(o manifest.Objects) {
	set := maps.Clone(a.named)
	a.deletePolicies(func(name string) bool { return !set[name] })
	gone := map[string][]desired.PodKey{} // pods to delete, by owner, or by the pod itself
	for _, key := range a.podsWhere(func(p Pod) bool { return !a.kept[p.Key()] }) {
		owner := "Pod " + key.String()
		if owners := a.pods[key].Owners; len(owners) > 0 {
			owner = owners[len(owners)-1]
		}
		gone[owner] = append(gone[owner], key)
	}
	for _, owner := range slices.Sorted(maps.Keys(gone)) {
		kind, name, _ := strings.Cut(owner, " ")
		a.remove(kind, name, gone[owner])
	}
	a.pruneNamespaces(o)
}

// pruneNamespaces deletes the namespaces that are not among the objects, except namespaces in which some of
// the objects are.
func (a *applying) pruneNamespaces(o manifest.Objects) {
	used := a.inUse(o)
	for _, ns := range a.before.Namespaces {
		switch {
		case slices.ContainsFunc(o.Namespaces, func(n *corev1.Namespace) bool { return n.Name == ns.Name }):
		case !used[ns.Name]:
			delete(a.namespaces, ns.Name)
			a.remove("Namespace", ns.Name, nil)
		case len(ns.Labels) > 1: // more than its name
			a.warn("Namespace", ns.Name, reasonNamespaceKept, "it is in no file any more, and objects in it are: it is planned with the labels that it had; give its file, or take its objects out too")
		}
	}
}

// remove deletes an object with its pods. Pods that have gone with another object do not count.
func (a *applying) remove(kind, name string, pods []desired.PodKey) {
	before := len(a.pods)
	for _, key := range pods {
		delete(a.pods, key)
	}
	gone := before - len(a.pods)
	change := ObjectChange{Kind: kind, Object: name, Change: Deleted, Pods: gone, Deleted: gone}
	has := func(o ObjectChange) bool { return o.Kind == kind && o.Object == name }
	if i := slices.IndexFunc(a.objects, has); i >= 0 { // some of its pods stay
		a.objects[i].Change, a.objects[i].Pods, a.objects[i].Deleted = Changed, a.objects[i].Pods+gone, a.objects[i].Deleted+gone
		return
	}
	a.objects = append(a.objects, change)
}

func (a *applying) delete(o manifest.Objects) error {
	for i := range o.Workloads {
		w := &o.Workloads[i]
		pods, _ := a.podsOf(w)
		if len(pods) == 0 {
			a.warn(w.Kind, w.Namespace+"/"+w.Name, reasonNoPods, "it has no pods here, so deleting it changes nothing; check namespace and name")
		}
		a.remove(w.Kind, w.Namespace+"/"+w.Name, pods)
	}
	for _, p := range o.Pods {
		key := desired.PodKey{Namespace: p.Namespace, Name: p.Name}
		if _, was := a.old[key]; !was {
			return GoneError("Pod " + key.String())
		}
		a.remove("Pod", key.String(), []desired.PodKey{key})
	}
	for _, n := range o.Nodes {
		if old, is := a.nodes[n.Name]; !is || old.Unlisted {
			return GoneError("Node " + n.Name)
		}
		delete(a.nodes, n.Name)
		a.remove("Node", n.Name, nil)
	}
	for _, ns := range o.Namespaces {
		if _, ok := a.namespaces[ns.Name]; !ok {
			return GoneError("Namespace " + ns.Name)
		}
		delete(a.namespaces, ns.Name)
		a.remove("Namespace", ns.Name, a.podsWhere(func(p Pod) bool { return p.Namespace == ns.Name }))
	}
	gone := map[string]bool{}
	for _, np := range o.Policies {
		if gone[nameOf(np)] = true; a.policies[nameOf(np)] == nil {
			return GoneError("NetworkPolicy " + nameOf(np))
		}
	}
	for _, cnp := range o.ClusterPolicies {
		if gone[nameOfCluster(cnp)] = true; a.clusterPolicies[nameOfCluster(cnp)] == nil {
			return GoneError("ClusterNetworkPolicy " + cnp.Name)
		}
	}
	a.deletePolicies(func(name string) bool {
		namespace, _, _ := strings.Cut(name, "/")
		return gone[name] || slices.ContainsFunc(o.Namespaces, func(ns *corev1.Namespace) bool { return ns.Name == namespace })
	})
	return nil
}

// deletePolicies deletes the policies for whose name the given function returns true.
func (a *applying) deletePolicies(gone func(name string) bool) {
	for name := range a.before.Specs() {
		if gone(name) {
			a.named[name] = true
			delete(a.policies, name)
			delete(a.clusterPolicies, name)
		}
	}
}
