package desired

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"slices"

	"github.com/winnpm/winnpm/pkg/policy"
	"github.com/winnpm/winnpm/pkg/state"
)

// Copied is the objects of a State at one moment, with the state that follows from them. It
// shares only values that State replaces and never changes.
type Copied struct {
	pods       []*PodState
	policies   map[policy.Key]*policyState
	namespaces map[string]Namespace
	nodes      []*state.NodeDump // of the cluster
	nodeAddrs  []netip.Addr
}

// Copy returns the objects as they are now.
func (d *State) Copy() Copied {
	out := Copied{
		namespaces: maps.Clone(d.members.namespaces), policies: maps.Clone(d.policies),
		nodes: slices.Collect(maps.Values(d.members.nodes)), nodeAddrs: d.nodeAddrs,
	}
	for p := range d.members.all() {
		if p.Placement != nil {
			is, placed := *p, *p.Placement
			placed.selected = slices.Clone(p.selected) // it is changed in place
			is.Placement = &placed
			p = &is
		}
		out.pods = append(out.pods, p)
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

// Policies lists the policies of both kinds by key.
func (s *Copied) Policies() (out []state.PolicyDump, clusters []state.ClusterPolicy) {
	selected := map[*policyState][]string{}
	for _, p := range s.pods {
		if p.Placement == nil {
			continue
		}
		for _, by := range p.selected {
			selected[by.policyState] = append(selected[by.policyState], p.Key().String())
		}
	}
	out = []state.PolicyDump{}
	for _, key := range slices.SortedFunc(maps.Keys(s.policies), policy.Key.Compare) {
		ps := s.policies[key]
		pods := append([]string{}, slices.Sorted(slices.Values(selected[ps]))...)
		var problems []string
		for _, p := range ps.Problems {
			problems = append(problems, fmt.Sprintf("%s: %s: %s", p.Reason, p.Field, p.Message))
		}
		if name, is := key.Cluster(); is {
			clusters = append(clusters, state.ClusterPolicy{Name: name, Selected: pods, Spec: &ps.cnp.Spec, Problems: problems})
		} else {
			out = append(out, state.PolicyDump{
				Policy: key.String(), Ingress: ps.Isolates[policy.Ingress], Egress: ps.Isolates[policy.Egress],
				Rules: ps.ruleCount, Selected: pods, Spec: &ps.np.Spec, Problems: problems,
			})
		}
	}
	return out, clusters
}

// Pods lists the pods by name; at are the ids of endpoints by address.
func (s *Copied) Pods(at map[netip.Addr][]string) []state.PodDump {
	out := make([]state.PodDump, 0, len(s.pods))
	for _, p := range s.pods {
		pd := state.PodDump{
			Pod: p.Key().String(), UID: string(p.UID), Labels: maps.Clone(p.Labels), Local: p.Local, Owner: p.owner, InDoubt: p.InDoubt(),
			HostNetwork: p.HostNetwork, Finished: p.Finished, Deleting: p.Deleting, Trust: p.Trust, Started: p.Started, Created: p.Created,
			Sandbox: p.Sandbox, Grace: p.Grace, LostUntil: p.LostUntil, OverBudget: p.OverBudget,
		}
		if p.Addr.IsValid() {
			pd.Addr = p.Addr.String()
		}
		if p.Home && p.Start != nil {
			pd.Start = new(*p.Start)
		}
		if p.Home {
			pd.Endpoints = slices.Clone(at[p.Addr])
		}
		for _, port := range p.Ports {
			pd.Ports = append(pd.Ports, fmt.Sprintf("%s:%d/%s", port.Name, port.Number, port.Protocol))
		}
		out = append(out, pd)
	}
	slices.SortFunc(out, func(a, b state.PodDump) int { return cmp.Compare(a.Pod, b.Pod) })
	return out
}

// Namespaces lists the Namespace objects by name.
func (s *Copied) Namespaces() []state.NamespaceDump {
	out := []state.NamespaceDump{}
	for name, ns := range s.namespaces {
		out = append(out, state.NamespaceDump{Name: name, Labels: maps.Clone(ns.Labels), OverBudget: ns.OverBudget})
	}
	slices.SortFunc(out, func(a, b state.NamespaceDump) int { return cmp.Compare(a.Name, b.Name) })
	return out
}

// Nodes lists the nodes of the cluster by name.
func (s *Copied) Nodes() []state.NodeDump {
	var out []state.NodeDump
	for _, n := range s.nodes {
		out = append(out, *n)
	}
	slices.SortFunc(out, func(a, b state.NodeDump) int { return cmp.Compare(a.Name, b.Name) })
	return out
}
