package torture

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/winnpm/winnpm/pkg/dataplane"
	"github.com/winnpm/winnpm/test/oracle"
	"github.com/winnpm/winnpm/test/oracle/gen"
	"github.com/winnpm/winnpm/test/script"
)

// node is the name of the node that the scenarios play on.
const node = gen.Node

// began is when replays begin.
var began = time.Unix(1_800_000_000, 0)

// object is one version of an API object. It never changes; rev tells versions
// apart and is unique within a scenario.
type object struct {
	rev int
	key string // kind and name; of a pod its UID too: another UID is another object
	script.Object
}

// version returns a revision of the object; name is its kind and name.
func version(rev int, name string, is script.Object) *object {
	if is.Pod != nil {
		name += "#" + string(is.Pod.UID)
	}
	return &object{rev: rev, key: name, Object: is}
}

// at reports whether the version is a pod with the address.
func (o *object) at(addr netip.Addr) bool {
	return o != nil && o.Pod != nil && oracle.Address(o.Pod) == addr
}

// moves reports whether a pod has another address in its next version.
func (o *object) moves(next *object) bool {
	return o != nil && next != nil && o.Pod != nil && oracle.Member(o.Pod) && oracle.Member(next.Pod) &&
		oracle.Address(o.Pod) != oracle.Address(next.Pod)
}

// left is the version before this one, of a pod that moves: it has left its old
// address and not come at the new one.
func (o *object) left() *object {
	pod := o.Pod.DeepCopy()
	pod.Status.PodIP, pod.Status.PodIPs = "", nil
	return &object{rev: -o.rev, key: o.key, Object: script.Object{Pod: pod}}
}

// apiObjects is what the API server has: the current version of every object.
type apiObjects map[string]*object

// event is what an informer reports: one object is so now, or is gone.
type event struct {
	name string // kind and name; of several events of one name the last one counts
	is   *object
	text string
}

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

// tell puts the event into a transaction. Here pods finish before they are replaced.
func (e event) tell(tx *dataplane.Transaction) {
	if e.is == nil {
		script.Tell(tx, e.name, nil)
		return
	}
	if e.is.Pod != nil {
		script.Tell(tx, e.name, nil)
	}
	script.Tell(tx, e.name, &e.is.Object)
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
		case o.Pod != nil:
			c.Pods = append(c.Pods, *o.Pod)
		case o.Namespace != nil:
			c.Namespaces = append(c.Namespaces, *o.Namespace)
		case o.Policy != nil:
			c.Policies = append(c.Policies, *o.Policy)
		case o.Cluster != nil:
			c.ClusterPolicies = append(c.ClusterPolicies, *o.Cluster)
		case o.Peer != nil:
			c.Nodes = append(c.Nodes, *o.Peer)
		default:
			c.NodeAddrs = o.Addrs
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
