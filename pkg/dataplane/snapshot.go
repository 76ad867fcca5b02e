package dataplane

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"

	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/pkg/ipsets"
	"github.com/winnpm/winnpm/pkg/policy"
)

// Dump returns a snapshot of the whole state. It never waits for HNS.
func (d *Dataplane) Dump() Dump {
	d.mu.Lock()
	defer d.mu.Unlock()
	return Dump{
		Node:       d.cfg.Node,
		Time:       d.cfg.Now(),
		Sets:       d.dumpSetsLocked(),
		Pending:    d.dumpPendingLocked(),
		Endpoints:  d.dumpEndpointsLocked(),
		Policies:   d.dumpPoliciesLocked(),
		Pods:       d.dumpPodsLocked(),
		Namespaces: d.dumpNamespacesLocked(),
		NodeAddrs:  texts(d.nodeAddrs),
		Warnings:   d.warningsLocked(),
		Reports:    cloneReports(d.reports),
		Due:        d.dumpDueLocked(),
	}
}

// dumpDueLocked says what waits for its time. d.mu must be held.
func (d *Dataplane) dumpDueLocked() DueDump {
	due := DueDump{
		Sets:    RetryDump{Attempts: d.sets.tries, At: d.sets.at},
		Listing: RetryDump{Attempts: d.listing.retry.tries, At: d.listing.retry.at},
		Unread:  d.fresh, Unsettled: d.listing.unsettled, Turn: d.turn,
	}
	if d.listing.wanted {
		due.Listing.At = d.now
	}
	if d.listing.err != nil {
		due.Listing.Error = d.listing.err.Error()
	}
	return due
}

// Warnings returns what stands, sorted. It never waits for HNS.
func (d *Dataplane) Warnings() []Warning {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.warningsLocked()
}

// Selecting returns the policies that select a local pod, sorted. It never waits
// for HNS.
func (d *Dataplane) Selecting(pod PodKey) []policy.Key {
	d.mu.Lock()
	defer d.mu.Unlock()
	p := d.members.pods[pod]
	if p == nil {
		return nil
	}
	var keys []policy.Key
	for _, ps := range p.selected {
		keys = append(keys, ps.Key)
	}
	return keys
}

func texts(addrs []netip.Addr) []string {
	out := make([]string, len(addrs))
	for i, a := range addrs {
		out[i] = a.String()
	}
	return out
}

// warningsLocked lists what stands. d.mu must be held.
func (d *Dataplane) warningsLocked() []Warning {
	var out []Warning
	for key := range d.problems {
		for _, p := range d.policies[key].Problems {
			out = append(out, Warning{key.String(), "NetworkPolicy", Reason(p.Reason), p.Field + ": " + p.Message})
		}
	}
	for n := range d.leftOut {
		for _, p := range d.local {
			for _, ps := range p.selected {
				if d.needsLocked(ps, n) {
					out = append(out, Warning{ps.Key.String(), "NetworkPolicy", ReasonHNSRejected,
						fmt.Sprintf("HNS refuses set %s: what needs it is left out until it changes", n)})
				}
			}
		}
	}
	for _, ep := range d.endpoints {
		out = append(out, d.endpointWarningsLocked(ep)...)
	}
	out = append(out, d.disputeWarningsLocked(d.cfg.Now())...)
	if d.sets.tries > 0 {
		out = append(out, Warning{d.cfg.Node, "Node", ReasonHNSUnavailable, "sets could not be written or read; they are retried"})
	}
	if d.listing.err != nil {
		out = append(out, Warning{d.cfg.Node, "Node", ReasonHNSUnavailable, oneLine(d.listing.err)})
	}
	slices.SortFunc(out, func(a, b Warning) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Object, b.Object),
			cmp.Compare(a.Reason, b.Reason), cmp.Compare(a.Message, b.Message))
	})
	return slices.Compact(out)
}

// needsLocked reports whether a policy mentions a set or one that contains it.
// d.mu must be held.
func (d *Dataplane) needsLocked(ps *policyState, n ipsets.Name) bool {
	return slices.ContainsFunc(ps.Sets, func(def policy.SetDef) bool {
		return def.Name == n || def.Name.Nested() && d.cache.HasMember(def.Name, n)
	})
}

