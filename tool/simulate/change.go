package simulate

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"reflect"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"sigs.k8s.io/network-policy-api/apis/v1alpha2"

	"github.com/winnpm/winnpm/pkg/controllers"
	"github.com/winnpm/winnpm/pkg/desired"
	"github.com/winnpm/winnpm/pkg/state"
	"github.com/winnpm/winnpm/tool/manifest"
	"github.com/winnpm/winnpm/tool/whatif"
)

// The reasons of warnings about objects that a plan ignores or leaves unchanged.
const (
	reasonNotPlanned    state.Reason = "NotPlanned"
	reasonNoPods        state.Reason = "NoPods"
	reasonNamespaceKept state.Reason = "NamespaceKept"
)

// ChangeOptions say how Apply uses the objects.
type ChangeOptions struct {
	// Delete deletes the objects, and everything in their namespaces, instead of applying them.
	Delete bool
	// Prune deletes all objects of the world that are not among the objects to apply, except nodes.
	Prune bool
	// Node is the node of new pods that name none.
	Node string
	// OneNode excludes nodes that the world does not have from the plan.
	OneNode bool
}

// GoneError is the error for an object to delete that does not exist. It holds the kind and namespace/name
// or the name, as the keys of manifest.Objects.Places do.
type GoneError string

func (e GoneError) Error() string {
	if strings.HasPrefix(string(e), "ClusterNetworkPolicy ") {
		return string(e) + " is not there, so there is nothing to delete; check its name"
	}
	return string(e) + " is not there, so there is nothing to delete; check namespace and name"
}

// Apply returns the change of a world by objects that were read with manifest.Options.Change. An object
// replaces the existing one of its kind and name. An existing pod keeps its address, its node and its
// phase. Apply fails with a GoneError, or with an error of package manifest if a workload has too many
// pods.
func Apply(w whatif.World, o manifest.Objects, how ChangeOptions) (whatif.Change, error) {
	a := newApplying(w, how, o.Makers)
	const dump = "it is left out, as a dump does not say %s; take the cluster of --kubeconfig or --manifests"
	if w.OwnersUnknown {
		for _, of := range o.Workloads {
			a.warn(of.Kind, of.Namespace+"/"+of.Name, reasonNotPlanned, fmt.Sprintf(dump, "which pods are whose"))
		}
		o.Workloads = nil
	}
	if w.PeersUnknown {
		for _, n := range o.Nodes {
			a.warn("Node", n.Name, reasonNotPlanned, fmt.Sprintf(dump, "which nodes there are"))
		}
		o.Nodes = nil
	}
	var err error
	if how.Delete {
		err = a.delete(o)
	} else {
		err = a.set(o)
	}
	if err != nil {
		return whatif.Change{}, err
	}
	if how.Prune {
		a.prune(o)
	}
	return whatif.Change{After: a.world(), Named: slices.Sorted(maps.Keys(a.named)), Objects: a.objects, Warnings: a.warnings}, nil
}

// specs returns the specs of the policies among objects, with the keys of whatif.World.Specs.
func specs(o manifest.Objects) map[string]any {
	return whatif.World{Policies: o.Policies, ClusterPolicies: o.ClusterPolicies}.Specs()
}

// removePolicies removes the policies with the given keys.
func (a *applying) removePolicies(specs map[string]any) {
	for name := range specs {
		a.named[name] = true
	}
	gone := func(name string) bool { _, is := specs[name]; return is }
	a.after.Policies = slices.DeleteFunc(slices.Clone(a.after.Policies), func(np *networkingv1.NetworkPolicy) bool { return gone(np.Namespace + "/" + np.Name) })
	a.after.ClusterPolicies = slices.DeleteFunc(slices.Clone(a.after.ClusterPolicies), func(cnp *v1alpha2.ClusterNetworkPolicy) bool { return gone(whatif.ClusterPrefix + cnp.Name) })
}

func (a *applying) deletePolicies(o manifest.Objects) error {
	remove, have := specs(o), a.before.Specs()
	for _, name := range slices.Sorted(maps.Keys(remove)) {
		if _, is := have[name]; !is {
			return GoneError(strings.Replace("NetworkPolicy "+name, "NetworkPolicy "+whatif.ClusterPrefix, "ClusterNetworkPolicy ", 1))
		}
	}
	for name, spec := range have {
		namespace, _, _ := strings.Cut(name, "/")
		if slices.ContainsFunc(o.Namespaces, func(ns *corev1.Namespace) bool { return ns.Name == namespace }) {
			remove[name] = spec
		}
	}
	a.removePolicies(remove)
	return nil
}

