package cluster

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"hash/fnv"
	"maps"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/network-policy-api/apis/v1alpha2"

	"github.com/winnpm/winnpm/pkg/desired"
	"github.com/winnpm/winnpm/pkg/state"
	"github.com/winnpm/winnpm/tool/manifest"
)

// Change is a change of a world.
type Change struct {
	// After is the world after the change.
	After World
	// Named are the policies that the change sets or deletes, named as the keys of World.Specs.
	Named []string
	// Objects are the changes of objects other than policies. Warnings are about objects that the plan
	// treats otherwise than a user would expect.
	Objects  []ObjectChange
	Warnings []state.Warning
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

// The changes of an object.
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
}

// GoneError is the error for an object to delete that does not exist. It holds the kind and namespace/name
// or the name, as manifest.Objects.Place takes them.
type GoneError string

func (e GoneError) Error() string {
	if strings.HasPrefix(string(e), "ClusterNetworkPolicy ") {
		return string(e) + " is not there, so there is nothing to delete; check its name"
	}
	return string(e) + " is not there, so there is nothing to delete; check namespace and name"
}

// Apply returns the change of a world by objects. An object replaces the existing one of its kind and name.
// An existing pod keeps its address, its node and its phase. Apply fails with a GoneError, or with an error
// of package manifest if a workload has too many pods.
func Apply(w World, o manifest.Objects, how ChangeOptions) (Change, error) {
	a := newApplying(w, o)
	// The pods of an owned workload are those of its owner.
	o.Workloads = slices.DeleteFunc(slices.Clone(o.Workloads), func(of manifest.Workload) bool { return o.Makers[of.ID()] != "" })
	const dump = "it is left out, as a dump does not say %s; take the cluster of --kubeconfig or --manifests"
	if w.OwnersUnknown {
		for _, of := range o.Workloads {
			a.warn(of.Kind, of.Namespace+"/"+of.Name, reasonNotPlanned, fmt.Sprintf(dump, "which pods are whose"))
		}
		o.Workloads = nil
	}
	if w.NodesUnknown {
		for _, n := range o.Nodes {
			a.warn("Node", n.Name, reasonNotPlanned, fmt.Sprintf(dump, "which nodes there are"))
		}
		o.Nodes = nil
	}
	var err error
	if how.Delete {
		err = a.delete(o)
	} else {
		for _, p := range o.Pods {
			a.warnPod(p)
		}
		err = a.set(o)
	}
	if err != nil {
		return Change{}, err
	}
	if how.Prune {
		a.prune(o)
	}
	return Change{After: a.world(), Named: slices.Sorted(maps.Keys(a.named)), Objects: a.objects, Warnings: a.warnings}, nil
}

// FromManifests returns the world that a cluster has after its objects were applied to an empty one. Only
// the pods of workloads without any pod in the objects are made up. It fails with an error of package
// manifest if a workload has too many pods.
func FromManifests(o manifest.Objects, node string) (World, error) {
	a := newApplying(World{FromManifests: true, Node: node, Services: o.Services, Places: o.Places}, o)
	made := map[string]bool{}
	for _, p := range o.Pods {
		for _, owner := range owners(p, o.Makers) {
			made[owner] = true
		}
	}
	for _, owner := range o.Makers {
		made[owner] = true
	}
	making := o
	making.Workloads = slices.DeleteFunc(slices.Clone(o.Workloads), func(of manifest.Workload) bool { return made[of.ID()] })
	if err := a.set(making); err != nil {
		return World{}, err
	}
	for name := range a.inUse(o) {
		if _, defined := a.namespaces[name]; !defined {
			a.namespaces[name] = desired.Namespace{Name: name, Labels: map[string]string{corev1.LabelMetadataName: name}}
		}
	}
	return a.world(), nil
}

// applying is a world while objects change it.
type applying struct {
	before     World
	old        map[desired.PodKey]Pod // the pods of before
	pods       map[desired.PodKey]Pod
	owned      map[string][]desired.PodKey // pods by owner, deleted ones included
	kept       map[desired.PodKey]bool     // pods that prune must not delete
	named      map[string]bool             // the policies that the change sets or deletes
	nodes      map[string]Node
	namespaces map[string]desired.Namespace
	// policies and clusterPolicies have the keys of World.Specs.
	policies        map[string]*networkingv1.NetworkPolicy
	clusterPolicies map[string]*v1alpha2.ClusterNetworkPolicy
	after           World               // without what is in the maps, which world() adds
	taken           map[netip.Addr]bool // addresses that no new pod gets
	newNodes        []string
	objects         []ObjectChange
	warnings        []state.Warning
	warned          map[state.Warning]bool // the warnings, and those of before
}

