package desired

import (
	"net/netip"
	"time"

	"github.com/winnpm/winnpm/pkg/backoff"
	"github.com/winnpm/winnpm/pkg/state"
)

// PodState is a pod with its derived state.
type PodState struct {
	*Pod
	*Placement // of a local pod; another one has none
	// member: the address belongs to the pod beyond doubt, so it is in the pod's sets.
	member bool
	// owner: the pod has the strongest claim to its address.
	owner bool
	// Home: endpoints of this node with the address belong to the pod, or may do so.
	Home bool
	// inSets: the pod is in sets. A pod over its budget is in no set, not even in a set of pods
	// without a label.
	inSets bool
	// doubtful: the pod owns its address, and it is unknown to which sets the address belongs. Pods of
	// other namespaces have equal claims, or the pod is lost or over its budget.
	doubtful bool
	// early: its start was in the future when the pod was staged, so it is ignored.
	early bool
}

// own sets the fields that follow from the claims to the pod's address.
func (p *PodState) own(owner, member, home bool) {
	p.owner, p.member, p.Home = owner, member, home
	p.inSets = member && p.OverBudget == ""
	p.doubtful = owner && !p.inSets
}

// Placement is the state that only local pods have. All states of a pod share it.
type Placement struct {
	// selected are the policies that select the pod, or may, in order of
	// precedence.
	selected []subjection
	// closed: its policies need too many ACLs, so the NetworkPolicies only isolate it.
	closed bool
	// silent: they need too many ACLs even then, so only the Deny rules of ClusterNetworkPolicies
	// are in force.
	silent bool
	// cut is the index in numbersEach of the limit of numbers that holds on this pod.
	cut int
	// Listed is when all endpoints were first listed after the CNI reported the pod's sandbox, which
	// the CNI does after it made the endpoint. It is zero until then.
	Listed time.Time
	// Search counts the pauses in the search for the pod's own endpoint while only endpoints of
	// other pods have its address, and says when the next pause ends.
	Search backoff.Retry
	// Placed is when the pod became local with this address.
	Placed time.Time
	// Start is replaced and never changed. It is nil if the pod ran before the agent, or if no
	// policy isolated it when its endpoint was first right.
	Start *state.Start
}

// clockSkew is how far the clock of a pod's node may be ahead of this node's clock. A later start is
// ignored.
const clockSkew = time.Minute

// stagePods applies changes of pods in four steps: all claims to addresses, the owners of these
// addresses, all removals from sets, all additions to sets. So an address that moves between
// several pods ends up with the right pod, in whatever order the pods come. finished has the pods
// that had finished before they were deleted. addrs has further addresses whose owner may change,
// with their owners so far.
func (d *State) stagePods(pods map[PodKey]*Pod, finished map[PodKey]bool, addrs map[netip.Addr]ownership, c changes) {
	moves := map[PodKey]*podMove{}
	gone := false // a pod is
	for key, pod := range pods {
		d.note("staging", "Pod", key.Namespace, key.Name)
		was := d.members.pod(key)
		if was == nil && pod == nil || was != nil && pod != nil && was.Same(pod) {
			continue
		}
		c.add(changedPod, was != nil, pod != nil)
		moves[key] = d.movePod(key, was, pod, addrs)
		gone = gone || was != nil && (pod == nil || pod.UID != was.UID)
	}
	if gone || len(d.lost) > 0 {
		d.stageLost(finished, addrs, moves)
	}
	for addr, before := range addrs {
		d.settle(addr, before, moves)
	}
	for _, m := range moves {
		d.members.removePod(m.was)
	}
	for _, m := range moves {
		d.members.addPod(m.is)
	}
	for _, m := range moves {
		if m.was != nil && m.was.Local || m.is != nil && m.is.Local {
			d.place(m)
		}
	}
}

// movePod replaces a pod and its claim. Owners and members are settled later. It adds the pod's old
// and new address to addrs, with their owners so far.
func (d *State) movePod(key PodKey, was *PodState, pod *Pod, addrs map[netip.Addr]ownership) *podMove {
	m := &podMove{was: was}
	if pod != nil {
		m.is = &PodState{Pod: pod, early: d.now.Year() > 1 && pod.Started.After(d.now.Add(clockSkew))}
		if was != nil && was.UID == pod.UID {
			m.is.Placement = was.Placement
		}
	}
	claimed, claims := was != nil && was.Claims(), m.is != nil && m.is.Claims()
	if claimed && claims && was.sameClaim(m.is) { // so no owner changes
		m.is.own(was.owner, was.member, was.Home)
		d.members.put(m.is)
		d.owners.replace(was, m.is)
		return m
	}
	if claimed {
		d.contest(was.Addr, addrs)
	}
	if claims {
		d.contest(pod.Addr, addrs)
	}
	if claimed {
		d.owners.drop(was)
	}
	delete(d.misplaced, key)
	if was != nil && was.IsLost() {
		delete(d.lost, was.Addr)
	}
	if pod != nil && pod.IsLost() { // restored from a dump
		d.lost[m.is.Addr] = key
	}
	if m.is == nil {
		d.members.drop(key)
		return m
	}
	d.members.put(m.is)
	if claims {
		d.owners.set(m.is)
	} else if pod.Local && pod.Addr.Is4() && !pod.HostNetwork && !pod.Finished {
		d.misplaced[key] = true
	}
	return m
}

// contest adds an address to addrs, with its owner so far.
func (d *State) contest(addr netip.Addr, addrs map[netip.Addr]ownership) {
	if _, ok := addrs[addr]; !ok {
		addrs[addr] = d.whose(addr)
	}
}

// place updates d.local, the policies that select a local pod, and the effects on
// endpoints.
func (d *State) place(m *podMove) {
	was, is := m.was, m.is
	if was != nil && was.Home {
		if p := d.local[was.UID]; p != nil && p.Key() == was.Key() { // the key differs if a lost pod and its live pod share the UID
			delete(d.local, was.UID)
		}
		if is == nil || is.UID != was.UID || !is.Local || !is.member {
			d.deselect(was.Placement)
		}
		d.effects.Changed[was.Addr] = true
		if is == nil || !is.Home || is.UID != was.UID || is.Addr != was.Addr || is.IsLost() {
			d.effects.Check[was.Addr] = true // its pod is gone: is the endpoint? It may have the other address, too
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
		d.effects.Check[is.Addr] = true // the CNI may have recreated the endpoint there under the same GUID
	}
	if !is.Home {
		return
	}
	d.local[is.UID] = is
	d.findSelecting(is)
	d.effects.Changed[is.Addr] = true
}

// comes reports whether a local pod is new on its address, or in a new sandbox.
func comes(was, is *PodState) bool {
	return was == nil || was.UID != is.UID || was.Addr != is.Addr || was.Home != is.Home || !was.Local || !was.Claims() ||
		is.Sandbox.ID != "" && was.Sandbox.ID != is.Sandbox.ID
}
