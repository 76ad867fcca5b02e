package endpoints

import (
	"cmp"
	"hash/maphash"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/winnpm/winnpm/pkg/acl"
	"github.com/winnpm/winnpm/pkg/desired"
	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/pkg/ipsets"
	"github.com/winnpm/winnpm/pkg/policy"
	"github.com/winnpm/winnpm/pkg/state"
)

// Copied is the endpoints of a Table at one moment. It shares only values that Table
// replaces and never changes.
type Copied struct {
	byID    map[string]*Tracked
	pods    map[types.UID]string // names of the local pods that own endpoints
	waiting []*desired.PodState
}

// Copy returns the endpoints as they are now.
func (d *Table) Copy() Copied {
	out := Copied{byID: make(map[string]*Tracked, len(d.byID)), pods: map[types.UID]string{}, waiting: d.Waiting()}
	for id, ep := range d.byID {
		is := *ep
		is.rejected, is.holds = maps.Clone(ep.rejected), nil
		out.byID[id] = &is
		out.pods[ep.owner] = d.podOf(ep)
	}
	return out
}

// ByAddr returns the ids of the endpoints by address, in order.
func (s *Copied) ByAddr() map[netip.Addr][]string {
	at := map[netip.Addr][]string{}
	for _, id := range slices.Sorted(maps.Keys(s.byID)) {
		for _, addr := range s.byID[id].addrs {
			at[addr] = append(at[addr], id)
		}
	}
	return at
}

// Pending lists the outstanding updates in the order of the queue, then the pods whose
// endpoint was not seen.
func (s *Copied) Pending(sets *ipsets.Copy) []state.Pending {
	out := []state.Pending{}
	for _, ep := range pending(s.byID) {
		pd := state.Pending{Pod: s.pods[ep.owner], UID: string(ep.owner), Endpoint: ep.ID, Attempts: ep.tries}
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

// pending returns the endpoints with an outstanding update, in the order of their turns.
func pending(endpoints map[string]*Tracked) (out []*Tracked) {
	for _, ep := range endpoints {
		if ep.Pending() {
			out = append(out, ep)
		}
	}
	sortByTurn(out)
	return out
}

// Dump lists the endpoints by id.
func (s *Copied) Dump() []state.EndpointDump {
	out := make([]state.EndpointDump, 0, len(s.byID))
	lists := sharedLists{maphash.MakeSeed(), map[uint64]*sharedList{}}
	for _, id := range slices.Sorted(maps.Keys(s.byID)) {
		ep := s.byID[id]
		ed := state.EndpointDump{
			ID: id, Addrs: make([]string, len(ep.addrs)), Pod: s.pods[ep.owner], Applied: lists.of(ep.Actual).acls, Known: ep.Known(),
			Foreign: len(ep.foreign),
		}
		for i, a := range ep.addrs {
			ed.Addrs[i] = a.String()
		}
		for _, a := range ep.ipv6 {
			ed.IPv6 = append(ed.IPv6, a.String())
		}
		explain(&ed, ep, lists)
		ed.Tiered = slices.ContainsFunc(ep.foreign, func(p hns.EndpointPolicy) bool { return p.Type == hns.PolicyTypeTierACL })
		ed.ForeignRules = foreignRules(ep.foreign)
		ed.Next = ep.next()
		out = append(out, ed)
	}
	return out
}

// net returns the sets that only the desired rules name (join), and the sets that only the
// possible actual rules name (leave).
func net(ep *Tracked, sets *ipsets.Copy) (join, leave []string) {
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
	wanted := namesOf(sets.Lookup, ep.list)
	return minus(wanted, applied), minus(applied, wanted)
}

// explain adds the desired rules, and where each came from, for tools that explain
// verdicts.
func explain(ed *state.EndpointDump, ep *Tracked, lists sharedLists) {
	wanted := lists.of(ep.list)
	sources := sourcesOf(ep)
	if !slices.EqualFunc(sources, wanted.sources, state.RuleSource.Equal) {
		wanted.sources = sources
	}
	ed.Wanted, ed.Sources = wanted.acls, wanted.sources
	for _, list := range ep.attempts {
		ed.Maybe = append(ed.Maybe, acl.Canonical(list))
	}
	if ep.Pending() {
		ed.Since = ep.since
	}
}

// sourcesOf returns what each rule of the desired list came from.
func sourcesOf(ep *Tracked) []state.RuleSource {
	from := map[hns.ACL]*acl.SourcedACL{}
	for _, a := range ep.desired.Without(ep.out) {
		if _, twice := from[a.ACL]; !twice { // of equal ones the first one decides
			from[a.ACL] = a
		}
	}
	out := make([]state.RuleSource, len(ep.list))
	for i, a := range ep.list {
		is := cmp.Or(from[a], &acl.SourcedACL{})
		out[i] = state.RuleSource{TierSource: is.From.Dump(), Rules: is.Rules}
		for _, by := range is.Via {
			out[i].Passed = append(out[i].Passed, by.Dump())
		}
	}
	return out
}

// sharedLists has the lists of one dump. Pods of one workload have equal lists, which a dump of
// thousands of pods has in memory once.
type sharedLists struct {
	seed  maphash.Seed
	known map[uint64]*sharedList // by hash
}

type sharedList struct {
	acls    []hns.ACL          // canonical
	sources []state.RuleSource // of the last endpoint with these ACLs
}

// of returns the list of these ACLs. It is not shared if another list has the same hash.
func (l sharedLists) of(acls []hns.ACL) *sharedList {
	out := acl.Canonical(acls)
	hash := uint64(len(out))
	for _, a := range out {
		hash = 31*hash + maphash.Comparable(l.seed, a)
	}
	if known := l.known[hash]; known != nil && slices.Equal(known.acls, out) {
		return known
	}
	l.known[hash] = &sharedList{acls: out, sources: []state.RuleSource{}}
	return l.known[hash]
}

// next returns the state that decides when and how the endpoint is written next.
func (ep *Tracked) next() state.Next {
	next := state.Next{
		Version: ep.Version, Due: ep.retryAt, Attempts: ep.tries, Turn: ep.turn,
		Exposed: ep.exposed,
	}
	if ep.lastErr != nil {
		next.Error = ep.lastErr.Error()
	}
	for _, key := range slices.SortedFunc(maps.Keys(ep.rejected), policy.Key.Compare) {
		q := ep.rejected[key]
		next.Refused = append(next.Refused, key.String())
		if next.Again == nil {
			next.Again = map[string]state.AgainDump{}
		}
		next.Again[key.String()] = state.AgainDump{At: q.At, Attempts: q.Tries, Code: q.Code}
	}
	return next
}

// DumpDue adds the unread endpoints to a dump, with the time of their next read.
func (d *Table) DumpDue(due *state.DueDump) {
	for _, id := range slices.Sorted(maps.Keys(d.unread)) {
		n := d.unread[id]
		nd := state.Unread{ID: id, Came: n.came, RetryDump: state.RetryDump{Attempts: n.Tries, At: n.At}}
		if n.err != nil {
			nd.Error = n.err.Error()
		}
		due.New = append(due.New, nd)
	}
}

// foreignRules returns the ACLs among the policies of other programs, in canonical form.
func foreignRules(policies []hns.EndpointPolicy) (out []hns.ACL) {
	for _, p := range policies {
		if !strings.EqualFold(p.Type, hns.PolicyTypeACL) {
			continue
		}
		if a, err := p.ACL(); err == nil {
			out = append(out, a.Canonical())
		}
	}
	return out
}
