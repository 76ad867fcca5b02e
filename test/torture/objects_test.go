package torture

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"sigs.k8s.io/network-policy-api/apis/v1alpha2"

	"github.com/winnpm/winnpm/pkg/controllers"
	"github.com/winnpm/winnpm/pkg/dataplane"
	"github.com/winnpm/winnpm/pkg/desired"
	"github.com/winnpm/winnpm/pkg/policy"
	"github.com/winnpm/winnpm/pkg/state"
	"github.com/winnpm/winnpm/test/oracle"
	"github.com/winnpm/winnpm/test/oracle/gen"
)

// node is the name of the node that the scenarios play on.
const node = gen.Node

// began is when replays begin.
var began = time.Unix(1_800_000_000, 0)

// object is one version of an API object. It never changes; rev tells versions
// apart and is unique within a scenario.
type object struct {
	rev   int
	key   string // kind and name; of a pod its UID too: another UID is another object
	pod   *corev1.Pod
	ns    *corev1.Namespace
	np    *networkingv1.NetworkPolicy
	cnp   *v1alpha2.ClusterNetworkPolicy
	nodes []netip.Addr // of this node
	peer  *corev1.Node // of the cluster
}

// at reports whether the version is a pod with the address.
func (o *object) at(addr netip.Addr) bool {
	return o != nil && o.pod != nil && oracle.Address(o.pod) == addr
}

// moves reports whether a pod has another address in its next version.
func (o *object) moves(next *object) bool {
	return o != nil && next != nil && o.pod != nil && oracle.Member(o.pod) && oracle.Member(next.pod) &&
		oracle.Address(o.pod) != oracle.Address(next.pod)
}

// left is the version before this one, of a pod that moves: it has left its old
// address and not come at the new one.
func (o *object) left() *object {
	pod := o.pod.DeepCopy()
	pod.Status.PodIP, pod.Status.PodIPs = "", nil
	return &object{rev: -o.rev, key: o.key, pod: pod}
}

// apiObjects is what the API server has: the current version of every object.
type apiObjects map[string]*object

// event is what an informer reports: one object is so now, or is gone.
type event struct {
	name string // kind and name; of several events of one name the last one counts
	is   *object
	text string
}

func nsKey(name string) string          { return "namespace " + name }
func policyName(ns, name string) string { return "policy " + ns + "/" + name }
func clusterName(name string) string    { return "cluster " + name }
func peerName(name string) string       { return "peer " + name }
func podName(ns, name string) string    { return "pod " + ns + "/" + name }

// nameOf returns the name that events have for an object.
func nameOf(key string) string {
	name, _, _ := strings.Cut(key, "#")
	return name
}

// apply changes the state and returns the keys of what changed. A pod under the
// name of another one is two changes: the old one goes, the new one comes.
func (e event) apply(s apiObjects) []string {
	var changed []string
	for key := range s {
		if nameOf(key) == e.name && (e.is == nil || key != e.is.key) {
			delete(s, key)
			changed = append(changed, key)
		}
	}
	if e.is != nil {
		s[e.is.key] = e.is
		changed = append(changed, e.is.key)
	}
	slices.Sort(changed)
	return changed
}

// tell puts the event into a transaction.
func (e event) tell(tx *dataplane.Transaction) {
	kind, name, _ := strings.Cut(e.name, " ")
	ns, name, _ := strings.Cut(name, "/")
	switch {
	case kind == "node":
		tx.SetNodeAddrs(e.is.nodes)
	case kind == "namespace" && e.is == nil:
		tx.DeleteNamespace(ns)
	case kind == "namespace":
		tx.SetNamespace(desired.Namespace{Name: ns, Labels: e.is.ns.Labels})
	case kind == "policy" && e.is == nil:
		tx.DeletePolicy(policy.Key{Namespace: ns, Name: name})
	case kind == "policy":
		tx.SetPolicy(e.is.np)
	case kind == "cluster" && e.is == nil:
		tx.DeleteClusterPolicy(ns)
	case kind == "cluster":
		tx.SetClusterPolicy(e.is.cnp)
	case kind == "peer" && e.is == nil:
		tx.DeleteNode(ns)
	case kind == "peer":
		n := state.Node{Name: ns, Labels: e.is.peer.Labels}
		for _, a := range e.is.peer.Status.Addresses {
			n.Addrs = append(n.Addrs, netip.MustParseAddr(a.Address))
		}
		tx.SetNode(n)
	case e.is == nil: // here pods finish before they are deleted or replaced
		tx.DeleteFinishedPod(desired.PodKey{Namespace: ns, Name: name})
	default:
		tx.DeleteFinishedPod(desired.PodKey{Namespace: ns, Name: name})
		tx.SetPod(controllers.PodFrom(e.is.pod, node))
	}
}

// whole returns the first transaction of a process: everything there is.
func (s apiObjects) whole() *dataplane.Transaction {
	tx := dataplane.NewTransaction()
	for _, key := range slices.Sorted(maps.Keys(s)) {
		event{name: nameOf(key), is: s[key]}.tell(tx)
	}
	return tx
}

// revs names the versions of a state.
func (s apiObjects) revs() string {
	var b strings.Builder
	for _, key := range slices.Sorted(maps.Keys(s)) {
		fmt.Fprintf(&b, "%d ", s[key].rev)
	}
	return b.String()
}

// cluster words objects for the oracle.
func cluster(objects []*object) oracle.Cluster {
	c := oracle.Cluster{Node: node, Now: began}
	for _, o := range objects {
		switch {
		case o.pod != nil:
			c.Pods = append(c.Pods, *o.pod)
		case o.ns != nil:
			c.Namespaces = append(c.Namespaces, *o.ns)
		case o.np != nil:
			c.Policies = append(c.Policies, *o.np)
		case o.cnp != nil:
			c.ClusterPolicies = append(c.ClusterPolicies, *o.cnp)
		case o.peer != nil:
			c.Nodes = append(c.Nodes, *o.peer)
		default:
			c.NodeAddrs = o.nodes
		}
	}
	return c
}

// values returns the objects of a state in order.
func (s apiObjects) values() []*object {
	return slices.SortedFunc(maps.Values(s), func(a, b *object) int { return cmp.Compare(a.key, b.key) })
}

// local reports whether endpoints with the address belong to a pod of the node.
func local(c oracle.Cluster, addr netip.Addr) bool { return len(oracle.Residents(c, addr)) > 0 }

// wordObject words an object for whoever reads a failure.
func wordObject(o *object) string {
	switch {
	case o.pod != nil:
		p := o.pod
		return fmt.Sprintf("%s %v on %q %v %s host=%v deleted=%v started=%v created=%v ports=%v", p.UID, oracle.Address(p), p.Spec.NodeName,
			p.Labels, p.Status.Phase, oracle.AtNode(p), p.DeletionTimestamp != nil, p.Status.StartTime, p.CreationTimestamp, p.Spec.Containers)
	case o.ns != nil:
		return fmt.Sprint(o.ns.Labels)
	case o.np != nil:
		return wordSpec(o.np.Spec)
	case o.cnp != nil:
		return wordSpec(o.cnp.Spec)
	case o.peer != nil:
		return fmt.Sprint(o.peer.Labels, o.peer.Status.Addresses)
	}
	return fmt.Sprint(o.nodes)
}

func wordSpec(spec any) string {
	text, err := json.Marshal(spec)
	if err != nil {
		return err.Error()
	}
	return string(text)
}