func newApplying(w World, o manifest.Objects) *applying {
	a := &applying{
		before: w, after: w, owned: map[string][]desired.PodKey{}, kept: map[desired.PodKey]bool{}, named: map[string]bool{}, taken: map[netip.Addr]bool{},
		old: index(w.Pods, Pod.Key), pods: index(w.Pods, Pod.Key),
		nodes:           index(w.Nodes, func(n Node) string { return n.Name }),
		namespaces:      index(w.Namespaces, func(ns desired.Namespace) string { return ns.Name }),
		policies:        index(w.Policies, nameOf),
		clusterPolicies: index(w.ClusterPolicies, nameOfCluster),
		warned:          map[state.Warning]bool{},
	}
	for _, warning := range w.Warnings {
		a.warned[warning] = true
	}
	a.after.Makers = union(w.Makers, o.Makers)
	for _, p := range w.Pods {
		a.taken[p.Addr] = true
		a.own(&p)
	}
	nodes := slices.Clone(w.Nodes)
	for _, n := range o.Nodes {
		nodes = append(nodes, nodeOf(n))
	}
	for _, n := range nodes {
		for _, addr := range n.Addrs {
			a.taken[addr] = true
		}
	}
	for _, p := range o.Pods {
		for _, ip := range append(p.Status.PodIPs, corev1.PodIP{IP: p.Status.PodIP}, corev1.PodIP{IP: p.Status.HostIP}) {
			addr, _ := netip.ParseAddr(ip.IP) // the zero address is no pod's
			a.taken[addr] = true
		}
	}
	return a
}

// own records the owners of a pod.
func (a *applying) own(p *Pod) {
	for _, owner := range p.Owners {
		a.owned[owner] = append(a.owned[owner], p.Key())
	}
}

// index returns the entries of a list by their keys.
func index[K comparable, T any](list []T, key func(T) K) map[K]T {
	out := map[K]T{}
	for _, v := range list {
		out[key(v)] = v
	}
	return out
}

// newAddr returns an address for a pod, and takes it. It is in 10.224.0.0/12, without the first and the last
// of each 256. It is a function of the pod's name, unless that address is taken.
func (a *applying) newAddr(pod desired.PodKey) netip.Addr {
	const size = 1 << 12 * 254
	h := fnv.New64a()
	_, _ = h.Write([]byte(pod.String())) // never fails
	for i := h.Sum64() % size; ; i = (i + 1) % size {
		high, low := i/254, i%254+1
		addr := netip.AddrFrom4([4]byte{10, byte(224 + high>>8), byte(high), byte(low)})
		if !a.taken[addr] {
			a.taken[addr] = true
			return addr
		}
	}
}

// union returns the entries of both maps. Entries of b replace entries of a.
func union(a, b map[string]string) map[string]string {
	out := map[string]string{}
	maps.Copy(out, a)
	maps.Copy(out, b)
	return out
}

// world returns the world after the change. The nodes of new pods are part of it.
func (a *applying) world() World {
	a.after.Pods = slices.SortedFunc(maps.Values(a.pods), func(a, b Pod) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	a.after.Nodes, a.after.Namespaces = sorted(a.nodes), sorted(a.namespaces)
	a.after.Policies, a.after.ClusterPolicies = sorted(a.policies), sorted(a.clusterPolicies)
	a.after.AddNodes()
	return a.after
}

// sorted returns the values of a map, sorted by key.
func sorted[T any](m map[string]T) (out []T) {
	for _, key := range slices.Sorted(maps.Keys(m)) {
		out = append(out, m[key])
	}
	return out
}

// compareKeys sorts web-9 before web-10.
func compareKeys(a, b desired.PodKey) int {
	return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(len(a.Name), len(b.Name)), cmp.Compare(a.Name, b.Name))
}

// podsWhere returns the sorted keys of the pods for which the given function returns true.
func (a *applying) podsWhere(is func(Pod) bool) []desired.PodKey {
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
	w := state.Warning{Object: object, Kind: kind, Reason: reason, Message: message}
	if !a.warned[w] {
		a.warned[w], a.warnings = true, append(a.warnings, w)
	}
}

