package cluster

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/network-policy-api/apis/v1alpha2"

	"github.com/winnpm/winnpm/pkg/desired"
	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/pkg/state"
	"github.com/winnpm/winnpm/tool/explain"
	"github.com/winnpm/winnpm/tool/hnssim"
)

// elsewhere is the node of pods whose node the dump does not name.
const elsewhere = "(another node)"

// ErrNoSpec means that a dump lacks the spec of a policy.
var ErrNoSpec = errors.New("the dump does not have it: ask a newer agent")

// FromDump returns the world of a dump, in the desired state. The dump of an agent has only the pods of
// other nodes, and describes nodes only if a policy has nodes as peers. FromDump fails with ErrNoSpec if
// the dump lacks a policy's spec.
func FromDump(d state.Dump) (World, error) {
	w := World{Now: d.Time, Node: d.Node, NodesUnknown: true, OwnersUnknown: true}
	w.setNodes(d)
	for _, ns := range d.Namespaces {
		w.Namespaces = append(w.Namespaces, desired.Namespace(ns))
	}
	for _, p := range d.Policies {
		if p.Spec == nil {
			return World{}, fmt.Errorf("what NetworkPolicy %s says: %w", p.Policy, ErrNoSpec)
		}
		np := &networkingv1.NetworkPolicy{Spec: *p.Spec}
		np.Namespace, np.Name, _ = strings.Cut(p.Policy, "/")
		w.Policies = append(w.Policies, np)
	}
	for _, p := range d.ClusterPolicies {
		if p.Spec == nil {
			return World{}, fmt.Errorf("what ClusterNetworkPolicy %s says: %w", p.Name, ErrNoSpec)
		}
		cnp := &v1alpha2.ClusterNetworkPolicy{Spec: *p.Spec}
		cnp.Name = p.Name
		w.ClusterPolicies = append(w.ClusterPolicies, cnp)
		w.NodesUnknown = w.NodesUnknown && !SelectsNodes(cnp)
	}
	endpoints := map[string]*state.EndpointDump{}
	for i := range d.Endpoints {
		endpoints[d.Endpoints[i].ID] = &d.Endpoints[i]
	}
	for i := range d.Pods {
		p := &d.Pods[i]
		if !p.LostUntil.IsZero() {
			continue // only an agent that saw the pod before knows lost pods
		}
		pod := Pod{Pod: podOfDump(p), Node: elsewhere}
		if p.Local {
			pod.Node = d.Node
		}
		for _, id := range p.Endpoints {
			if ep := endpoints[id]; ep != nil && p.Local {
				pod.Endpoints = append(pod.Endpoints, endpointOf(ep))
				delete(endpoints, id) // it has one owner
			}
		}
		w.Pods = append(w.Pods, pod)
	}
	w.clearRepeatedUIDs()
	return w, nil
}

// clearRepeatedUIDs clears a UID that an earlier pod has. No API server gives it twice, and the dataplane relies on
// that.
func (w *World) clearRepeatedUIDs() {
	seen := map[types.UID]bool{}
	for i := range w.Pods {
		if p := &w.Pods[i]; seen[p.UID] {
			p.UID = ""
		} else {
			seen[p.UID] = true
		}
	}
}

// setNodes sets Nodes from a dump: its own node, and the nodes that it describes.
func (w *World) setNodes(d state.Dump) {
	for _, n := range d.Nodes {
		w.Nodes = append(w.Nodes, Node{NodeDump: n})
	}
	i := slices.IndexFunc(w.Nodes, func(n Node) bool { return n.Name == d.Node })
	if i < 0 {
		i = len(w.Nodes)
		w.Nodes = append(w.Nodes, Node{NodeDump: state.NodeDump{Name: d.Node}, Unlisted: true})
	}
	for _, text := range d.NodeAddrs {
		if addr, err := netip.ParseAddr(text); err == nil {
			w.Nodes[i].Internal = append(w.Nodes[i].Internal, addr)
		}
	}
}

// podOfDump converts a pod of a dump. It keeps the address of a pod that owns it or may own it, because the
// endpoint of an address in doubt has the rules of every pod that claims it.
func podOfDump(p *state.PodDump) desired.Pod {
	out := desired.Pod{UID: types.UID(p.UID), Labels: p.Labels, OverBudget: p.OverBudget, HostNetwork: p.HostNetwork, Finished: p.Finished}
	if addr, err := netip.ParseAddr(p.Addr); err == nil && addr.Is4() && (p.Owner || p.InDoubt) && !p.HostNetwork && !p.Finished {
		out.Addr = addr
	}
	out.Namespace, out.Name, _ = strings.Cut(p.Pod, "/")
	for _, text := range p.Ports {
		name, rest, _ := strings.Cut(text, ":")
		if number, protocol, err := explain.ParsePort(rest); err == nil {
			out.Ports = append(out.Ports, desired.PodPort{Name: name, Protocol: protocol, Number: number})
		}
	}
	return out
}

func endpointOf(ep *state.EndpointDump) hnssim.SimEndpoint {
	out := hnssim.SimEndpoint{ID: ep.ID, Policies: []hns.EndpointPolicy{}}
	for _, a := range ep.ForeignRules {
		out.Policies = append(out.Policies, hns.NewACLPolicy(a))
	}
	if ep.Tiered {
		out.Policies = append(out.Policies, hns.EndpointPolicy{Type: hns.PolicyTypeTierACL, Settings: []byte("{}")})
	}
	return out
}
