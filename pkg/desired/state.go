// Package desired has the desired state of a node: the pods, namespaces, nodes and policies of the
// cluster, the members of each set, and the rules of an endpoint with a given address.
//
//	Objects ── Stage ──► State ── TakeEffects ──► the addresses whose endpoints it affects
//	                       │
//	                       ├── Home, ListOf: an endpoint's pods, and its rules (package acl)
//	                       └── the desired members of sets (package ipsets)
//
// It makes no call and reads no clock. Of the state of HNS it uses only the sets that rules there
// name and no policy mentions (DefineOrphans). The effects of a change on endpoints are values,
// which package dataplane takes and applies.
package desired

import (
	"cmp"
	"iter"
	"maps"
	"net/netip"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/winnpm/winnpm/pkg/acl"
	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/pkg/ipsets"
	"github.com/winnpm/winnpm/pkg/policy"
	"github.com/winnpm/winnpm/pkg/state"
)

// Settings are what the desired rules depend on besides objects.
type Settings struct {
	Budgets policy.Budgets
	// BaseACLs are rules that every local endpoint with a pod has, isolated or not.
	BaseACLs []hns.ACL
}

// State is the desired state of the node: the pods, namespaces, policies and nodes, the members of
// each set, and the rules of an endpoint with a given address. After a change, callers take the
// effects on endpoints with TakeEffects. DefineOrphans alone uses the state of HNS. It is not safe
// for concurrent use.
type State struct {
	cfg Settings
	// note is called with each object that State works on, because a transaction may take long.
	note func(work, kind, namespace, name string)
	now  time.Time // when the last transaction began

	cache      *ipsets.Cache // State sets the desired members, other packages record the actual ones
	owners     owners
	members    *members
	namedPorts *namedPorts
	policies   map[policy.Key]*policyState
	byNS       map[string]map[policy.Key]*policyState // policies by namespace, ClusterNetworkPolicies under ""
	problems   map[policy.Key]bool                    // policies with warnings
	switched   map[*policyState]struct{}              // policies that may become active or idle; empty between stagings
	local      map[types.UID]*PodState                // local pods to which endpoints with their address belong
	contested  map[netip.Addr]bool                    // addresses that several live pods claim, and addresses of this node that a pod claims
	lost       map[netip.Addr]PodKey                  // lost pods (ownership.go)
	misplaced  map[PodKey]bool                        // local pods that report an address that no pod can have
	nodeAddrs  []netip.Addr
	nodeRule   []hns.ACL // the rule that lets the node in; none without an address
	effects    Effects
}

// New returns a State of an empty cluster. It defines sets in the cache, and holds
// them for policies. It calls note for each object that it works on.
func New(cfg Settings, cache *ipsets.Cache, note func(work, kind, namespace, name string)) *State {
	d := &State{
		cfg:       cfg,
		note:      note,
		cache:     cache,
		owners:    owners{},
		members:   newMembers(cache),
		policies:  map[policy.Key]*policyState{},
		byNS:      map[string]map[policy.Key]*policyState{},
		problems:  map[policy.Key]bool{},
		switched:  map[*policyState]struct{}{},
		local:     map[types.UID]*PodState{},
		contested: map[netip.Addr]bool{},
		lost:      map[netip.Addr]PodKey{},
		misplaced: map[PodKey]bool{},
		effects:   Effects{Changed: map[netip.Addr]bool{}, Check: map[netip.Addr]bool{}},
	}
	d.namedPorts = d.members.ports
	d.namedPorts.render = d.renderUsers
	return d
}

// Effects are the effects of a change of the desired state on endpoints.
type Effects struct {
	// All: the desired rules of every endpoint may have changed.
	All bool
	// Changed are the addresses whose endpoints may have other desired rules now.
	Changed map[netip.Addr]bool
	// Check are the addresses whose endpoints are to be read again, because their pod is
	// gone, or a new one has the address.
	Check map[netip.Addr]bool
	// Came are the new local pods, whose endpoints have to be found.
	Came []*PodState
}

// TakeEffects returns the effects since the last call.
func (d *State) TakeEffects() Effects {
	out := d.effects
	d.effects = Effects{Changed: map[netip.Addr]bool{}, Check: map[netip.Addr]bool{}}
	return out
}

// Pod returns the pod of a name, nil for none.
func (d *State) Pod(key PodKey) *PodState { return d.members.pod(key) }

// Local returns the local pod with a UID to which endpoints with its address belong, nil
// for none.
func (d *State) Local(uid types.UID) *PodState { return d.local[uid] }