func (a *applying) set(o manifest.Objects) error {
	for _, np := range o.Policies {
		a.policies[nameOf(np)], a.named[nameOf(np)] = np, true
	}
	for _, cnp := range o.ClusterPolicies {
		a.clusterPolicies[nameOfCluster(cnp)], a.named[nameOfCluster(cnp)] = cnp, true
	}
	a.setNamespaces(o.Namespaces)
	a.setNodes(o.Nodes)
	for _, p := range o.Pods {
		change := ObjectChange{Kind: "Pod", Object: p.Namespace + "/" + p.Name, Change: a.setPod(p), Pods: 1}
		if change.Change == IsNew {
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
	count := map[string]int{}
	for key := range a.pods {
		count[key.Namespace]++
	}
	for i := range a.objects {
		if c := &a.objects[i]; c.Kind == "Namespace" {
			c.Pods = count[c.Object]
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
		a.objects = append(a.objects, ObjectChange{Kind: "Namespace", Object: ns.Name, Change: ChangeOf(there, true, old.Same(&ns))})
	}
}

// inUse returns the namespaces of pods, and of objects to apply.
func (a *applying) inUse(o manifest.Objects) map[string]bool {
	used := map[string]bool{}
	for key := range a.pods {
		used[key.Namespace] = true
	}
	for _, np := range o.Policies {
		used[np.Namespace] = true
	}
	for _, of := range o.Workloads {
		used[of.Namespace] = true
	}
	return used
}

// setNodes sets the labels of nodes. In a cluster a node keeps its other labels and its addresses, which
// its kubelet sets.
func (a *applying) setNodes(list []*corev1.Node) {
	for _, n := range list {
		node := nodeOf(n)
		old, there := a.nodes[n.Name]
		if there = there && !old.Unlisted; !there {
			a.newNodes = append(a.newNodes, n.Name)
		} else if !a.before.FromManifests {
			node.Labels, node.Addrs, node.Internal, node.Linux = union(old.Labels, node.Labels), old.Addrs, old.Internal, old.Linux
		}
		a.nodes[n.Name] = node
		a.objects = append(a.objects, ObjectChange{Kind: "Node", Object: n.Name, Change: ChangeOf(there, true, old.Same(&node.NodeDump))})
	}
}

// warnPod warns about a pod of the objects whose planned effects may differ from the real ones.
func (a *applying) warnPod(p *corev1.Pod) {
	said := PodOf(p, a.after.Makers)
	old, there := a.pods[said.Key()]
	w, only6 := ipv6Warning(p, &said)
	switch {
	case only6:
		a.warn(w.Kind, w.Object, w.Reason, w.Message)
	case !there && !reflect.ValueOf(p.Status).IsZero() && (said.Finished || !said.Addr.IsValid() && !said.HostNetwork):
		a.warn("Pod", said.Key().String(), reasonNotPlanned, "its status says that it has finished, or has no address, so its connections are not counted; what applies it drops the status: leave it out")
	case a.before.FromManifests && len(old.Owners) > 0 && len(said.Owners) == 0:
		a.warn("Pod", said.Key().String(), reasonNotPlanned, fmt.Sprintf("it has the name of a pod that is made up for %s, which would make another one; give the Pod another name", strings.Join(old.Owners, ", ")))
	}
}

// warnHostNetwork warns about a pod that is new in the host network, or moves into it. It warns once for
// all pods of a workload.
func (a *applying) warnHostNetwork(p *Pod) {
	kind, object := "Pod", p.Key().String()
	if len(p.Owners) > 0 {
		kind, object, _ = strings.Cut(p.Owners[len(p.Owners)-1], " ")
	}
	a.warn(kind, object, reasonNotPlanned, "it uses its node's network: no policy holds for it, it may reach every pod of its node, and its connections are not counted")
}

// setPod sets a pod of the world to the one of a manifest, and returns what the change is. A new pod without
// a status runs at a made-up address. An existing pod keeps the labels that its controller added.
func (a *applying) setPod(p *corev1.Pod) string {
	filled, running := *p, reflect.ValueOf(p.Status).IsZero()
	if running && a.before.FromManifests {
		filled.Spec.NodeName = cmp.Or(p.Spec.NodeName, a.before.Node)
	}
	filled.UID = uidOf(p)
	if p.CreationTimestamp.IsZero() {
		filled.CreationTimestamp = created
	}
	host := a.addrOfNode(filled.Spec.NodeName)
	if !running && p.Status.HostIP == "" && len(p.Status.HostIPs) == 0 && host.IsValid() {
		filled.Status.HostIP = host.String()
	}
	pod := PodOf(&filled, a.after.Makers)
	old, there := a.pods[pod.Key()]
	if there {
		said := pod
		pod = old
		pod.Labels, pod.Ports, pod.HostNetwork, pod.OverBudget = a.withControllers(said.Labels, old.Labels), said.Ports, said.HostNetwork, ""
		running, host = old.HostNetwork != pod.HostNetwork && !pod.Finished, a.addrOfNode(old.Node)
	}
	if pod.HostNetwork && (!there || !old.HostNetwork) {
		a.warnHostNetwork(&pod)
	}
	switch {
	case running && pod.HostNetwork:
		pod.Addr = host
	case running:
		pod.Addr = a.newAddr(pod.Key())
	}
	if !there {
		a.own(&pod)
	}
	pod.Fit()
	a.pods[pod.Key()], a.kept[pod.Key()] = pod, true
	return ChangeOf(there, true, old.Same(&pod.Pod))
}

// created is the creation time of pods without one. It is arbitrary but fixed.
var created = metav1.Date(2026, time.January, 1, 0, 0, 0, 0, time.UTC)

// uidOf returns a made-up UID, which depends on the name alone: of several pods that claim an address, the
// UID may decide which one has it.
func uidOf(p *corev1.Pod) types.UID {
	// A UUID of version 8, whose content is application-defined.
	b := sha256.Sum256([]byte("Pod/" + p.Namespace + "/" + p.Name))
	b[6], b[8] = b[6]&0x0f|0x80, b[8]&0x3f|0x80
	return types.UID(fmt.Sprintf("%x-%x-%x-%x-%x", b[0:4], b[4:6], b[6:8], b[8:10], b[10:16]))
}

// addrOfNode returns the first InternalIP of a node, or no address.
func (a *applying) addrOfNode(name string) netip.Addr {
	for _, addr := range a.nodes[name].Internal {
		return addr
	}
	return netip.Addr{}
}
