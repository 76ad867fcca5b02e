package dataplane

import (
	"maps"
	"net/netip"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/winnpm/winnpm/pkg/ipsets"
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
	addrs := map[netip.Addr]types.UID{} // with the owner so far
	for key, pod := range pods {
		was := d.members.pods[key]
		if was == nil && pod == nil || was != nil && pod != nil && samePod(was.Pod, *pod) {
			continue
		}
		c.add(changedPod, was != nil, pod != nil)
		moves[key] = d.movePodLocked(key, was, pod, addrs)
	}
	for addr, before := range addrs {
		after := types.UID(d.owners.Owner(addr))
		for _, uid := range []types.UID{before, after} {
			if p := d.members.byUID[uid]; p != nil && p.claims() && p.Addr == addr {
				d.ownLocked(p, uid == after, moves)
			}
		}
	}
	for _, m := range moves {
		d.members.leave(m.was)
		d.families.leavePod(m.was, m.is)
	}
	for _, m := range moves {
		d.members.enter(m.is)
		d.families.enterPod(m.was, m.is)
	}
	for _, m := range moves {
		d.placeLocked(m)
	}
}

// movePodLocked replaces one pod and its claim; nobody is a member yet. addrs
// gets the addresses in question with their owners before. d.mu must be held.
func (d *Dataplane) movePodLocked(key PodKey, was *podState, pod *Pod, addrs map[netip.Addr]types.UID) *podMove {
	contest := func(addr netip.Addr) {
		if _, ok := addrs[addr]; !ok {
			addrs[addr] = types.UID(d.owners.Owner(addr))
		}
	}
	m := &podMove{was: was}
	if was != nil && was.claims() {
		contest(was.Addr)
	}
	if pod != nil {
		m.is = &podState{Pod: *pod}
		m.is.Labels = maps.Clone(pod.Labels)
		m.is.Ports = slices.Clone(pod.Ports)
		if was != nil && was.UID == pod.UID {
			m.is.selected, m.is.relists, m.is.placed = was.selected, was.relists, was.placed
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
		d.owners.Set(m.is.Addr, ipsets.Claim{
			UID: string(m.is.UID), Deleting: m.is.Deleting, Started: m.is.Started, Created: m.is.Created,
		})
	}
	return m
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
	moves[p.Key()] = &podMove{was: p, is: &is}
}

// placeLocked keeps the local pods: which policies select them and which
// endpoints they own. d.mu must be held.
func (d *Dataplane) placeLocked(m *podMove) {
	was, is := m.was, m.is
	if was != nil && was.Local && was.member {
		delete(d.local, was.UID)
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
	if was == nil || was.UID != is.UID || was.Addr != is.Addr || was.member != is.member || !was.Local || !was.claims() {
		// It may have an endpoint of its own, even where it loses the address.
		d.listing.wanted, d.listing.retry = true, retry{}
		is.relists, is.placed = 0, d.now
	}
	if !is.member {
		return
	}
	d.local[is.UID] = is
	d.selectLocked(is, policy.Key{}, nil)
	d.renderAddrLocked(is.Addr, policy.Key{})
}

// samePod reports whether two states of a pod mean the same here.
func samePod(a, b Pod) bool {
	return a.UID == b.UID && a.Addr == b.Addr && a.Local == b.Local && a.HostNetwork == b.HostNetwork &&
		a.Finished == b.Finished && a.Deleting == b.Deleting &&
		a.Started.Equal(b.Started) && a.Created.Equal(b.Created) &&
		maps.Equal(a.Labels, b.Labels) && slices.Equal(a.Ports, b.Ports)
}
