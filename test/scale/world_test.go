// Package scale asserts the requests to HNS that events cost, at several sizes of the
// cluster; benchmarks report times. docs/performance.md has the table and the formulas.
package scale

import (
	"fmt"
	"net/netip"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/winnpm/winnpm/pkg/dataplane"
	"github.com/winnpm/winnpm/pkg/desired"
)

// A world is a neighbourhood and the rest. The policies of the node's pods
// speak of the neighbourhood only, which is the same in every world; those of
// the rest speak of the rest. So what the node has to program does not depend
// on how large the cluster is, and neither may its cost.
const (
	localPods    = 110
	replicas     = 20 // of a workload
	nearLoads    = 25 // workloads of the neighbourhood, each in a namespace of its own
	nearPods     = nearLoads * replicas
	farNamespace = 175 // namespaces of the rest
	teams        = 5   // values of a label of namespaces, of each part
	nearPolicies = 10  // one policy in so many is of the neighbourhood
)

// nodeAddr is the node's own address.
const nodeAddr = "10.4.0.4"

// world is a cluster as its API server shows it.
type world struct {
	pods       []desired.Pod
	namespaces []desired.Namespace
	policies   []*networkingv1.NetworkPolicy
}

// newWorld returns a cluster of so many pods, 1,000 at least.
func newWorld(pods, policies int) *world {
	w := &world{}
	loads := pods / replicas
	for i := range nearLoads {
		w.addNamespace(namespaceOf(i), teamOf(i))
	}
	for i := range min(farNamespace, loads-nearLoads) {
		w.addNamespace(namespaceOf(nearLoads+i), teamOf(nearLoads+i))
	}
	for load := range loads {
		for r := range replicas {
			w.pods = append(w.pods, newPod(load, r))
		}
	}
	for i := range policies {
		w.policies = append(w.policies, newPolicy(i, loads))
	}
	return w
}

func (w *world) addNamespace(name, team string) {
	w.namespaces = append(w.namespaces, desired.Namespace{
		Name: name, Labels: map[string]string{"kubernetes.io/metadata.name": name, "team": team},
	})
}

func namespaceOf(load int) string {
	if load < nearLoads {
		return fmt.Sprintf("near-%d", load)
	}
	return fmt.Sprintf("far-%d", (load-nearLoads)%farNamespace)
}

// teamOf returns the label of a workload's namespace.
func teamOf(load int) string {
	if load < nearLoads {
		return fmt.Sprintf("near-%d", load%teams)
	}
	return fmt.Sprintf("far-%d", (load-nearLoads)%farNamespace%teams)
}

func appOf(load int) string { return fmt.Sprintf("app-%d", load) }

func newPod(load, replica int) desired.Pod {
	n := load*replicas + replica
	name := fmt.Sprintf("app-%d-%05x", load, n)
	return desired.Pod{
		Namespace: namespaceOf(load), Name: name, UID: types.UID(name), Labels: map[string]string{"app": appOf(load)}, Addr: addrOf(n),
		Ports: []desired.PodPort{{Name: "http", Protocol: "TCP", Number: 8080}},
		Local: load < nearLoads && replica*nearLoads+load < localPods,
	}
}

// addrOf gives every pod an address of the same length in text, so that bytes
// follow from numbers alone.
func addrOf(n int) netip.Addr {
	return netip.AddrFrom4([4]byte{10, byte(100 + n/10_000%100), byte(100 + n/100%100), byte(100 + n%100)})
}

// newPolicy returns policy i of a cluster of so many workloads.
func newPolicy(i, loads int) *networkingv1.NetworkPolicy {
	first, many := nearLoads, loads-nearLoads // of the rest
	if i%nearPolicies == 0 {
		i, first, many = i/nearPolicies, 0, nearLoads
	}
	load, next := first+i%many, first+(i+1)%many
	spec := networkingv1.NetworkPolicySpec{PodSelector: metav1.LabelSelector{MatchLabels: map[string]string{"app": appOf(load)}}}
	ports := []networkingv1.NetworkPolicyPort{{Port: new(intstr.FromInt32(int32(1 + i)))}}
	peer := networkingv1.NetworkPolicyPeer{
		NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"team": teamOf(next)}},
		PodSelector:       &metav1.LabelSelector{MatchLabels: map[string]string{"app": appOf(next)}},
	}
	if i%2 == 0 {
		spec.Ingress = []networkingv1.NetworkPolicyIngressRule{{Ports: ports, From: []networkingv1.NetworkPolicyPeer{peer}}}
	} else {
		block := networkingv1.NetworkPolicyPeer{IPBlock: &networkingv1.IPBlock{CIDR: "192.168.0.0/16", Except: []string{"192.168.7.0/24"}}}
		spec.PolicyTypes = []networkingv1.PolicyType{networkingv1.PolicyTypeIngress, networkingv1.PolicyTypeEgress}
		spec.Egress = []networkingv1.NetworkPolicyEgressRule{{Ports: ports, To: []networkingv1.NetworkPolicyPeer{peer, block}}}
	}
	return &networkingv1.NetworkPolicy{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespaceOf(load), Name: fmt.Sprintf("policy-%d", i)}, Spec: spec,
	}
}

// transaction returns the whole cluster.
func (w *world) transaction() *dataplane.Transaction {
	tx := dataplane.NewTransaction()
	tx.SetNodeAddrs([]netip.Addr{netip.MustParseAddr(nodeAddr)})
	for _, ns := range w.namespaces {
		tx.SetNamespace(ns)
	}
	for _, p := range w.pods {
		tx.SetPod(p)
	}
	for _, np := range w.policies {
		tx.SetPolicy(np)
	}
	return tx
}