// Locals yields all local pods to which endpoints with their address belong, in no order.
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

// Stage applies changed objects; now is the start of the transaction. Namespaces and policies
// come before pods, so that a cold start fills each set once. It returns the counts of the objects
// that changed, sorted by kind and operation.
func (d *State) Stage(in *Objects, now time.Time) []state.ObjectChange {
	d.now = now
	c := changes{}
	addrs := map[netip.Addr]ownership{}
	if in.nodeAddrs != nil && !slices.Equal(*in.nodeAddrs, d.nodeAddrs) {
		c.add(changedNode, len(d.nodeAddrs) > 0, true)
		for _, addr := range slices.Concat(d.nodeAddrs, *in.nodeAddrs) {
			addrs[addr] = d.whose(addr)
		}
		d.nodeAddrs, d.nodeRule = *in.nodeAddrs, acl.Node(*in.nodeAddrs)
		d.effects.All = true
	}
	if len(in.Nodes) > 0 {
		for name, n := range in.Nodes {
			_, known := d.members.nodes[name]
			c.add(changedNode, known, n != nil)
		}
		d.members.setNodes(in.Nodes)
	}
	for name, ns := range in.Namespaces {
		d.stageNamespace(name, ns, c)
	}
	for key, np := range in.Policies {
		d.notePolicy("staging", key)
		c.add(changedPolicy, d.policies[key] != nil, np != nil)
		d.stagePolicy(key, newPolicyState(np, nil))
	}
	for name, cnp := range in.ClusterPolicies {
		key := policy.ClusterKey(name)
		d.notePolicy("staging", key)
		c.add(changedClusterPolicy, d.policies[key] != nil, cnp != nil)
		d.stagePolicy(key, newPolicyState(nil, cnp))
	}
	if len(in.Pods)+len(addrs)+len(d.lost) > 0 {
		d.stagePods(in.Pods, in.finished, addrs, c)
	}
	if len(d.switched)+len(d.namedPorts.stale) > 0 {
		d.activate()
	}
	return c.sorted()
}

// stageNamespace replaces a Namespace object; nil deletes it.
func (d *State) stageNamespace(name string, ns *Namespace, c changes) {
	d.note("staging", "Namespace", "", name)
	was, known := d.members.namespaces[name]
	if ns == nil || !known || !was.Same(ns) {
		c.add(changedNamespace, known, ns != nil)
	}
	d.members.setNamespace(name, ns)
	d.namedPorts.relabeled(name)
	d.relabeledSubjects(name)
}

// The kinds of objects in a Change.
const (
	changedPod           = "pod"
	changedNamespace     = "namespace"
	changedPolicy        = "policy"
	changedNode          = "node" // its addresses
	changedClusterPolicy = "clusterpolicy"
)

// changes counts the objects that changed, by kind and operation; Count is not used in its keys.
type changes map[state.ObjectChange]int

// add counts the change of an object that existed before (was) and exists now (is). It counts nothing
// if neither holds.
func (c changes) add(kind string, was, is bool) {
	switch {
	case !was && is:
		c[state.ObjectChange{Kind: kind, Operation: "create"}]++
	case was && is:
		c[state.ObjectChange{Kind: kind, Operation: "update"}]++
	case was:
		c[state.ObjectChange{Kind: kind, Operation: "delete"}]++
	}
}

// sorted returns the counts, sorted by kind and operation.
func (c changes) sorted() (out []state.ObjectChange) {
	for change, n := range c {
		change.Count = n
		out = append(out, change)
	}
	slices.SortFunc(out, func(a, b state.ObjectChange) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Operation, b.Operation))
	})
	return out
}

// maxRivals bounds the result of Rivals.
const maxRivals = 1024

// Rivals returns the pods of other nodes that contest an address, sorted by address and name, at most
// maxRivals. They do not depend on the Trust of pods.
func (d *State) Rivals() (out [][2]string) {
	for _, addr := range slices.SortedFunc(maps.Keys(d.contested), netip.Addr.Compare) {
		if !elsewhere(d.whose(addr)) {
			continue
		}
		at := len(out)
		for _, p := range d.owners.live(addr) {
			out = append(out, [2]string{p.Namespace, p.Name})
		}
		slices.SortFunc(out[at:], func(a, b [2]string) int { return slices.Compare(a[:], b[:]) })
		if len(out) >= maxRivals {
			return out[:maxRivals]
		}
	}
	return out
}
