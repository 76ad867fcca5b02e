package desired

import (
	"cmp"
	"net/netip"
	"slices"
	"time"

	"github.com/winnpm/winnpm/pkg/policy"
	"github.com/winnpm/winnpm/pkg/state"
)

// Stage applies changed objects; now is the start of the transaction. Namespaces and policies
// come before pods, so that a cold start fills each set once.
func (d *State) Stage(in *Objects, now time.Time) Changes {
	d.now = now
	c := Changes{}
	addrs := map[netip.Addr]ownership{}
	if in.nodeAddrs != nil && !slices.Equal(*in.nodeAddrs, d.nodeAddrs) {
		c.add(changedNode, len(d.nodeAddrs) > 0, true)
		for _, addr := range slices.Concat(d.nodeAddrs, *in.nodeAddrs) {
			addrs[addr] = d.whose(addr)
		}
		d.nodeAddrs = *in.nodeAddrs
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
	d.stagePods(in.Pods, in.finished, addrs, c)
	if len(d.switched)+len(d.namedPorts.stale) > 0 {
		d.activate()
	}
	return c
}

// stageNamespace replaces a Namespace object; nil deletes it.
func (d *State) stageNamespace(name string, ns *Namespace, c Changes) {
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

// Changes counts the objects that changed, by kind and operation; Count is not used in its keys.
type Changes map[state.Change]int

// add counts the change of an object that existed before (was) and exists now (is). It counts nothing
// if neither holds.
func (c Changes) add(kind string, was, is bool) {
	switch {
	case !was && is:
		c[state.Change{Kind: kind, Operation: "create"}]++
	case was && is:
		c[state.Change{Kind: kind, Operation: "update"}]++
	case was:
		c[state.Change{Kind: kind, Operation: "delete"}]++
	}
}

// List returns the counts by kind and operation.
func (c Changes) List() []state.Change {
	var out []state.Change
	for change, n := range c {
		change.Count = n
		out = append(out, change)
	}
	slices.SortFunc(out, func(a, b state.Change) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Operation, b.Operation))
	})
	return out
}