func (d *Dataplane) endpointWarningsLocked(ep *endpoint) []Warning {
	var out []Warning
	for _, g := range ep.wanted.groups {
		if digest, ok := ep.refused[g.key]; ok && digest == g.digest {
			out = append(out, Warning{g.key.String(), "NetworkPolicy", ReasonHNSRejected,
				fmt.Sprintf("HNS refuses its rules on endpoint %s: they are left out there until they change", ep.id)})
		}
	}
	if ep.lastErr != nil {
		w := Warning{ep.id, "Endpoint", ReasonHNSUnavailable, oneLine(ep.lastErr)}
		if p := d.members.byUID[ep.owner]; p != nil {
			w.Object, w.Kind = p.Key().String(), "Pod"
		}
		if errors.Is(ep.lastErr, hns.ErrInvalid) {
			w.Reason = ReasonHNSRejected
		}
		out = append(out, w)
	}
	return out
}

func oneLine(err error) string { return fmt.Sprintf("%.300s; it is retried", err.Error()) }

// dumpSetsLocked lists the sets. d.mu must be held.
func (d *Dataplane) dumpSetsLocked() []SetDump {
	out := []SetDump{}
	differences := d.cache.Differences()
	for _, s := range d.cache.Snapshot() {
		diff := differences[s.ID]
		sd := SetDump{
			ID: s.ID, Name: s.Name, Type: string(hns.IPSet), Members: append([]string{}, s.Members...),
			Holders: []string{}, Pins: []string{}, InHNS: s.InHNS, Dirty: s.Dirty,
			Missing: diff.Missing, Surplus: diff.Surplus, Unknown: diff.Unknown, Since: diff.Since,
			Spare: s.Spare, Refused: s.Rejected,
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

// dumpPendingLocked lists the outstanding updates in the order of the queue,
// then the pods whose endpoint was not seen. d.mu must be held.
func (d *Dataplane) dumpPendingLocked() []PendingDump {
	out := []PendingDump{}
	for _, ep := range d.pendingLocked() {
		pd := PendingDump{UID: string(ep.owner), Endpoint: ep.id, Attempts: ep.tries, Join: []string{}, Leave: []string{}}
		if p := d.members.byUID[ep.owner]; p != nil {
			pd.Pod = p.Key().String()
		}
		if ep.lastErr != nil {
			pd.Error = ep.lastErr.Error()
		}
		pd.Join, pd.Leave = d.netLocked(ep)
		out = append(out, pd)
	}
	for _, p := range d.waitingLocked() {
		out = append(out, PendingDump{Pod: p.Key().String(), UID: string(p.UID), Join: []string{}, Leave: []string{}})
	}
	return out
}

// netLocked returns the net difference in sets between what was last applied
// and what is wanted. d.mu must be held.
func (d *Dataplane) netLocked(ep *endpoint) (join, leave []string) {
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
	applied := d.namesOfLocked(ep.mayHave()...)
	wanted := d.namesOfLocked(d.wishLocked(ep))
	return minus(wanted, applied), minus(applied, wanted)
}

// dumpEndpointsLocked lists the endpoints by id. d.mu must be held.
func (d *Dataplane) dumpEndpointsLocked() []EndpointDump {
	out := []EndpointDump{}
	for _, id := range slices.Sorted(maps.Keys(d.endpoints)) {
		ep := d.endpoints[id]
		ed := EndpointDump{
			ID: id, Addrs: texts(ep.addrs), Applied: append([]hns.ACL{}, ep.applied...), Known: ep.known(),
			Wanted: append([]hns.ACL{}, d.wishLocked(ep)...), Foreign: len(ep.foreign),
		}
		if p := d.members.byUID[ep.owner]; p != nil {
			ed.Pod = p.Key().String()
		}
		ed.explain(ep)
		ed.Next = ep.next(d.check[id])
		out = append(out, ed)
	}
	return out
}

// explain adds what an explanation of the endpoint's rules needs.
func (ed *EndpointDump) explain(ep *endpoint) {
	rules := map[hns.ACL][]int{}
	for _, g := range ep.wanted.groups {
		for _, r := range g.rules {
			rules[r.acl] = r.rules
		}
	}
	ed.WantedRules = make([][]int, len(ed.Wanted))
	for i, a := range ed.Wanted {
		ed.WantedRules[i] = append([]int{}, rules[a]...)
	}
	for _, list := range ep.attempts {
		ed.Maybe = append(ed.Maybe, append([]hns.ACL{}, list...))
	}
	for _, p := range ep.foreign {
		ed.Tiered = ed.Tiered || p.Type == hns.PolicyTypeTierACL
		if a, err := p.ACL(); err == nil {
			ed.ForeignRules = append(ed.ForeignRules, a.Canonical())
		}
	}
	if ep.queued > 0 {
		ed.Since = ep.since
	}
}

// next says what the next write of the endpoint depends on.
func (ep *endpoint) next(check bool) NextDump {
	next := NextDump{
		Version: ep.version, BornFor: string(ep.bornFor), WrittenFor: string(ep.writtenFor), Due: ep.retryAt,
		Careful: ep.careful, Distrusted: ep.distrusted, Repair: ep.repair, Conflicts: ep.changes, Check: check,
		Attempts: ep.tries, Invalid: errors.Is(ep.lastErr, hns.ErrInvalid), Turn: ep.queued,
	}
	if ep.queued > 0 && ep.changedBy != (policy.Key{}) {
		next.ChangedBy = ep.changedBy.String()
	}
	if ep.lastErr != nil {
		next.Error = ep.lastErr.Error()
	}
	for _, key := range slices.SortedFunc(maps.Keys(ep.refused), compareKeys) {
		next.Refused = append(next.Refused, key.String())
	}
	return next
}

// dumpPoliciesLocked lists the policies by key. d.mu must be held.
func (d *Dataplane) dumpPoliciesLocked() []PolicyDump {
	selected := map[*policyState][]string{}
	for _, p := range d.local {
		for _, ps := range p.selected {
			selected[ps] = append(selected[ps], p.Key().String())
		}
	}
	out := []PolicyDump{}
	for _, key := range slices.SortedFunc(maps.Keys(d.policies), compareKeys) {
		ps := d.policies[key]
		pd := PolicyDump{
			Policy: key.String(), Ingress: ps.Isolates[policy.Ingress], Egress: ps.Isolates[policy.Egress],
			Rules: len(ps.Rules), Selected: append([]string{}, slices.Sorted(slices.Values(selected[ps]))...),
			Spec: ps.spec,
		}
		for _, p := range ps.Problems {
			pd.Problems = append(pd.Problems, fmt.Sprintf("%s: %s: %s", p.Reason, p.Field, p.Message))
		}
		out = append(out, pd)
	}
	return out
}

// dumpPodsLocked lists the pods by name. d.mu must be held.
func (d *Dataplane) dumpPodsLocked() []PodDump {
	out := make([]PodDump, 0, len(d.members.pods))
	for _, p := range d.members.pods {
		pd := PodDump{
			Pod: p.Key().String(), UID: string(p.UID), Labels: maps.Clone(p.Labels), Local: p.Local, Owner: p.member,
			HostNetwork: p.HostNetwork, Finished: p.Finished, Deleting: p.Deleting, Started: p.Started, Created: p.Created,
		}
		if p.Addr.IsValid() {
			pd.Addr = p.Addr.String()
		}
		if p.Local && p.member {
			for _, ep := range d.byAddr[p.Addr] {
				pd.Endpoints = append(pd.Endpoints, ep.id)
			}
			slices.Sort(pd.Endpoints)
		}
		for _, port := range p.Ports {
			pd.Ports = append(pd.Ports, fmt.Sprintf("%s:%d/%s", port.Name, port.Number, port.Protocol))
		}
		out = append(out, pd)
	}
	slices.SortFunc(out, func(a, b PodDump) int { return cmp.Compare(a.Pod, b.Pod) })
	return out
}

// dumpNamespacesLocked lists the Namespace objects by name. d.mu must be held.
func (d *Dataplane) dumpNamespacesLocked() []NamespaceDump {
	out := []NamespaceDump{}
	for _, name := range slices.Sorted(maps.Keys(d.members.namespaces)) {
		out = append(out, NamespaceDump{Name: name, Labels: maps.Clone(d.members.namespaces[name].Labels)})
	}
	return out
}