// applying is a world while Apply changes it.
type applying struct {
	how        ChangeOptions
	before     whatif.World
	old        map[desired.PodKey]bool // the pods of before
	pods       map[desired.PodKey]whatif.Pod
	kept       map[desired.PodKey]bool // pods that Prune must not delete
	named      map[string]bool         // the policies that the change sets or deletes
	namespaces map[string]desired.Namespace
	after      whatif.World // without its pods and namespaces, which world() adds
	addrs      *manifest.Addresses
	makers     map[string]string // of the world before and of the objects
	newNodes   []string
	objects    []whatif.ObjectChange
	warnings   []state.Warning
	warned     map[string]bool // by owner: warned about host-network pods
}

func newApplying(w whatif.World, how ChangeOptions, makers map[string]string) *applying {
	a := &applying{
		how: how, before: w, after: w, old: map[desired.PodKey]bool{}, pods: map[desired.PodKey]whatif.Pod{}, kept: map[desired.PodKey]bool{}, namespaces: map[string]desired.Namespace{}, named: map[string]bool{},
		warned: map[string]bool{}, makers: union(w.Makers, makers),
	}
	var taken []netip.Addr
	for _, p := range w.Pods {
		a.pods[p.Key()], a.old[p.Key()] = p, true
		taken = append(taken, p.Addr)
	}
	for _, n := range w.Peers {
		taken = append(taken, n.Addrs...)
	}
	for _, ns := range w.Namespaces {
		a.namespaces[ns.Name] = ns
	}
	a.after.Peers, a.after.Nodes = slices.Clone(w.Peers), slices.Clone(w.Nodes)
	a.addrs = manifest.NewAddresses(manifest.Objects{}, taken...)
	return a
}

// union returns the entries of both maps. Entries of b replace entries of a.
func union(a, b map[string]string) map[string]string {
	out := map[string]string{}
	maps.Copy(out, a)
	maps.Copy(out, b)
	return out
}

// world returns the world after the change. The nodes of new pods are part of the plan, unless OneNode is
// set.
func (a *applying) world() whatif.World {
	a.after.Pods = slices.SortedFunc(maps.Values(a.pods), func(a, b whatif.Pod) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	a.after.Namespaces = slices.SortedFunc(maps.Values(a.namespaces), func(a, b desired.Namespace) int { return cmp.Compare(a.Name, b.Name) })
	if !a.how.OneNode && !a.before.OwnersUnknown {
		a.after.AddNodes()
	}
	return a.after
}

// compareKeys sorts web-9 before web-10.
func compareKeys(a, b desired.PodKey) int {
	return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(len(a.Name), len(b.Name)), cmp.Compare(a.Name, b.Name))
}

// podsWhere returns the sorted keys of the pods for which the given function returns true.
func (a *applying) podsWhere(is func(whatif.Pod) bool) []desired.PodKey {
	var out []desired.PodKey
	for key, p := range a.pods {
		if is(p) {
			out = append(out, key)
		}
	}
	slices.SortFunc(out, compareKeys)
	return out
}

func (a *applying) warn(kind, object string, reason state.Reason, message string) {
	a.warnings = append(a.warnings, state.Warning{Object: object, Kind: kind, Reason: reason, Message: message})
}

func (a *applying) set(o manifest.Objects) error {
	a.removePolicies(specs(o))
	a.after.Policies = append(a.after.Policies, o.Policies...)
	a.after.ClusterPolicies = append(a.after.ClusterPolicies, o.ClusterPolicies...)
	a.setNamespaces(o.Namespaces)
	a.setNodes(o.Nodes)
	for _, p := range o.Pods {
		a.warnPod(p)
		change := whatif.ObjectChange{Kind: "Pod", Object: p.Namespace + "/" + p.Name, Change: a.setPod(p), Pods: 1}
		if change.Change == whatif.IsNew {
			change.New = 1
		}
		a.objects = append(a.objects, change)
	}
	for i := range o.Workloads {
		if err := a.setWorkload(&o.Workloads[i]); err != nil {
			return err
		}
	}
	// Count the pods of namespaces now that all pods are set.
	for i := range a.objects {
		if c := &a.objects[i]; c.Kind == "Namespace" {
			c.Pods = len(a.podsWhere(func(p whatif.Pod) bool { return p.Namespace == c.Object }))
		}
	}
	return nil
}

