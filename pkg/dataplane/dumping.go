package dataplane

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/winnpm/winnpm/pkg/acl"
	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/pkg/ipsets"
	"github.com/winnpm/winnpm/pkg/policy"
	"github.com/winnpm/winnpm/pkg/state"
)

// Dump returns the state of the moment at which the snapshot was taken. It holds no lock.
func (s *Snapshot) Dump() state.Dump {
	var transaction *state.Progress
	if s.progress.Doing != "" {
		transaction = &s.progress
	}
	return state.Dump{
		Transaction: transaction,

		Node:            s.node,
		Time:            s.now,
		Sets:            dumpSets(s.sets, s.again),
		Pending:         s.dumpPending(s.sets),
		Endpoints:       s.dumpEndpoints(s.sets),
		Policies:        s.dumpPolicies(s.policies),
		ClusterPolicies: s.dumpClusters(),
		Nodes:           listNodes(s.nodes),
		Pods:            s.dumpPods(),
		Namespaces:      s.dumpNamespaces(),
		NodeAddrs:       texts(s.nodeAddrs),
		Warnings:        s.activeWarnings(s.policies).warnings(),
		Reports:         cloneReports(s.reports),
		Due:             s.due,
		Spellings:       s.spellings,
		OthersCut:       s.cut,
		LookAge:         s.lookAge,
	}
}

// activeWarnings is what the warnings of the snapshot are about.
func (s *Snapshot) activeWarnings(policies map[policy.Key]*policyState) activeWarnings {
	return activeWarnings{
		node: s.node, problems: maps.Values(policies), leftOut: s.leftOut, endpoints: s.endpoints,
		podOf: func(uid types.UID) string { return s.names[uid] },
		over:  s.over, clusters: s.clusterWarnings, flapping: s.flapping, refusals: s.refusals, addresses: s.addresses, unread: s.unread, unwritten: s.unwritten, listingErr: s.listing,
	}
}

func texts(addrs []netip.Addr) []string {
	out := make([]string, len(addrs))
	for i, a := range addrs {
		out[i] = a.String()
	}
	return out
}

