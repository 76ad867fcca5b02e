package oracletest

import (
	"crypto/sha256"
	"fmt"
	"maps"
	"net/netip"
	"slices"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"sigs.k8s.io/network-policy-api/apis/v1alpha2"

	"github.com/winnpm/winnpm/pkg/controllers"
	"github.com/winnpm/winnpm/pkg/dataplane"
	"github.com/winnpm/winnpm/pkg/desired"
	"github.com/winnpm/winnpm/pkg/policy"
	"github.com/winnpm/winnpm/pkg/state"
	"github.com/winnpm/winnpm/test/oracle"
	"github.com/winnpm/winnpm/test/oracle/gen"
	"github.com/winnpm/winnpm/tool/hnssim"
)

// event tells a transaction of one object.
type event func(*dataplane.Transaction)

// events returns what the API server would report of the way from one cluster
// to another, one event per object. With all it repeats what did not change.
func events(before, after oracle.Cluster, all bool) []event {
	var list []event
	namespaces := func(ns corev1.Namespace) string { return ns.Name }
	diff(before.Namespaces, after.Namespaces, all, namespaces, func(ns corev1.Namespace) {
		list = append(list, func(tx *dataplane.Transaction) {
			tx.SetNamespace(desired.Namespace{Name: ns.Name, Labels: ns.Labels})
		})
	}, func(ns corev1.Namespace) {
		list = append(list, func(tx *dataplane.Transaction) { tx.DeleteNamespace(ns.Name) })
	})
	pods := func(p corev1.Pod) string { return p.Namespace + "/" + p.Name }
	diff(before.Pods, after.Pods, all, pods, func(p corev1.Pod) {
		list = append(list, func(tx *dataplane.Transaction) { tx.SetPod(controllers.PodFrom(&p, gen.Node)) })
	}, func(p corev1.Pod) {
		key := desired.PodKey{Namespace: p.Namespace, Name: p.Name}
		if slices.ContainsFunc(after.Lost, func(lost corev1.Pod) bool { return lost.UID == p.UID }) {
			list = append(list, func(tx *dataplane.Transaction) { tx.DeletePod(key) })
		} else {
			list = append(list, func(tx *dataplane.Transaction) { tx.DeleteFinishedPod(key) })
		}
	})
	policies := func(np networkingv1.NetworkPolicy) string { return np.Namespace + "/" + np.Name }
	diff(before.Policies, after.Policies, all, policies, func(np networkingv1.NetworkPolicy) {
		list = append(list, func(tx *dataplane.Transaction) { tx.SetPolicy(&np) })
	}, func(np networkingv1.NetworkPolicy) {
		key := policy.Key{Namespace: np.Namespace, Name: np.Name}
		list = append(list, func(tx *dataplane.Transaction) { tx.DeletePolicy(key) })
	})
	clusterPolicies := func(cnp v1alpha2.ClusterNetworkPolicy) string { return cnp.Name }
	diff(before.ClusterPolicies, after.ClusterPolicies, all, clusterPolicies, func(cnp v1alpha2.ClusterNetworkPolicy) {
		list = append(list, func(tx *dataplane.Transaction) { tx.SetClusterPolicy(&cnp) })
	}, func(cnp v1alpha2.ClusterNetworkPolicy) {
		list = append(list, func(tx *dataplane.Transaction) { tx.DeleteClusterPolicy(cnp.Name) })
	})
	nodes := func(n corev1.Node) string { return n.Name }
	diff(before.Nodes, after.Nodes, all, nodes, func(n corev1.Node) {
		list = append(list, func(tx *dataplane.Transaction) { tx.SetNode(nodeFrom(n)) })
	}, func(n corev1.Node) {
		list = append(list, func(tx *dataplane.Transaction) { tx.DeleteNode(n.Name) })
	})
	if all || !slices.Equal(before.NodeAddrs, after.NodeAddrs) {
		list = append(list, func(tx *dataplane.Transaction) { tx.SetNodeAddrs(after.NodeAddrs) })
	}
	return list
}

// nodeFrom is what the dataplane is told of a node.
func nodeFrom(n corev1.Node) state.Node {
	out := state.Node{Name: n.Name, Labels: n.Labels}
	for _, a := range n.Status.Addresses {
		out.Addrs = append(out.Addrs, netip.MustParseAddr(a.Address))
	}
	return out
}

