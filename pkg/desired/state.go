package desired

import (
	"iter"
	"maps"
	"net/netip"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/pkg/ipsets"
	"github.com/winnpm/winnpm/pkg/policy"
)

// Settings are what the desired rules depend on besides objects.
type Settings struct {
	Budgets policy.Budgets
	// BaseACLs are rules that every local endpoint with a pod has, isolated or not.
	BaseACLs []hns.ACL
}

// State is what should be on the node: which pods, namespaces, policies and nodes there
// are, which set has which member, and which rules an endpoint with some address has. Of
// HNS it learns only which sets its rules name (DefineOrphans). Whoever changes it takes what follows for endpoints with
// TakeEffects. It is not safe for concurrent use.
type State struct {
	cfg Settings
	// note is called for each object that is worked on, as the transaction that runs may take long.
	note func(work, kind, namespace, name string)
	now  time.Time // when the last transaction began

	cache      *ipsets.Cache // what is desired in the sets; its actual part is the caller's
	owners     *ipsets.Owners[*PodState]
	members    *members
	namedPorts *namedPorts
	policies   map[policy.Key]*policyState
	byNS       map[string]map[policy.Key]*policyState // policies by namespace, ClusterNetworkPolicies under ""
	problems   map[policy.Key]bool                    // policies with something left out
	switched   map[*policyState]struct{}              // may become active or idle, within one staging
	local      map[types.UID]*PodState                // local pods to which endpoints with their address belong
	contested  map[netip.Addr]bool                    // addresses that several live pods claim
	lost       map[netip.Addr]PodKey                  // lost pods (lost.go)
	misplaced  map[PodKey]bool                        // local pods that report an address that no pod can have
	nodeAddrs  []netip.Addr
	effects    Effects
}

// New returns a State of an empty cluster. It defines sets in the cache, and holds
// them for policies. It calls note for each object that it works on.
func New(cfg Settings, cache *ipsets.Cache, note func(work, kind, namespace, name string)) *State {
	d := &State{
		cfg:       cfg,
		note:      note,
		cache:     cache,
		owners:    ipsets.NewOwners[*PodState](),
		members:   newMembers(cache),
		policies:  map[policy.Key]*policyState{},
		byNS:      map[string]map[policy.Key]*policyState{},
		problems:  map[policy.Key]bool{},
		switched:  map[*policyState]struct{}{},
		local:     map[types.UID]*PodState{},
		contested: map[netip.Addr]bool{},
		lost:      map[netip.Addr]PodKey{},
		misplaced: map[PodKey]bool{},
	}
	d.namedPorts = d.members.ports
	d.namedPorts.changed, d.namedPorts.fewer = d.renderSelected, d.renderTiered
	return d
}

// Effects are what a change of what should be asks of endpoints.
type Effects struct {
	// All: the desired rules of every endpoint may be others.
	All bool
	// Changed are the addresses whose endpoints may have other desired rules now, each with
	// the policies that changed, if it was these.
	Changed map[netip.Addr][]policy.Key
	// Check are the addresses whose endpoints are to be read again: the pod that they are of
	// is gone, or another one came.
	Check map[netip.Addr]bool
	// Came are the local pods whose endpoint is to be looked for.
	Came []*PodState
}

// TakeEffects returns what came up since it was asked last.
func (d *State) TakeEffects() Effects {
	out := d.effects
	d.effects = Effects{}
	return out
}

// renderAddr notes that the endpoints of an address may have other rules.
func (d *State) renderAddr(addr netip.Addr, by policy.Key) {
	if d.effects.Changed == nil {
		d.effects.Changed = map[netip.Addr][]policy.Key{}
	}
	causes := d.effects.Changed[addr]
	if by != (policy.Key{}) {
		causes = append(causes, by)
	}
	d.effects.Changed[addr] = causes
}

// check notes that the endpoints of an address are to be read again.
func (d *State) check(addr netip.Addr) {
	if d.effects.Check == nil {
		d.effects.Check = map[netip.Addr]bool{}
	}
	d.effects.Check[addr] = true
}

// Pod returns the pod of a name, nil for none.
func (d *State) Pod(key PodKey) *PodState { return d.members.pod(key) }

// Local returns the local pod with a UID to which endpoints with its address belong, nil
// for none.
func (d *State) Local(uid types.UID) *PodState { return d.local[uid] }

// Locals yields all of these pods, in no order.
func (d *State) Locals() iter.Seq[*PodState] { return maps.Values(d.local) }

// HasLocals reports whether Locals has a pod that is not lost.
func (d *State) HasLocals() bool {
	for _, p := range d.local {
		if !p.IsLost() {
			return true
		}
	}
	return false
}

// Selecting returns the sorted policies that select a pod: a local pod, or a pod of another node
// whose address is contested.
func (d *State) Selecting(key PodKey) (keys []policy.Key) {
	p := d.members.pod(key)
	switch {
	case p == nil:
	case p.Placement != nil:
		for _, s := range p.of(policy.Namespaced) {
			keys = append(keys, s.Key)
		}
	case elsewhere(d.whose(p.Addr)) && p.OverBudget == "":
		for _, ps := range d.byNS[p.Namespace] {
			if ps.Subject.Matches(p.Labels) {
				keys = append(keys, ps.Key)
			}
		}
		slices.SortFunc(keys, policy.Key.Compare)
	}
	return keys
}
