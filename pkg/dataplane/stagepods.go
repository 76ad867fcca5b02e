package dataplane

import (
	"net/netip"

	"github.com/winnpm/winnpm/pkg/policy"
)

// podMove is what a pod was and is; nil where it was not or is no more.
type podMove struct{ was, is *podState }

// stagePodsLocked moves pods: first all claims to addresses, then who owns
// them, then the sets, all leaving before all entering. So an address that
// several pods hand on ends with the right one, whatever their order. d.mu must
// be held.
func (d *Dataplane) stagePodsLocked(pods map[PodKey]*Pod, c changes) {
	moves := map[PodKey]*podMove{}
	addrs := map[netip.Addr]*podState{} // with the owner so far
	for key, pod := range pods {
		d.progress.note("staging", kindPod, key.Namespace, key.Name)
		was := d.members.pods[key]
		if was == nil && pod == nil || was != nil && pod != nil && was.Same(pod) {
			continue
		}
		c.add(changedPod, was != nil, pod != nil)
		moves[key] = d.movePodLocked(key, was, pod, addrs)
	}
	for addr, before := range addrs {
		after := d.owners.Owner(addr)
		if before = d.nowLocked(before); before != nil && before != after && before.claims() && before.Addr == addr {
			d.ownLocked(before, false, moves)
		}
		if after != nil {
			d.ownLocked(after, true, moves)
		}
	}
	for key, m := range moves {
		d.progress.note("moving", kindPod, key.Namespace, key.Name)
		d.members.leave(m.was)
		d.families.leavePod(m.was, m.is)
	}
	for key, m := range moves {
		d.progress.note("moving", kindPod, key.Namespace, key.Name)
		d.members.enter(m.is)
		d.families.enterPod(m.was, m.is)
	}
	for key, m := range moves {
		d.progress.note("placing", kindPod, key.Namespace, key.Name)
		d.placeLocked(m)
	}
}

// movePodLocked replaces one pod and its claim; nobody is a member yet. addrs
// gets the addresses in question with their owners before. d.mu must be held.
func (d *Dataplane) movePodLocked(key PodKey, was *podState, pod *Pod, addrs map[netip.Addr]*podState) *podMove {
	contest := func(addr netip.Addr) {
		if _, ok := addrs[addr]; !ok {
			addrs[addr] = d.owners.Owner(addr)
		}
	}
	m := &podMove{was: was}
	if was != nil && was.claims() {
		contest(was.Addr)
	}
	if pod != nil {
		m.is = &podState{Pod: pod}
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
	if m.is == nil {
		d.members.drop(key)
		return m
	}
	d.members.put(m.is)
	if m.is.claims() {
		d.owners.Set(m.is.Addr, m.is)
	}
	return m
}

// nowLocked returns the state that a pod has now; nil when it is no more. d.mu
// must be held.
func (d *Dataplane) nowLocked(p *podState) *podState {
	if p == nil {
		return nil
	}
	if is := d.members.pods[p.Key()]; is != nil && is.UID == p.UID {
		return is
	}
	return nil
}

// ownLocked makes a pod a member or not. A pod that the transaction does not
// name moves along when an address changes hands. d.mu must be held.
func (d *Dataplane) ownLocked(p *podState, member bool, moves map[PodKey]*podMove) {
	if m := moves[p.Key()]; m != nil {
		m.is.member = member
		return
	}
	if p.member == member {
		return
	}
	is := *p
	is.member = member
	d.members.put(&is)
	d.owners.Set(is.Addr, &is)
	moves[p.Key()] = &podMove{was: p, is: &is}
}

// placeLocked keeps the local pods: which policies select them and which
// endpoints they own. d.mu must be held.
func (d *Dataplane) placeLocked(m *podMove) {
	was, is := m.was, m.is
	if was != nil && was.Local && was.member {
		delete(d.local, was.UID)
		if is == nil || is.UID != was.UID || !is.Local || !is.member {
			d.deselectLocked(was.placement)
		}
		for _, ep := range d.byAddr[was.Addr] {
			d.markLocked(ep, policy.Key{})
			if is == nil || !is.member || is.UID != was.UID {
				d.check[ep.id] = true // its pod is gone: is the endpoint?
			}
		}
	}
	if is == nil || !is.Local || !is.claims() {
		return
	}
	if is.placement == nil {
		is.placement = &placement{}
	}
	if was == nil || was.UID != is.UID || was.Addr != is.Addr || was.member != is.member || !was.Local || !was.claims() {
		// It may have an endpoint of its own, even where it loses the address.
		d.listing.wanted, d.listing.retry = true, retry{}
		is.relists, is.placed = 0, d.now
		for _, ep := range d.byAddr[is.Addr] {
			d.check[ep.id] = true // what is there may have been made anew under its GUID
		}
	}
	if !is.member {
		return
	}
	d.local[is.UID] = is
	d.selectLocked(is)
	d.renderAddrLocked(is.Addr, policy.Key{})
}