// dumpSets lists the sets.
func dumpSets(sets *ipsets.Copy, again map[ipsets.Name]state.Again) []state.Set {
	out := []state.Set{}
	differences := sets.Differences()
	for _, s := range sets.States() {
		diff := differences[s.ID]
		sd := state.Set{
			ID: s.ID, Name: s.Name, Type: string(hns.IPSet), Members: s.Members,
			Holders: []string{}, Pins: []string{}, InHNS: s.InHNS, Dirty: s.Dirty,
			Missing: diff.Missing, Surplus: diff.Surplus, Unknown: diff.Unknown, Since: diff.Since,
			Spare: s.Spare, Refused: s.Rejected, Suspect: s.Group, Clings: s.Clings, Ending: s.Ending, Reading: s.Reading, Called: s.Called,
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

// dumpPending lists the outstanding updates in the order of the queue, then the
// pods whose endpoint was not seen.
func (s *Snapshot) dumpPending(sets *ipsets.Copy) []state.Pending {
	out := []state.Pending{}
	for _, ep := range pending(s.endpoints, s.subqueues, s.due.Turn) {
		pd := state.Pending{Pod: s.names[ep.owner], UID: string(ep.owner), Endpoint: ep.id, Attempts: ep.tries}
		if ep.lastErr != nil {
			pd.Error = ep.lastErr.Error()
		}
		pd.Join, pd.Leave = net(ep, sets)
		out = append(out, pd)
	}
	for _, p := range s.waiting {
		out = append(out, state.Pending{Pod: p.Key().String(), UID: string(p.UID), Join: []string{}, Leave: []string{}})
	}
	return out
}

// net returns the net difference in sets between what was last applied and what
// is desired.
func net(ep *endpoint, sets *ipsets.Copy) (join, leave []string) {
	minus := func(a, b []ipsets.Name) []string {
		out := []string{}
		for _, n := range a {
			if !slices.Contains(b, n) && !slices.Contains(out, n.String()) {
				out = append(out, n.String())
			}
		}
		slices.Sort(out)
		return out
	}
	applied := namesOf(sets.Lookup, ep.possible()...)
	wanted := namesOf(sets.Lookup, ep.list(sets.Rejected))
	return minus(wanted, applied), minus(applied, wanted)
}

// dumpEndpoints lists the endpoints by id.
func (s *Snapshot) dumpEndpoints(sets *ipsets.Copy) []state.Endpoint {
	out := []state.Endpoint{}
	for _, id := range slices.Sorted(maps.Keys(s.endpoints)) {
		ep := s.endpoints[id]
		ed := state.Endpoint{
			ID: id, Addrs: texts(ep.addrs), Pod: s.names[ep.owner], Applied: acl.Canonical(ep.actual), Known: ep.known(),
			Foreign: len(ep.foreign),
		}
		want := ep.list(sets.Rejected)
		explain(&ed, ep, want)
		if ep.desired.tiers != nil {
			explainTiers(&ed, want, ep.tierRules(sets.Rejected))
		}
		ed.Next = ep.next()
		out = append(out, ed)
	}
	return out
}

// explain adds what is desired and what an explanation of the endpoint's rules
// needs.
func explain(ed *state.Endpoint, ep *endpoint, want []hns.ACL) {
	rules := map[hns.ACL][]int{}
	for _, g := range ep.desired.groups {
		for _, r := range g.rules {
			rules[r.acl] = r.rules
		}
	}
	ed.Wanted, ed.WantedRules = acl.Canonical(want), make([][]int, len(want))
	for i, a := range want {
		ed.WantedRules[i] = append([]int{}, rules[a]...)
	}
	for _, list := range ep.attempts {
		ed.Maybe = append(ed.Maybe, acl.Canonical(list))
	}
	for _, p := range ep.foreign {
		ed.Tiered = ed.Tiered || p.Type == hns.PolicyTypeTierACL
		if a, err := p.ACL(); err == nil {
			ed.ForeignRules = append(ed.ForeignRules, a.Canonical())
		}
	}
	if ep.pending() {
		ed.Since = ep.since
	}
}

// next says what the next write of the endpoint depends on.
func (ep *endpoint) next() state.Next {
	next := state.Next{
		Version: ep.version, BornFor: string(ep.bornFor), BornIn: ep.bornIn, Came: ep.came, Netns: ep.netns, WrittenFor: string(ep.writtenFor), Due: ep.retryAt,
		Careful: ep.state.careful(), Trial: ep.trial, Compromises: ep.dumpCompromises(), Distrusted: ep.distrusted, Bare: ep.state.update == updateBare, Unlisted: ep.unlisted,
		Exposed: ep.exposed, Shielded: ep.state.rules == rulesShielded, Absent: ep.state.listed == listedMissed, Repair: ep.repair, Conflicts: ep.changes, Check: ep.state.check,
		Attempts: ep.tries, Invalid: errors.Is(ep.lastErr, hns.ErrInvalid), Turn: ep.turn,
	}
	if ep.pending() {
		next.Queue = ep.subqueue
		if ep.changedBy != (policy.Key{}) {
			next.ChangedBy = ep.changedBy.String()
		}
	}
	if ep.lastErr != nil {
		next.Error = ep.lastErr.Error()
	}
	for _, key := range slices.SortedFunc(maps.Keys(ep.refused), compareKeys) {
		ref := ep.refused[key]
		next.Refused = append(next.Refused, key.String())
		if next.Again == nil {
			next.Again = map[string]state.Again{}
		}
		next.Again[key.String()] = state.Again{At: ref.At, Attempts: ref.Tries, Code: ref.Code}
	}
	return next
}

// dumpPolicies lists the policies by key.
func (s *Snapshot) dumpPolicies(policies map[policy.Key]*policyState) []state.Policy {
	selected := map[*policyState][]string{}
	for _, p := range s.local {
		for _, ps := range p.selected {
			selected[ps] = append(selected[ps], p.Key().String())
		}
	}
	out := []state.Policy{}
	for _, key := range slices.SortedFunc(maps.Keys(policies), compareKeys) {
		ps := policies[key]
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

// dumpPods lists the pods by name.
func (s *Snapshot) dumpPods() []state.Pod {
	at := map[netip.Addr][]string{} // endpoints by address
	for _, id := range slices.Sorted(maps.Keys(s.endpoints)) {
		for _, addr := range s.endpoints[id].addrs {
			at[addr] = append(at[addr], id)
		}
	}
	placed := make(map[types.UID]*placement, len(s.local))
	for _, p := range s.local {
		placed[p.UID] = p.placement
	}
	out := make([]state.Pod, 0, len(s.pods))
	for key, p := range s.pods {
		pd := state.Pod{
			Pod: key.String(), UID: string(p.UID), Labels: maps.Clone(p.Labels), Local: p.Local, Owner: p.owner, InDoubt: p.inDoubt(),
			HostNetwork: p.HostNetwork, Finished: p.Finished, Deleting: p.Deleting, Started: p.Started, Created: p.Created,
			Sandbox: p.Sandbox, OverBudget: p.OverBudget,
		}
		if p.Addr.IsValid() {
			pd.Addr = p.Addr.String()
		}
		if place := placed[p.UID]; place != nil {
			pd.Listed, pd.Search = place.listed, state.Retry{Attempts: place.search.Tries, At: place.search.At}
			if place.start != nil {
				pd.Start = new(*place.start)
			}
		}
		if p.home {
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

// dumpNamespaces lists the Namespace objects by name.
func (s *Snapshot) dumpNamespaces() []state.Namespace {
	out := []state.Namespace{}
	for name, ns := range s.namespaces {
		out = append(out, state.Namespace{Name: name, Labels: maps.Clone(ns.Labels), OverBudget: ns.OverBudget})
	}
	slices.SortFunc(out, func(a, b state.Namespace) int { return cmp.Compare(a.Name, b.Name) })
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