// diff calls set for every object of after that is new or changed (or all of
// them) and drop for every one that after lacks.
func diff[T any](before, after []T, all bool, key func(T) string, set, drop func(T)) {
	gone := map[string]T{}
	for _, object := range before {
		gone[key(object)] = object
	}
	for _, object := range after {
		old, existed := gone[key(object)]
		if all || !existed || !equality.Semantic.DeepEqual(old, object) {
			set(object)
		}
		delete(gone, key(object))
	}
	for _, object := range before {
		if _, ok := gone[key(object)]; ok {
			drop(object)
		}
	}
}

// tell applies events in transactions of the given size.
func (w *world) tell(list []event, size int) state.Report {
	var report state.Report
	for len(list) > 0 {
		tx := dataplane.NewTransaction()
		n := min(size, len(list))
		for _, event := range list[:n] {
			event(tx)
		}
		list = list[n:]
		report = w.apply(tx)
	}
	return report
}

// plug is the CNI: every pod that runs here with an address of its own has an
// endpoint with all addresses of the pod, and only such pods have, lost ones included. An endpoint
// whose IPv4 address went on to a pod of another node is kept, until tidy. It
// reports whether an address that had an endpoint has a new one: coming after the
// news of its pod, for which the old endpoint was good enough, such a one is only
// found by the reconciler.
func (w *world) plug(c oracle.Cluster, tidy bool) (replaced bool) {
	wanted := map[string][]netip.Addr{}
	for _, pod := range slices.Concat(c.Pods, c.Lost) {
		addrs := addrsOf(&pod)
		if pod.Spec.NodeName != gen.Node || len(addrs) == 0 || oracle.AtNode(&pod) || finished(&pod) {
			continue
		}
		addr := oracle.Address(&pod)
		if tidy && addr.IsValid() && len(oracle.Residents(c, addr)) == 0 {
			continue
		}
		name := addr.String()
		if !w.setup.shared || !addr.IsValid() {
			name += string(pod.UID)
		}
		if id := guid(name); wanted[id] == nil {
			wanted[id] = addrs
		}
	}
	had := map[netip.Addr]bool{}
	for _, endpoint := range w.sim.Endpoints() {
		had[ipv4Of(endpoint.Addrs)] = true
		if _, ok := wanted[endpoint.ID]; !ok {
			w.note("endpoint %s of %v goes", endpoint.ID, endpoint.Addrs)
			require.NoError(w.t, w.sim.DeleteEndpoint(endpoint.ID))
		}
		delete(wanted, endpoint.ID)
	}
	for _, id := range slices.Sorted(maps.Keys(wanted)) { // in order, or a failure would not shrink
		addrs := wanted[id]
		addr := ipv4Of(addrs)
		replaced = replaced || addr.IsValid() && had[addr]
		w.note("endpoint %s of %v comes", id, addrs)
		require.NoError(w.t, w.sim.CreateEndpoint(hnssim.NewEndpoint{ID: id, Addrs: addrs}))
	}
	return replaced
}

// addrsOf returns the addresses of a pod, of both families, in its order.
func addrsOf(pod *corev1.Pod) []netip.Addr {
	texts := []string{pod.Status.PodIP}
	if len(pod.Status.PodIPs) > 0 {
		texts = nil
		for _, ip := range pod.Status.PodIPs {
			texts = append(texts, ip.IP)
		}
	}
	var addrs []netip.Addr
	for _, text := range texts {
		if addr, err := netip.ParseAddr(text); err == nil {
			addrs = append(addrs, addr)
		}
	}
	return addrs
}

func finished(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

// ipv4Of returns the first IPv4 address of an endpoint, the zero Addr if it has
// none.
func ipv4Of(addrs []netip.Addr) netip.Addr {
	for _, addr := range addrs {
		if addr.Is4() {
			return addr
		}
	}
	return netip.Addr{}
}

// guid makes an endpoint's ID of what it is for, so that it is the same in
// every world.
func guid(name string) string {
	sum := sha256.Sum256([]byte(name))
	return fmt.Sprintf("%x-%x-%x-%x-%x", sum[:4], sum[4:6], sum[6:8], sum[8:10], sum[10:16])
}

// change takes the world from one cluster to the next. The CNI is either ahead
// of the dataplane or behind it.
func (w *world) change(before, after oracle.Cluster, late, all bool) {
	if !late {
		w.plug(after, false)
	}
	list := events(before, after, all)
	report := w.tell(list, max(1, len(list)))
	replaced := false
	if late {
		replaced = w.plug(after, false)
		report = w.apply(dataplane.NewTransaction())
	}
	w.settle(report)
	if replaced {
		w.reconcile()
	}
}