// setNamespaces sets the labels of namespaces. Labels that were not set by an earlier apply are kept.
func (a *applying) setNamespaces(list []*corev1.Namespace) {
	for _, n := range list {
		ns := desired.Namespace{Name: n.Name, Labels: union(a.before.OthersLabels[n.Name], n.Labels)}
		ns.Fit()
		old, there := a.namespaces[ns.Name]
		a.namespaces[ns.Name] = ns
		a.objects = append(a.objects, whatif.ObjectChange{Kind: "Namespace", Object: ns.Name, Change: whatif.ChangeOf(there, true, old.Same(&ns))})
	}
}

// setNodes sets the labels of nodes. In a cluster a node keeps its other labels and its addresses, which
// its kubelet sets.
func (a *applying) setNodes(list []*corev1.Node) {
	for _, n := range list {
		node := controllers.ClusterNode(n)
		i := slices.IndexFunc(a.after.Peers, func(p state.NodeDump) bool { return p.Name == node.Name })
		if i < 0 {
			a.after.Peers = append(a.after.Peers, node)
			if ofInterest(n) && !a.how.OneNode {
				a.after.Nodes = append(a.after.Nodes, whatif.Node{Name: n.Name, Addrs: controllers.NodeAddrs(n)})
			}
			a.newNodes = append(a.newNodes, node.Name)
			a.objects = append(a.objects, whatif.ObjectChange{Kind: "Node", Object: node.Name, Change: whatif.IsNew})
			continue
		}
		old := a.after.Peers[i]
		if !a.before.FromManifests {
			node.Labels, node.Addrs = union(old.Labels, node.Labels), old.Addrs
		}
		a.after.Peers[i] = node
		if at := slices.IndexFunc(a.after.Nodes, func(w whatif.Node) bool { return w.Name == n.Name }); at >= 0 && a.before.FromManifests {
			a.after.Nodes[at].Addrs = controllers.NodeAddrs(n)
		}
		a.objects = append(a.objects, whatif.ObjectChange{Kind: "Node", Object: node.Name, Change: whatif.ChangeOf(true, true, old.Same(&node))})
	}
}

// warnPod warns about a pod of the objects whose planned effects may differ from the real ones.
func (a *applying) warnPod(p *corev1.Pod) {
	old, there := a.pods[desired.PodKey{Namespace: p.Namespace, Name: p.Name}]
	switch {
	case !there && !reflect.ValueOf(p.Status).IsZero() && (p.Status.PodIP == "" || p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed):
		a.warn("Pod", p.Namespace+"/"+p.Name, reasonNotPlanned, "its status says that it has finished, or has no address, so its connections are not counted; what applies it drops the status: leave it out")
	case a.before.FromManifests && len(old.Owners) > 0 && len(Owners(p, a.makers)) == 0:
		a.warn("Pod", p.Namespace+"/"+p.Name, reasonNotPlanned, fmt.Sprintf("it has the name of a pod that is made up for %s, which would make another one; give the Pod another name", strings.Join(old.Owners, ", ")))
	}
}

// warnHostNetwork warns about a pod that is new in the host network, or moves into it. It warns once for
// all pods of a workload.
func (a *applying) warnHostNetwork(p *whatif.Pod) {
	kind, object := "Pod", p.Key().String()
	if len(p.Owners) > 0 { // one warning for all of its pods
		kind, object, _ = strings.Cut(p.Owners[len(p.Owners)-1], " ")
	}
	if who := kind + " " + object; !a.warned[who] {
		a.warned[who] = true
		a.warn(kind, object, reasonNotPlanned, "it uses its node's network: no policy holds for it, it may reach every pod of its node, and its connections are not counted")
	}
}

