package desired

import (
	"net/netip"

	"github.com/winnpm/winnpm/pkg/ipsets"
	"github.com/winnpm/winnpm/pkg/policy"
)

// stagePods applies changes of pods in four steps: all claims to addresses, the owners of these
// addresses, all removals from sets, all additions to sets. So an address that moves between
// several pods ends up with the right pod, in whatever order the pods come. finished has the pods
// that had finished before they were deleted. addrs has further addresses whose owner may change,
// with their owners so far.
func (d *State) stagePods(pods map[PodKey]*Pod, finished map[PodKey]bool, addrs map[netip.Addr]ownership, c Changes) {
	moves := map[PodKey]*podMove{}
	for key, pod := range pods {
		d.note("staging", "Pod", key.Namespace, key.Name)
		was := d.members.pod(key)
		if was == nil && pod == nil || was != nil && pod != nil && was.Same(pod) {
			continue
		}
		c.add(changedPod, was != nil, pod != nil)
		moves[key] = d.movePod(key, was, pod, addrs)
	}
	d.stageLost(finished, addrs, moves)
	for addr, before := range addrs {
		d.settle(addr, before, moves)
	}
	for _, m := range moves {
		d.members.leave(m.was)
	}
	for _, m := range moves {
		d.members.enter(m.is)
	}
	for _, m := range moves {
		d.place(m)
	}
}

// movePod replaces one pod and its claim; nobody is a member yet. addrs
// gets the addresses in question with their owners before.
func (d *State) movePod(key PodKey, was *PodState, pod *Pod, addrs map[netip.Addr]ownership) *podMove {
	contest := func(addr netip.Addr) {
		if _, ok := addrs[addr]; !ok {
			addrs[addr] = d.whose(addr)
		}
	}
	m := &podMove{was: was}
	if was != nil && was.Claims() {
		contest(was.Addr)
	}
	if pod != nil {
		m.is = &PodState{Pod: pod, early: d.inFuture(pod.Started)}
		if was != nil && was.UID == pod.UID {
			m.is.Placement = was.Placement
		}
		if m.is.Claims() {
			contest(m.is.Addr)
		}
	}
	if was != nil && was.Claims() {
		d.owners.Drop(was.Addr, was.Claim().UID)
	}
	delete(d.misplaced, key)
	if was != nil && was.IsLost() {
		delete(d.lost, was.Addr)
	}
	if pod != nil && pod.IsLost() { // restored from a dump
		d.keepLost(m.is)
	}
	if m.is == nil {
		d.members.drop(key)
		return m
	}
	d.members.put(m.is)
	if pod.Local && pod.Addr.Is4() && !pod.HostNetwork && !pod.Finished && !ipsets.Assignable(pod.Addr) {
		d.misplaced[key] = true
	}
	if m.is.Claims() {
		d.owners.Set(m.is.Addr, m.is)
	}
	return m
}

// place keeps the local pods: which policies select them and which
// endpoints they own.
func (d *State) place(m *podMove) {
	was, is := m.was, m.is
	if was != nil && was.Home {
		if p := d.local[was.UID]; p != nil && p.Key() == was.Key() { // the key differs if a lost pod and its live pod share the UID
			delete(d.local, was.UID)
		}
		if is == nil || is.UID != was.UID || !is.Local || !is.member {
			d.deselect(was.Placement)
		}
		d.renderAddr(was.Addr, policy.Key{})
		if is == nil || !is.Home || is.UID != was.UID || is.Addr != was.Addr || is.IsLost() {
			d.check(was.Addr) // its pod is gone: is the endpoint? It may have the other address, too
		}
	}
	if is == nil || !is.Local || !is.Claims() {
		return
	}
	if is.Placement == nil {
		is.Placement = &Placement{}
	}
	if comes(was, is) {
		d.effects.Came = append(d.effects.Came, is)
		d.check(is.Addr) // what is there may have been made anew under its GUID
	}
	if !is.Home {
		return
	}
	d.local[is.UID] = is
	d.findSelecting(is)
	d.renderAddr(is.Addr, policy.Key{})
}

// comes reports whether a local pod is new on its address, or in a new sandbox.
func comes(was, is *PodState) bool {
	return was == nil || was.UID != is.UID || was.Addr != is.Addr || was.Home != is.Home || !was.Local || !was.Claims() ||
		is.Sandbox.ID != "" && was.Sandbox.ID != is.Sandbox.ID
}
