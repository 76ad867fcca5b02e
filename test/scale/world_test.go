// Package scale measures what events cost: requests to HNS and their bytes, the
// agent's CPU time and memory, in clusters of up to 100,000 pods and 5,000
// policies. What is the same on every machine is asserted (TestCounts, and in
// the benchmarks at full size); times are reported. docs/performance.md has the
// table and the formulas.
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
		w.addNamespace(namespaceOf(i), fmt.Sprintf("near-%d", i%teams))
	}
	for i := range min(farNamespace, loads-nearLoads) {
		w.addNamespace(namespaceOf(nearLoads+i), fmt.Sprintf("far-%d", i%teams))
	}
	for load := range loads {
		labels := labelsOf(load)
		for r := range replicas {
			w.pods = append(w.pods, newPod(load, r, labels))
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

func appOf(load int) string { return fmt.Sprintf("app-%d", load) }

// tierOf returns one of four words, other ones for the rest of the cluster.
func tierOf(load int) string {
	part := "far"
	if load < nearLoads {
		part = "near"
	}
	return part + "-" + [...]string{"web", "api", "db", "cache"}[load%4]
}

// labelsOf returns what all pods of a workload bear.
func labelsOf(load int) map[string]string {
	return map[string]string{
		"app":                          appOf(load),
		"tier":                         tierOf(load),
		"version":                      fmt.Sprintf("v%d", load%3),
		"pod-template-hash":            hashOf(load),
		"app.kubernetes.io/managed-by": "Helm",
	}
}

func hashOf(load int) string { return fmt.Sprintf("%010x", uint64(load)*0x9e3779b97f4a7c15>>24) }

func newPod(load, replica int, labels map[string]string) desired.Pod {
	n := load*replicas + replica
	return desired.Pod{
		Namespace: namespaceOf(load),
		Name:      fmt.Sprintf("app-%d-%s-%05x", load, hashOf(load), n),
		UID:       types.UID(fmt.Sprintf("%08x-5ca1-4e00-8000-%012x", n, n)),
		Labels:    labels,
		Addr:      addrOf(n),
		Ports:     []desired.PodPort{{Name: "http", Protocol: "TCP", Number: 8080}},
		Local:     load < nearLoads && replica*nearLoads+load < localPods,
	}
}

// addrOf gives every pod an address of the same length in text, so that bytes
// follow from numbers alone.
func addrOf(n int) netip.Addr {
	return netip.AddrFrom4([4]byte{10, byte(100 + n/10_000%100), byte(100 + n/100%100), byte(100 + n%100)})
}

// newPolicy returns policy i of a cluster of so many workloads.
func newPolicy(i, loads int) *networkingv1.NetworkPolicy {
	load, next, beside, team := 0, 0, 0, ""
	if n := i / nearPolicies; i%nearPolicies == 0 {
		load, next, beside, team = n%nearLoads, (n+1)%nearLoads, (n+2)%nearLoads, fmt.Sprintf("near-%d", n%teams)
	} else {
		far := loads - nearLoads
		load, next, beside, team = nearLoads+i%far, nearLoads+(i+1)%far, nearLoads+(i+2)%far, fmt.Sprintf("far-%d", i%teams)
	}
	app := &metav1.LabelSelector{MatchLabels: map[string]string{"app": appOf(next)}}
	ofTeam := &metav1.LabelSelector{MatchLabels: map[string]string{"team": team}}
	tiers := &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
		{Key: "tier", Operator: metav1.LabelSelectorOpIn, Values: []string{tierOf(next), tierOf(beside)}},
	}}
	ports := []networkingv1.NetworkPolicyPort{{Port: new(intstr.FromInt32(int32(1 + i)))}}
	spec := networkingv1.NetworkPolicySpec{
		PodSelector: metav1.LabelSelector{MatchLabels: map[string]string{"app": appOf(load)}},
	}
	from := func(peers ...networkingv1.NetworkPolicyPeer) {
		spec.Ingress = []networkingv1.NetworkPolicyIngressRule{{From: peers, Ports: ports}}
	}
	switch i / nearPolicies % 4 {
	case 0:
		from(networkingv1.NetworkPolicyPeer{NamespaceSelector: ofTeam, PodSelector: app})
	case 1:
		from(networkingv1.NetworkPolicyPeer{NamespaceSelector: ofTeam, PodSelector: tiers})
	case 2:
		from(networkingv1.NetworkPolicyPeer{NamespaceSelector: ofTeam}, networkingv1.NetworkPolicyPeer{PodSelector: app})
	case 3:
		spec.PolicyTypes = []networkingv1.PolicyType{networkingv1.PolicyTypeIngress, networkingv1.PolicyTypeEgress}
		spec.Egress = []networkingv1.NetworkPolicyEgressRule{{Ports: ports, To: []networkingv1.NetworkPolicyPeer{
			{NamespaceSelector: ofTeam, PodSelector: app},
			{IPBlock: &networkingv1.IPBlock{CIDR: "192.168.0.0/16", Except: []string{"192.168.7.0/24"}}},
		}}}
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
