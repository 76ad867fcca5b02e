package desired

import (
	"slices"

	"sigs.k8s.io/network-policy-api/apis/v1alpha2"

	"github.com/winnpm/winnpm/pkg/policy"
	"github.com/winnpm/winnpm/pkg/progress"
	"github.com/winnpm/winnpm/pkg/state"
)

// newClusterState returns an idle policy.
func newClusterState(cnp *v1alpha2.ClusterNetworkPolicy) *clusterState {
	cs := &clusterState{Cluster: policy.CompileCluster(cnp), spec: &cnp.Spec}
	cs.warnings = wordProblems(cs.Name, progress.ClusterNetworkPolicy, cs.Problems, cs.Found)
	return cs
}

// stageCluster replaces a ClusterNetworkPolicy; nil deletes it. It is idle until
// activateClusters. It costs the local pods.
func (d *State) stageCluster(name string, cnp *v1alpha2.ClusterNetworkPolicy) {
	was := d.clusters[name]
	var is *clusterState
	if delete(d.clusters, name); cnp != nil {
		is = newClusterState(cnp)
		d.clusters[name] = is
	}
	for _, p := range d.local {
		at := slices.IndexFunc(p.clusters, func(s subjection) bool { return s.policy == was })
		if at >= 0 {
			d.countCluster(was, -1)
			p.clusters = slices.Delete(p.clusters, at, at+1)
		}
		s, selects := subjection{}, false
		if is != nil {
			s, selects = d.subject(is, p)
		}
		if selects {
			d.countCluster(is, 1)
			to, _ := slices.BinarySearchFunc(p.clusters, s, func(a, b subjection) int { return compareClusters(a.policy, b.policy) })
			p.clusters = slices.Insert(p.clusters, to, s)
		}
		if at >= 0 || selects {
			d.renderAddr(p.Addr, state.ClusterKey(name))
		}
	}
}

// subject reports whether a policy selects a local pod, or may. One that is over its
// budget is closed anyway, and of no policy.
func (d *State) subject(cs *clusterState, p *PodState) (subjection, bool) {
	if p.OverBudget != "" || !cs.Pods.Matches(p.Labels) {
		return subjection{}, false
	}
	ns, known := d.members.namespaces[p.Namespace]
	known = known && ns.OverBudget == ""
	return subjection{cs, !known}, !known || cs.Namespaces.Matches(ns.Labels)
}

// findClusters finds the ClusterNetworkPolicies that select a local pod. Its endpoints
// are rendered again when these are others. It costs the policies there are: the local
// pods that change in one transaction are few, or all are new.
func (d *State) findClusters(p *PodState) {
	var found []subjection
	for _, cs := range d.clusters {
		if s, selects := d.subject(cs, p); selects {
			found = append(found, s)
		}
	}
	slices.SortFunc(found, func(a, b subjection) int { return compareClusters(a.policy, b.policy) })
	if slices.Equal(found, p.clusters) {
		return
	}
	for _, s := range found {
		d.countCluster(s.policy, 1)
	}
	for _, s := range p.clusters {
		d.countCluster(s.policy, -1)
	}
	p.clusters = found
	d.renderAddr(p.Addr, policy.Key{})
}

// relabeledSubjects finds the ClusterNetworkPolicies of the local pods of a namespace
// that is another one now.
func (d *State) relabeledSubjects(namespace string) {
	for _, p := range d.local {
		if p.Namespace == namespace {
			d.findClusters(p)
		}
	}
}

// countCluster notes that a policy selects so many local pods more.
func (d *State) countCluster(cs *clusterState, more int) {
	cs.selects += more
	d.switchedClusters[cs] = struct{}{}
}

// activateClusters makes the policies active that came to select a local pod: they hold
// their sets, full. It returns those that select none any more, as one that was
// replaced: they go on holding theirs until retireClusters.
func (d *State) activateClusters() (went []*clusterState) {
	var came []*clusterState
	for cs := range d.switchedClusters {
		switch {
		case cs.selects > 0 && !cs.active:
			came = append(came, cs)
		case cs.selects == 0 && cs.active:
			went = append(went, cs)
		}
	}
	clear(d.switchedClusters)
	slices.SortFunc(came, compareClusters)
	made := nameSet{}
	for _, cs := range came {
		d.progress.Note("activating", progress.ClusterNetworkPolicy, "", cs.Name)
		cs.active = true
		d.hold(cs.Sets, cs.ref(), made)
	}
	d.members.fill(made)
	for _, cs := range came {
		if cs.named = namedOf(&cs.Cluster); cs.named != nil {
			d.namedPorts.use(cs.named)
		}
	}
	return went
}

// retireClusters makes policies idle.
func (d *State) retireClusters(went []*clusterState) {
	for _, cs := range went {
		d.progress.Note("retiring", progress.ClusterNetworkPolicy, "", cs.Name)
		cs.active = false
		if cs.named != nil {
			d.namedPorts.leave(cs.named)
			cs.named = nil
		}
		var successor []policy.SetDef
		if is := d.clusters[cs.Name]; is != nil && is.active {
			successor = is.Sets
		}
		d.letGo(cs.Sets, cs.ref(), successor)
	}
}