// setPod sets a pod of the world to the one of a manifest, and returns what the change is. An existing pod
// keeps the labels that its controller added.
func (a *applying) setPod(p *corev1.Pod) string {
	pod := whatif.Pod{Pod: controllers.PodFrom(p, p.Spec.NodeName), Node: cmp.Or(p.Spec.NodeName, a.how.Node), Owners: Owners(p, a.makers)}
	old, there := a.pods[pod.Key()]
	unaddressed := reflect.ValueOf(p.Status).IsZero()
	if there {
		said := pod
		pod = old
		pod.Labels, pod.Ports, pod.HostNetwork, pod.OverBudget = a.withControllers(said.Labels, old.Labels), said.Ports, said.HostNetwork, ""
		if unaddressed = old.HostNetwork && !pod.HostNetwork; !old.HostNetwork && pod.HostNetwork {
			pod.Addr = netip.Addr{}
		}
	}
	if pod.HostNetwork && (!there || !old.HostNetwork) {
		a.warnHostNetwork(&pod)
	}
	if unaddressed && !pod.HostNetwork && !pod.Finished {
		pod.Addr, _ = netip.ParseAddr(a.addrs.Of(pod.Namespace, pod.Name)) // it is a valid address
	}
	pod.Fit()
	a.pods[pod.Key()], a.kept[pod.Key()] = pod, true
	return whatif.ChangeOf(there, true, old.Same(&pod.Pod))
}

// prune deletes the policies, pods and namespaces that are not among the objects.
func (a *applying) prune(o manifest.Objects) {
	old := a.before.Specs()
	maps.DeleteFunc(old, func(name string, _ any) bool { return a.named[name] })
	a.removePolicies(old)
	gone := map[string][]desired.PodKey{} // pods to delete, by owner, or by the pod itself
	for _, key := range a.podsWhere(func(p whatif.Pod) bool { return !a.kept[p.Key()] }) {
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
	used := map[string]bool{}
	for _, np := range o.Policies {
		used[np.Namespace] = true
	}
	for _, w := range o.Workloads {
		used[w.Namespace] = true
	}
	for key := range a.pods {
		used[key.Namespace] = true
	}
	for _, ns := range a.before.Namespaces {
		switch {
		case slices.ContainsFunc(o.Namespaces, func(n *corev1.Namespace) bool { return n.Name == ns.Name }):
		case !used[ns.Name]:
			delete(a.namespaces, ns.Name)
			a.objects = append(a.objects, whatif.ObjectChange{Kind: "Namespace", Object: ns.Name, Change: whatif.Deleted})
		case len(ns.Labels) > 1: // more than its name
			a.warn("Namespace", ns.Name, reasonNamespaceKept, "it is in no file any more, and objects in it are: it is planned with the labels that it had; give its file, or take its objects out too")
		}
	}
}

func (a *applying) remove(kind, name string, pods []desired.PodKey) {
	for _, key := range pods {
		delete(a.pods, key)
	}
	change := whatif.ObjectChange{Kind: kind, Object: name, Change: whatif.Deleted, Pods: len(pods), Deleted: len(pods)}
	has := func(o whatif.ObjectChange) bool { return o.Kind == kind && o.Object == name }
	if i := slices.IndexFunc(a.objects, has); i >= 0 { // some of its pods stay
		a.objects[i].Change, a.objects[i].Pods, a.objects[i].Deleted = whatif.Changed, a.objects[i].Pods+len(pods), a.objects[i].Deleted+len(pods)
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
		if !a.old[key] {
			return GoneError("Pod " + key.String())
		}
		a.remove("Pod", key.String(), a.podsWhere(func(p whatif.Pod) bool { return p.Key() == key }))
	}
	if err := a.deleteNodes(o.Nodes); err != nil {
		return err
	}
	for _, ns := range o.Namespaces {
		if _, ok := a.namespaces[ns.Name]; !ok {
			return GoneError("Namespace " + ns.Name)
		}
		delete(a.namespaces, ns.Name)
		a.remove("Namespace", ns.Name, a.podsWhere(func(p whatif.Pod) bool { return p.Namespace == ns.Name }))
	}
	return a.deletePolicies(o)
}

func (a *applying) deleteNodes(list []*corev1.Node) error {
	for _, n := range list {
		i := slices.IndexFunc(a.after.Peers, func(p state.NodeDump) bool { return p.Name == n.Name })
		if i < 0 {
			return GoneError("Node " + n.Name)
		}
		a.after.Peers = slices.Delete(a.after.Peers, i, i+1)
		a.after.Nodes = slices.DeleteFunc(a.after.Nodes, func(w whatif.Node) bool { return w.Name == n.Name })
		a.objects = append(a.objects, whatif.ObjectChange{Kind: "Node", Object: n.Name, Change: whatif.Deleted})
	}
	return nil
}
