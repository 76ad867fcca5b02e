package dataplane

import (
	"net/netip"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/winnpm/winnpm/pkg/backoff"
	"github.com/winnpm/winnpm/pkg/drift"
	"github.com/winnpm/winnpm/pkg/ipsets"
	"github.com/winnpm/winnpm/pkg/policy"
	"github.com/winnpm/winnpm/pkg/state"
)

// core is what should be on the node, what is known to be there, and the transaction
// that makes the one out of the other. It calls nobody and reads no clock: Next says
// what to ask of HNS, Done takes the answer. It is not safe for concurrent use;
// Dataplane guards it.
type core struct {
	cfg      Config       // set once, without a client and a clock
	progress *progress    // of the transaction that runs; read without a lock
	run      *run         // nil: no transaction runs
	report   state.Report // of the last one that ended
	clock    time.Time    // when the core was borrowed last; it does not go on meanwhile

	cache      *ipsets.Cache
	owners     *ipsets.Owners[*podState]
	members    *members
	namedPorts *namedPortSets
	policies   map[policy.Key]*policyState
	byNS       map[string]map[policy.Key]*policyState // policies by namespace
	switched   map[*policyState]struct{}              // to become active or idle, within one staging
	crowds     crowds
	clusters   map[string]*clusterState
	// switchedClusters may become active or idle, within one staging.
	switchedClusters map[*clusterState]struct{}
	local            map[types.UID]*podState // local pods to which endpoints with their address belong
	contested        map[netip.Addr]bool     // addresses of those that others claim as well
	misplaced        map[PodKey]bool         // local pods that report an address that no pod can have
	nodeAddrs        []netip.Addr
	endpoints        map[string]*endpoint
	byAddr           map[netip.Addr][]*endpoint
	problems         map[policy.Key]bool        // policies with something left out
	dirty            map[*endpoint][]policy.Key // to be rendered again, because of policies or, without one, something else
	readFrom         string                     // endpoint at which the last transaction left off reading, "" for none
	moved            map[string]uint64          // set id, or GUID of one that is gone → write sequence of its last move; a look at the sets clears it
	folded           uint64                     // write sequence of the last observation
	leftOut          map[ipsets.Name]bool       // sets that HNS refused
	lacking          nameSet                    // nested deny twins that lack one of these
	sequence         uint64                     // of writes
	turn             uint64                     // of the queue of pending updates: the last that was served
	subqueues        map[string]subqueue        // of that queue, by namespace or queueOfRepairs, queueOfRetries
	generation       uint64                     // of transactions
	listing          listing
	unread           map[string]*unreadEndpoint // enumerated and not read yet
	strangers        map[string]backoff.Again   // enumerated, and elsewhere, by GUID in lower case; when they are read again
	looks            looks
	spellings        drift.Spellings
	sets             backoff.Retry
	setWork          setWork
	refusals         map[uint32]uint64 // by HRESULT; at most maxCodes and OtherCodes
	fresh            bool              // our sets were not read yet
	reports          []state.Report
	now              time.Time            // when the last transaction began
	found            []state.EndpointSeen // endpoints seen for the first time, to be reported
	ruled            []state.PodStart     // pods that came to have their rules, to be reported
	drift            drift.Log
	conflicts        state.Conflicts
}

// newCore returns a core that knows nothing yet.
func newCore(cfg Config, now time.Time, notes *progress) *core {
	cache := ipsets.NewCache()
	d := &core{
		cfg:              cfg,
		progress:         notes,
		clock:            now,
		cache:            cache,
		owners:           ipsets.NewOwners[*podState](),
		members:          newMembers(cache),
		policies:         map[policy.Key]*policyState{},
		byNS:             map[string]map[policy.Key]*policyState{},
		switched:         map[*policyState]struct{}{},
		clusters:         map[string]*clusterState{},
		switchedClusters: map[*clusterState]struct{}{},
		crowds:           crowds{closed: map[*policyState]bool{}, sets: map[string]int{}},
		local:            map[types.UID]*podState{},
		contested:        map[netip.Addr]bool{},
		misplaced:        map[PodKey]bool{},
		endpoints:        map[string]*endpoint{},
		byAddr:           map[netip.Addr][]*endpoint{},
		problems:         map[policy.Key]bool{},
		dirty:            map[*endpoint][]policy.Key{},
		subqueues:        map[string]subqueue{},
		unread:           map[string]*unreadEndpoint{},
		strangers:        map[string]backoff.Again{},
		moved:            map[string]uint64{},
		leftOut:          map[ipsets.Name]bool{},
		drift:            drift.NewLog(),
		setWork:          newSetWork(),
		refusals:         map[uint32]uint64{},
	}
	d.listing.wanted, d.fresh = true, true // the first transaction reads what is there
	d.namedPorts = &namedPortSets{
		cache: cache, byKey: map[portKey]*portSets{}, byPort: map[PodPort][]*portSets{},
		stale: map[*view]bool{}, over: map[*policyState]state.Warning{},
		changed: d.renderSelected, fewer: d.renderTiered, pods: d.members.podGroup.serving, labels: d.members.labels,
	}
	return d
}
