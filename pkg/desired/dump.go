package desired

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/winnpm/winnpm/pkg/policy"
	"github.com/winnpm/winnpm/pkg/state"
)

// Copied is the objects of a State at one moment, and what follows from them. What it points
// to is replaced when it changes, and what is changed in place was copied.
type Copied struct {
	pods       map[PodKey]*PodState
	policies   map[policy.Key]*policyState
	namespaces map[string]Namespace
	local      []*PodState
	nodes      []*state.Node // of the cluster
	clusters   []*clusterState
	nodeAddrs  []netip.Addr
}

// Copy returns the objects as they are now.
func (d *State) Copy() Copied {
	out := Copied{
		pods: maps.Clone(d.members.pods), namespaces: maps.Clone(d.members.namespaces), policies: maps.Clone(d.policies),
		nodes: slices.Collect(maps.Values(d.members.cluster.nodes)), clusters: slices.Collect(maps.Values(d.clusters)), nodeAddrs: d.nodeAddrs,
	}
	for _, p := range d.local {
		is, placed := *p, *p.Placement
		placed.selected, placed.clusters = slices.Clone(p.selected), slices.Clone(p.clusters) // they are changed in place
		is.Placement = &placed
		out.local = append(out.local, &is)
	}
	return out
}

// NodeAddrs lists the node's own addresses.
func (s *Copied) NodeAddrs() []string {
	out := make([]string, len(s.nodeAddrs))
	for i, a := range s.nodeAddrs {
		out[i] = a.String()
	}
	return out
}

// Policies lists the policies by key.
func (s *Copied) Policies() []state.Policy {
	selected := map[*policyState][]string{}
	for _, p := range s.local {
		for _, ps := range p.selected {
			selected[ps] = append(selected[ps], p.Key().String())
		}
	}
	out := []state.Policy{}
	for _, key := range slices.SortedFunc(maps.Keys(s.policies), policy.Key.Compare) {
		ps := s.policies[key]
		pd := state.Policy{
			Policy: key.String(), Ingress: ps.Isolates[policy.Ingress], Egress: ps.Isolates[policy.Egress],
			Rules: ps.ruleCount, Selected: append([]string{}, slices.Sorted(slices.Values(selected[ps]))...),
			Spec: ps.spec,
		}
		for _, p := range ps.Problems {
			pd.Problems = append(pd.Problems, fmt.Sprintf("%s: %s: %s", p.Reason, p.Field, p.Message))
		}
		out = append(out, pd)
	}
	return out
}

// Pods lists the pods by name; at are the ids of endpoints by address.
func (s *Copied) Pods(at map[netip.Addr][]string) []state.Pod {
	placed := make(map[types.UID]*Placement, len(s.local))
	for _, p := range s.local {
		placed[p.UID] = p.Placement
	}
	out := make([]state.Pod, 0, len(s.pods))
	for key, p := range s.pods {
		pd := state.Pod{
			Pod: key.String(), UID: string(p.UID), Labels: maps.Clone(p.Labels), Local: p.Local, Owner: p.owner, InDoubt: p.InDoubt(),
			HostNetwork: p.HostNetwork, Finished: p.Finished, Deleting: p.Deleting, Trust: p.Trust, Started: p.Started, Created: p.Created,
			Sandbox: p.Sandbox, Grace: p.Grace, LostUntil: p.LostUntil, OverBudget: p.OverBudget,
		}
		if p.Addr.IsValid() {
			pd.Addr = p.Addr.String()
		}
		if place := placed[p.UID]; place != nil {
			if place.Start != nil {
				pd.Start = new(*place.Start)
			}
		}
		if p.Home {
			pd.Endpoints = slices.Clone(at[p.Addr])
		}
		for _, port := range p.Ports {
			pd.Ports = append(pd.Ports, fmt.Sprintf("%s:%d/%s", port.Name, port.Number, port.Protocol))
		}
		out = append(out, pd)
	}
	slices.SortFunc(out, func(a, b state.Pod) int { return cmp.Compare(a.Pod, b.Pod) })
	return out
}

// Namespaces lists the Namespace objects by name.
func (s *Copied) Namespaces() []state.Namespace {
	out := []state.Namespace{}
	for name, ns := range s.namespaces {
		out = append(out, state.Namespace{Name: name, Labels: maps.Clone(ns.Labels), OverBudget: ns.OverBudget})
	}
	slices.SortFunc(out, func(a, b state.Namespace) int { return cmp.Compare(a.Name, b.Name) })
	return out
}

// ClusterPolicies lists the ClusterNetworkPolicies by name.
func (s *Copied) ClusterPolicies() []state.ClusterPolicy {
	selected := map[*clusterState][]string{}
	for _, p := range s.local {
		for _, by := range p.clusters {
			selected[by.policy] = append(selected[by.policy], p.Key().String())
		}
	}
	var out []state.ClusterPolicy
	for _, cs := range s.clusters {
		pd := state.ClusterPolicy{Name: cs.Name, Selected: append([]string{}, slices.Sorted(slices.Values(selected[cs]))...), Spec: cs.spec}
		for _, p := range cs.Problems {
			pd.Problems = append(pd.Problems, fmt.Sprintf("%s: %s: %s", p.Reason, p.Field, p.Message))
		}
		out = append(out, pd)
	}
	slices.SortFunc(out, func(a, b state.ClusterPolicy) int { return cmp.Compare(a.Name, b.Name) })
	return out
}

// Nodes lists the nodes of the cluster by name.
func (s *Copied) Nodes() []state.Node {
	var out []state.Node
	for _, n := range s.nodes {
		out = append(out, *n)
	}
	slices.SortFunc(out, func(a, b state.Node) int { return cmp.Compare(a.Name, b.Name) })
	return out
}
