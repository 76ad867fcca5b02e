package desired

import (
	"net/netip"
	"slices"
	"time"

	"github.com/winnpm/winnpm/pkg/policy"
)

// Stage folds objects in, at the time at which a transaction began. Namespaces and
// policies go first, so that a cold start fills each set once.
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
	for name, n := range in.nodes {
		_, known := d.members.nodes[name]
		c.add(changedNode, known, n != nil)
	}
	d.members.setNodes(in.nodes)
	for name, ns := range in.namespaces {
		d.stageNamespace(name, ns, c)
	}
	for key, np := range in.policies {
		d.notePolicy("staging", key)
		c.add(changedPolicy, d.policies[key] != nil, np != nil)
		d.stagePolicy(key, newPolicyState(np))
	}
	for name, cnp := range in.clusters {
		key := policy.ClusterKey(name)
		d.notePolicy("staging", key)
		c.add(changedClusterPolicy, d.policies[key] != nil, cnp != nil)
		d.stagePolicy(key, newClusterState(cnp))
	}
	d.stagePods(in.pods, in.finished, addrs, c)
	d.activate()
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

// Settle finds the numbers of named ports whose pods or namespaces are others now.
func (d *State) Settle() { d.namedPorts.settle() }
