package dataplane

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/winnpm/winnpm/pkg/backoff"
	"github.com/winnpm/winnpm/pkg/desired"
	"github.com/winnpm/winnpm/pkg/endpoints"
	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/pkg/ipsets"
	"github.com/winnpm/winnpm/pkg/state"
)

// Snapshot is the state of a Dataplane at one moment. Later transactions do not change it: it
// shares only values that are replaced and never changed.
type Snapshot struct {
	node      string
	now       time.Time
	progress  state.Progress
	desired   desired.Copied
	sets      *ipsets.Copy
	again     map[ipsets.Name]state.AgainDump
	endpoints endpoints.Copied
	warnings  []state.Warning
	reports   []state.Report
	due       state.DueDump
	spellings []state.SpellingSeen
	cut       bool
	lookAge   time.Duration
}

// Snapshot copies the state. It never waits for HNS. It holds the state lock for milliseconds if
// there are 100,000 pods (ADR 26). Dump sorts the copy and makes texts of it.
func (d *Dataplane) Snapshot() *Snapshot {
	s := &Snapshot{progress: d.Progress()}
	d.with(func(n *nodeState) {
		s.node, s.now, s.reports = n.cfg.Node, n.clock, slices.Clone(n.reports)
		s.spellings, s.cut, s.lookAge = n.endpoints.Spellings.All(), n.endpoints.Spellings.OthersCut(), n.lookAge()
		n.endpoints.DumpDue(&s.due)
		s.warnings, s.again = n.warnings(n.endpoints.Outstanding().Warnings), n.again()
		s.desired, s.endpoints, s.sets = n.desired.Copy(), n.endpoints.Copy(), n.cache.Copy()
	})
	return s
}

// again returns the sets that HNS rejects or did not remove, in a new map.
func (n *nodeState) again() map[ipsets.Name]state.AgainDump {
	again := make(map[ipsets.Name]state.AgainDump, len(n.refused)+len(n.removals))
	for name, a := range n.refused {
		again[name] = state.AgainDump{At: a.At, Attempts: a.Tries, Code: a.Code}
	}
	for name, a := range n.removals {
		again[name] = state.AgainDump{At: a.At, Attempts: a.Tries, Code: a.Code}
	}
	return again
}

// Dump returns the whole state. It is short for Snapshot and Snapshot.Dump.
func (d *Dataplane) Dump() state.Dump { return d.Snapshot().Dump() }

// Dump returns the state of the snapshot as values. It takes no lock.
func (s *Snapshot) Dump() state.Dump {
	var transaction *state.Progress
	if s.progress.Doing != "" {
		transaction = &s.progress
	}
	policies, clusterPolicies := s.desired.Policies()
	return state.Dump{
		Transaction: transaction,

		Node:            s.node,
		Time:            s.now,
		Sets:            dumpSets(s.sets, s.again),
		Pending:         s.endpoints.Pending(s.sets),
		Endpoints:       s.endpoints.Dump(),
		Policies:        policies,
		ClusterPolicies: clusterPolicies,
		Nodes:           s.desired.Nodes(),
		Pods:            s.desired.Pods(s.endpoints.ByAddr()),
		Namespaces:      s.desired.Namespaces(),
		NodeAddrs:       s.desired.NodeAddrs(),
		Warnings:        s.warnings,
		Reports:         s.reports,
		Due:             s.due,
		Spellings:       s.spellings,
		OthersCut:       s.cut,
		LookAge:         s.lookAge,
	}
}

// dumpSets lists the sets.
func dumpSets(sets *ipsets.Copy, again map[ipsets.Name]state.AgainDump) []state.SetDump {
	out := []state.SetDump{}
	for _, s := range sets.States() {
		sd := state.SetDump{
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

// Stats returns the numbers of the state, and the sets by name. It never waits for HNS. Its cost
// is linear in the sets and ACLs of the node, and does not depend on the pods of the cluster.
func (d *Dataplane) Stats() (s state.Stats) {
	var sets []ipsets.Programmed
	d.with(func(n *nodeState) {
		n.desired.Count(&s)
		n.endpoints.Count(&s)
		sets = n.cache.Programmed()
	})
	for _, set := range sets {
		s.Sets = append(s.Sets, state.SetStats(set))
	}
	slices.SortFunc(s.Sets, func(a, b state.SetStats) int { return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.ID, b.ID)) })
	return s
}

// Warnings returns the active warnings, sorted. It never waits for HNS.
func (d *Dataplane) Warnings() (active []state.Warning) {
	d.with(func(n *nodeState) { active = n.warnings(n.endpoints.Outstanding().Warnings) })
	return active
}

// warnings returns the active warnings, sorted: warnings of endpoints, and about objects over a
// budget, parts of policies that cannot be expressed, sets and addresses.
func (n *nodeState) warnings(ofEndpoints []state.Warning) []state.Warning {
	out := append(n.desired.Warnings(), ofEndpoints...)
	if rejected := n.cache.RejectedSets(); len(rejected)+len(n.removals)+n.sets.Tries > 0 {
		out = n.warnOfSets(out, rejected)
	}
	slices.SortFunc(out, func(a, b state.Warning) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Object, b.Object),
			cmp.Compare(a.Reason, b.Reason), cmp.Compare(a.Message, b.Message))
	})
	return slices.Compact(out)
}

// warnOfSets appends the warnings of sets: HNS rejects a set, does not remove it, or sets cannot be
// read or written.
func (n *nodeState) warnOfSets(out []state.Warning, rejected []ipsets.Name) []state.Warning {
	code := func(a *backoff.Again) string {
		if a == nil {
			return ""
		}
		return endpoints.InBrackets(a.Code)
	}
	for _, name := range rejected {
		needing, in := n.desired.Needing(name), code(n.refused[name])
		for _, key := range needing {
			object, kind := desired.ObjectOf(key)
			out = append(out, state.Warning{Object: object, Kind: kind, Reason: state.ReasonHNSRejected,
				Message: fmt.Sprintf(
					"HNS rejects set %s%s: where the policy needs it, what it accepts is left out and each of its denies blocks everything of its direction, until the set changes, or HNS takes it", name, in)})
		}
		if len(needing) == 0 { // a set of a named port
			out = append(out, state.Warning{Object: name.String(), Kind: "Set", Reason: state.ReasonHNSRejected,
				Message: fmt.Sprintf("HNS rejects the set%s: what needs it is left out until it changes, or HNS takes it", in)})
		}
	}
	for name, a := range n.removals {
		if a.Tries > 0 {
			out = append(out, state.Warning{Object: name.String(), Kind: "Set", Reason: state.ReasonHNSRejected,
				Message: "HNS does not remove the set" + code(a) + ": nothing needs it; it is tried again"})
		}
	}
	if n.sets.Tries > 0 {
		out = append(out, state.Warning{Object: n.cfg.Node, Kind: "Node", Reason: state.ReasonHNSUnavailable, Message: "sets could not be written or read; they are retried"})
	}
	return out
}
