package dataplane

import (
	"slices"

	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/pkg/ipsets"
	"github.com/winnpm/winnpm/pkg/state"
)

// Dump returns the state of the moment at which the snapshot was taken. It holds no lock.
func (s *Snapshot) Dump() state.Dump {
	var transaction *state.Progress
	if s.progress.Doing != "" {
		transaction = &s.progress
	}
	policies, clusterPolicies := s.desired.Policies()
	return state.Dump{
		Transaction: transaction,

		Node:            s.active.node,
		Time:            s.now,
		Sets:            dumpSets(s.sets, s.active.again),
		Pending:         s.endpoints.Pending(s.sets),
		Endpoints:       s.endpoints.Dump(s.sets),
		Policies:        policies,
		ClusterPolicies: clusterPolicies,
		Nodes:           s.desired.Nodes(),
		Pods:            s.desired.Pods(s.endpoints.ByAddr()),
		Namespaces:      s.desired.Namespaces(),
		NodeAddrs:       s.desired.NodeAddrs(),
		Warnings:        s.active.warnings(),
		Reports:         cloneReports(s.reports),
		Due:             s.due,
		Spellings:       s.spellings,
		OthersCut:       s.cut,
		LookAge:         s.lookAge,
	}
}

// dumpSets lists the sets.
func dumpSets(sets *ipsets.Copy, again map[ipsets.Name]state.Again) []state.Set {
	out := []state.Set{}
	for _, s := range sets.States() {
		sd := state.Set{
			ID: s.ID, Name: s.Name, Type: string(hns.IPSet), Members: s.Members,
			Holders: []string{}, Pins: []string{}, InHNS: s.InHNS, Dirty: s.Dirty, Fed: s.Fed,
			Missing: s.Missing, Surplus: s.Surplus, Unknown: s.Unknown, Since: s.Since,
			Spare: s.Spare, Refused: s.Rejected, Called: s.Called,
		}
		if n, ok := sets.Lookup(s.ID); ok {
			if a, waits := again[n]; waits {
				sd.Again = &a
			}
		}
		if sd.Members == nil {
			sd.Members = []string{}
		}
		if s.Nested {
			sd.Type = string(hns.NestedIPSet)
		}
		for _, ref := range s.Refs {
			if ref.Kind == ipsets.RefPin {
				sd.Pins = append(sd.Pins, ref.Owner)
			} else {
				sd.Holders = append(sd.Holders, ref.Kind.String()+" "+ref.Owner)
			}
		}
		out = append(out, sd)
	}
	return out
}

// cloneReports copies reports, and what they hold.
func cloneReports(in []state.Report) []state.Report {
	out := slices.Clone(in)
	for i := range out {
		out[i] = out[i].Clone()
	}
	return out
}
