package dataplane

import (
	"cmp"
	"maps"
	"net/netip"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/winnpm/winnpm/pkg/drift"
	"github.com/winnpm/winnpm/pkg/ipsets"
	"github.com/winnpm/winnpm/pkg/policy"
	"github.com/winnpm/winnpm/pkg/state"
)

// Snapshot is the state of a Dataplane at one moment. Transactions go on beside it: what
// it points to is replaced when it changes, and what is changed in place was copied.
type Snapshot struct {
	pods       map[PodKey]*podState
	policies   map[policy.Key]*policyState
	namespaces map[string]Namespace
	sets       *ipsets.Copy

	node            string
	now             time.Time
	endpoints       map[string]*endpoint
	subqueues       map[string]subqueue
	names           map[types.UID]string // of the pods that own endpoints
	local           []*podState
	waiting         []*podState
	nodes           []*state.Node // of the cluster
	clusters        []*clusterState
	clusterWarnings []state.Warning
	nodeAddrs       []netip.Addr
	addresses       []state.Warning // of contested addresses
	leftOut         map[ipsets.Name][]policy.Key
	flapping        []drift.Subject
	reports         []state.Report
	refusals        setWarnings
	again           map[ipsets.Name]state.Again
	due             state.Due
	over            []state.Warning
	unread          map[string]error
	unwritten       bool
	listing         error
	spellings       []state.Spelling
	cut             bool
	lookAge         time.Duration
	progress        state.Progress
}

// Snapshot takes the state as it is now. It never waits for HNS. A transaction waits for
// it, milliseconds among 100,000 pods (ADR 26). Order and text come with Dump.
func (d *Dataplane) Snapshot() *Snapshot {
	s := &Snapshot{progress: d.Progress()}
	d.with(s.take)
	return s
}

// Dump returns a snapshot of the whole state, as Snapshot and its Dump do.
func (d *Dataplane) Dump() state.Dump { return d.Snapshot().Dump() }

// take copies the state.
func (s *Snapshot) take(d *core) {
	s.node, s.now = d.cfg.Node, d.clock
	s.subqueues, s.nodeAddrs, s.reports = maps.Clone(d.subqueues), d.nodeAddrs, slices.Clone(d.reports)
	s.waiting, s.leftOut, s.due, s.unread = d.waiting(), d.leftOutOf(), d.dumpDue(), d.unreadErrs()
	s.unwritten, s.listing = d.sets.Tries > 0, d.listing.err
	s.flapping, s.refusals, s.again = d.drift.Flapping(s.now), d.setWarnings(), d.dumpAgain()
	s.over, s.addresses = d.overBudget(), d.addressWarnings()
	s.nodes = slices.Collect(maps.Values(d.members.cluster.nodes))
	s.clusters, s.clusterWarnings = slices.Collect(maps.Values(d.clusters)), d.clusterWarnings()
	s.spellings, s.cut, s.lookAge = d.spellings.All(), d.spellings.OthersCut(), d.lookAge(s.now)
	s.endpoints, s.names = make(map[string]*endpoint, len(d.endpoints)), map[types.UID]string{}
	for id, ep := range d.endpoints {
		is := *ep // its lists are replaced, not changed
		is.refused, is.compromises, is.holds = maps.Clone(ep.refused), maps.Clone(ep.compromises), nil
		s.endpoints[id] = &is
		s.names[ep.owner] = d.podOf(ep.owner)
	}
	for _, p := range d.local {
		is, placed := *p, *p.placement
		placed.selected, placed.clusters = slices.Clone(p.selected), slices.Clone(p.clusters) // they are changed in place
		is.placement = &placed
		s.local = append(s.local, &is)
	}
	s.pods, s.namespaces, s.policies = maps.Clone(d.members.pods), maps.Clone(d.members.namespaces), maps.Clone(d.policies)
	s.sets = d.cache.Copy()
}

// Warnings returns the active warnings, sorted. It never waits for HNS.
func (d *Dataplane) Warnings() (active []state.Warning) {
	d.with(func(c *core) { active = c.activeWarnings().warnings() })
	return active
}

// Selecting returns the policies that select a local pod, sorted. It never waits
// for HNS.
func (d *Dataplane) Selecting(pod PodKey) (keys []policy.Key) {
	d.with(func(c *core) {
		p := c.members.pods[pod]
		if p == nil || p.placement == nil {
			return
		}
		for _, ps := range p.selected {
			keys = append(keys, ps.Key)
		}
	})
	return keys
}

// dumpDue says what waits for its time.
func (d *core) dumpDue() state.Due {
	due := state.Due{
		Sets:    state.Retry{Attempts: d.sets.Tries, At: d.sets.At},
		Listing: state.Retry{Attempts: d.listing.retry.Tries, At: d.listing.retry.At},
		Spare:   state.Retry{Attempts: d.setWork.read.Tries, At: d.setWork.read.At},
		Unread:  d.fresh, Unsettled: d.listing.unsettled, Turn: d.turn, Read: d.readFrom,
	}
	for name, l := range d.subqueues {
		due.Queues = append(due.Queues, state.Queue{Name: name, Next: l.next, Order: l.order, Turn: l.turn})
	}
	slices.SortFunc(due.Queues, func(a, b state.Queue) int { return cmp.Compare(a.Name, b.Name) })
	if d.listing.wanted {
		due.Listing.At = d.clock
	}
	for _, id := range slices.Sorted(maps.Keys(d.unread)) {
		n := d.unread[id]
		nd := state.Unread{ID: id, Came: n.came, Retry: state.Retry{Attempts: n.Tries, At: n.At}}
		if n.err != nil {
			nd.Error = n.err.Error()
		}
		due.New = append(due.New, nd)
	}
	if d.listing.err != nil {
		due.Listing.Error = d.listing.err.Error()
	}
	return due
}
