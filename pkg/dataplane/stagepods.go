package dataplane

import (
	"net/netip"
	"time"

	"github.com/winnpm/winnpm/pkg/backoff"
	"github.com/winnpm/winnpm/pkg/ipsets"
	"github.com/winnpm/winnpm/pkg/policy"
)

// podMove is what a pod was and is; nil where it was not or is no more.
type podMove struct{ was, is *podState }

// stagePods moves pods: first all claims to addresses, then whose they
// are, then the sets, all leaving before all entering. So an address that
// several pods hand on ends with the right one, whatever their order. addrs has
// the addresses that are in question anyway, and whose they were.
func (d *core) stagePods(pods map[PodKey]*Pod, addrs map[netip.Addr]ownership, c changes) {
	moves := map[PodKey]*podMove{}
	for key, pod := range pods {
		d.progress.note("staging", kindPod, key.Namespace, key.Name)
		was := d.members.pods[key]
		if was == nil && pod == nil || was != nil && pod != nil && was.Same(pod) {
			continue
		}
		c.add(changedPod, was != nil, pod != nil)
		moves[key] = d.movePod(key, was, pod, addrs)
	}
	for addr, before := range addrs {
		d.settle(addr, before, moves)
	}
	for key, m := range moves {
		d.progress.note("moving", kindPod, key.Namespace, key.Name)
		d.members.leave(m.was)
		d.namedPorts.leavePod(m.was, m.is)
	}
	for key, m := range moves {
		d.progress.note("moving", kindPod, key.Namespace, key.Name)
		d.members.enter(m.is)
		d.namedPorts.enterPod(m.was, m.is)
	}
	for key, m := range moves {
		d.progress.note("placing", kindPod, key.Namespace, key.Name)
		d.place(m)
	}
}

// movePod replaces one pod and its claim; nobody is a member yet. addrs
// gets the addresses in question with their owners before.
func (d *core) movePod(key PodKey, was *podState, pod *Pod, addrs map[netip.Addr]ownership) *podMove {
	contest := func(addr netip.Addr) {
		if _, ok := addrs[addr]; !ok {
			addrs[addr] = d.whose(addr)
		}
	}
	m := &podMove{was: was}
	if was != nil && was.claims() {
		contest(was.Addr)
	}
	if pod != nil {
		m.is = &podState{Pod: pod, early: d.inFuture(pod.Started)}
		if was != nil && was.UID == pod.UID {
			m.is.placement = was.placement
		}
		if m.is.claims() {
			contest(m.is.Addr)
		}
	}
	if was != nil && was.claims() {
		d.owners.Drop(was.Addr, string(was.UID))
	}
	delete(d.misplaced, key)
	if m.is == nil {
		d.members.drop(key)
		return m
	}
	d.members.put(m.is)
	if pod.Local && pod.Addr.Is4() && !pod.HostNetwork && !pod.Finished && !ipsets.Assignable(pod.Addr) {
		d.misplaced[key] = true
	}
	if m.is.claims() {
		d.owners.Set(m.is.Addr, m.is)
	}
	return m
}

// now returns the state that a pod has now; nil when it is no more.
func (d *core) current(p *podState) *podState {
	if p == nil {
		return nil
	}
	if is := d.members.pods[p.Key()]; is != nil && is.UID == p.UID {
		return is
	}
	return nil
}

// entitle gives a pod what it has of its address. A pod that the transaction
// does not name moves along when an address changes hands.
func (d *core) entitle(p *podState, owner, member, home bool, moves map[PodKey]*podMove) {
	if m := moves[p.Key()]; m != nil {
		m.is.owner, m.is.member, m.is.home = owner, member, home
		return
	}
	if p.owner == owner && p.member == member && p.home == home {
		return
	}
	is := *p
	is.owner, is.member, is.home = owner, member, home
	d.members.put(&is)
	d.owners.Set(is.Addr, &is)
	moves[p.Key()] = &podMove{was: p, is: &is}
}

// place keeps the local pods: which policies select them and which
// endpoints they own.
func (d *core) place(m *podMove) {
	was, is := m.was, m.is
	if was != nil && was.home {
		delete(d.local, was.UID)
		if is == nil || is.UID != was.UID || !is.Local || !is.member {
			d.deselect(was.placement)
		}
		for _, ep := range d.byAddr[was.Addr] {
			d.mark(ep, policy.Key{})
			if is == nil || !is.home || is.UID != was.UID {
				ep.state.check = true // its pod is gone: is the endpoint?
			}
		}
	}
	if is == nil || !is.Local || !is.claims() {
		return
	}
	if is.placement == nil {
		is.placement = &placement{}
	}
	if comes(was, is) {
		d.seek(is)
	}
	if !is.home {
		return
	}
	d.local[is.UID] = is
	d.findSelecting(is)
	d.findClusters(is)
	d.renderAddr(is.Addr, policy.Key{})
}

// comes reports whether a local pod is new on its address, or in a new sandbox.
func comes(was, is *podState) bool {
	return was == nil || was.UID != is.UID || was.Addr != is.Addr || was.home != is.home || !was.Local || !was.claims() ||
		is.Sandbox.ID != "" && was.Sandbox.ID != is.Sandbox.ID
}

// seek has the endpoint of a pod looked for that comes. It may have one of its own even where
// it loses the address.
func (d *core) seek(p *podState) {
	d.listing.wanted, d.listing.retry = true, backoff.Retry{}
	if d.fresh && p.Sandbox.ID != "" {
		d.sets = backoff.Retry{} // its CNI may have made the network just now
	}
	p.listed, p.search = time.Time{}, backoff.Retry{}
	p.placed, p.start = d.now, d.starts(p)
	for _, ep := range d.byAddr[p.Addr] {
		ep.state.check = true // what is there may have been made anew under its GUID
	}
}
