package desired

import (
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"strings"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/network-policy-api/apis/v1alpha2"

	"github.com/winnpm/winnpm/pkg/policy"
	"github.com/winnpm/winnpm/pkg/state"
)

// ObjectsOf returns everything that a dump has of the cluster.
func ObjectsOf(dump state.Dump) (Objects, error) {
	o := NewObjects()
	for _, ns := range dump.Namespaces {
		o.SetNamespace(Namespace(ns))
	}
	for _, pd := range dump.Policies {
		ns, name, ok := strings.Cut(pd.Policy, "/")
		if !ok || pd.Spec == nil {
			return Objects{}, fmt.Errorf("policy %q without namespace or spec", pd.Policy)
		}
		o.SetPolicy(&networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name}, Spec: *pd.Spec})
	}
	for _, n := range dump.Nodes {
		o.SetNode(n)
	}
	for _, pd := range dump.ClusterPolicies {
		if pd.Name == "" || pd.Spec == nil {
			return Objects{}, fmt.Errorf("ClusterNetworkPolicy %q without name or spec", pd.Name)
		}
		o.SetClusterPolicy(objectOfDump(pd))
	}
	for _, pd := range dump.Pods {
		p, err := podOf(pd)
		if err != nil {
			return Objects{}, fmt.Errorf("pod %q: %w", pd.Pod, err)
		}
		o.SetPod(p)
	}
	addrs, err := ParseAddrs(dump.NodeAddrs)
	if err != nil {
		return Objects{}, fmt.Errorf("node: %w", err)
	}
	if len(addrs) > 0 {
		o.SetNodeAddrs(addrs)
	}
	return o, nil
}

// podOf is the inverse of dumping a pod.
func podOf(pd state.Pod) (Pod, error) {
	ns, name, ok := strings.Cut(pd.Pod, "/")
	if !ok {
		return Pod{}, errors.New("no namespace")
	}
	p := Pod{
		Namespace: ns, Name: name, UID: types.UID(pd.UID), Labels: pd.Labels, Local: pd.Local,
		HostNetwork: pd.HostNetwork, Finished: pd.Finished, Deleting: pd.Deleting, Started: pd.Started, Created: pd.Created,
		Sandbox: pd.Sandbox, Grace: pd.Grace, LostUntil: pd.LostUntil, Trust: pd.Trust, OverBudget: pd.OverBudget,
	}
	if pd.Addr != "" {
		addrs, err := ParseAddrs([]string{pd.Addr})
		if err != nil {
			return Pod{}, err
		}
		p.Addr = addrs[0]
	}
	for _, text := range pd.Ports {
		port, err := parsePodPort(text)
		if err != nil {
			return Pod{}, err
		}
		p.Ports = append(p.Ports, port)
	}
	return p, nil
}

// parsePodPort reads name:number/protocol.
func parsePodPort(text string) (PodPort, error) {
	name, rest, _ := strings.Cut(text, ":")
	digits, protocol, _ := strings.Cut(rest, "/")
	number, err := strconv.ParseUint(digits, 10, 16)
	if err != nil {
		return PodPort{}, fmt.Errorf("port %q: %w", text, err)
	}
	proto := policy.Protocol(protocol)
	if !proto.Known() {
		return PodPort{}, fmt.Errorf("port %q: no such protocol", text)
	}
	return PodPort{Name: name, Protocol: proto, Number: uint16(number)}, nil
}

// ParseAddrs reads IPv4 addresses.
func ParseAddrs(texts []string) ([]netip.Addr, error) {
	out := make([]netip.Addr, len(texts))
	for i, text := range texts {
		a, err := netip.ParseAddr(text)
		if err != nil || !a.Is4() {
			return nil, fmt.Errorf("%q is no IPv4 address", text)
		}
		out[i] = a
	}
	return out, nil
}

// objectOfDump returns the policy that was dumped.
func objectOfDump(pd state.ClusterPolicy) *v1alpha2.ClusterNetworkPolicy {
	return &v1alpha2.ClusterNetworkPolicy{ObjectMeta: metav1.ObjectMeta{Name: pd.Name}, Spec: *pd.Spec}
}
