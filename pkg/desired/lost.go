package desired

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/winnpm/winnpm/pkg/backoff"
)

// A pod whose object is gone although it was neither Succeeded nor Failed is lost: its containers
// may run on, as after a forced delete. For each address State keeps at most one lost pod, under a
// name that no object can have. It claims the address but joins no set except Doubt, so rules that
// deny include the address, and rules that allow do not. A local lost pod keeps its labels, so
// policies hold for its endpoint as before. A lost pod of another node keeps only its address. The
// addresses of pods and the endpoints in HNS bound the number of lost pods.

// lostAfter is how long a lost pod is kept after its grace period, because a kubelet may stop the
// containers late.
const lostAfter = time.Minute

// lose returns the lost pod that replaces was.
func (d *State) lose(was *PodState) *PodState {
	p := Pod{
		Namespace: was.Namespace, Name: fmt.Sprintf("%s (deleted, had %s)", was.Name, was.Addr), UID: was.UID, Addr: was.Addr,
		Local: was.Local, Started: was.Started, Created: was.Created,
		LostUntil: d.now.Add(min(cmp.Or(was.Grace, DefaultGrace)+lostAfter, LongestLost)),
	}
	is := &PodState{Pod: &p, early: was.early}
	if p.Local {
		p.Labels, p.Ports, p.OverBudget = was.Labels, was.Ports, was.OverBudget
		is.Placement = was.Placement
	}
	return is
}

// stageLost adds a lost pod for each unfinished pod that gave up an address, unless another pod
// claims the address. It ends the lost pods whose address another pod claims, or whose LostUntil
// has passed.
func (d *State) stageLost(finished map[PodKey]bool, addrs map[netip.Addr]ownership, moves map[PodKey]*podMove) {
	gone := d.unfinished(finished, moves)
	for addr := range addrs {
		if key, is := d.lost[addr]; is && d.claimed(addr) {
			moves[key] = d.movePod(key, d.members.pod(key), nil, addrs)
		}
	}
	d.endDue(addrs, moves)
	for addr, was := range gone {
		if d.claimed(addr) || slices.Contains(d.nodeAddrs, addr) {
			continue
		}
		is := d.lose(was)
		key := is.Key()
		d.members.put(is)
		d.owners.Set(addr, is)
		d.lost[addr] = key
		moves[key] = &podMove{was: was, is: is}
		if m := moves[was.Key()]; m.is == nil {
			delete(moves, was.Key())
		} else {
			m.was = nil
		}
	}
}

// unfinished returns the pods that gave up their address before they finished. If several pods
// gave up the same address, it returns only the one with the strongest claim.
func (d *State) unfinished(finished map[PodKey]bool, moves map[PodKey]*podMove) map[netip.Addr]*PodState {
	gone := map[netip.Addr]*PodState{}
	for key, m := range moves {
		was := m.was
		if finished[key] || was == nil || was.IsLost() || !was.Claims() || m.is != nil && m.is.UID == was.UID || d.now.Year() <= 1 {
			continue
		}
		if other := gone[was.Addr]; other == nil || was.Claim().Stronger(other.Claim()) {
			gone[was.Addr] = was
		}
	}
	return gone
}

// endDue ends the lost pods whose LostUntil has passed. A lost pod that this transaction takes
// from a dump ends in the next transaction at the earliest.
func (d *State) endDue(addrs map[netip.Addr]ownership, moves map[PodKey]*podMove) {
	for _, key := range d.lost {
		if p := d.members.pod(key); moves[key] == nil && !p.LostUntil.After(d.now) {
			moves[key] = d.movePod(key, p, nil, addrs)
		}
	}
}

// claimed reports whether a pod that is not lost claims an address.
func (d *State) claimed(addr netip.Addr) bool {
	_, lost := d.lost[addr]
	return d.owners.Count(addr) > 1 || !lost && d.owners.Count(addr) > 0
}

// EndLost ends the local lost pods whose address has no endpoint any more. there reports whether an
// address has one.
func (d *State) EndLost(there func(netip.Addr) bool) {
	if len(d.lost) == 0 {
		return
	}
	ended := map[PodKey]*Pod{}
	for _, p := range d.local {
		if p.IsLost() && !there(p.Addr) {
			ended[p.Key()] = nil
		}
	}
	if len(ended) == 0 {
		return
	}
	d.stagePods(ended, nil, map[netip.Addr]ownership{}, Changes{})
	d.activate()
}

// LostDue returns when the agent must next check whether a lost pod has to end. Zero means never.
func (d *State) LostDue() time.Time {
	var next backoff.Due
	for _, key := range d.lost {
		next.At(d.members.pod(key).LostUntil)
	}
	return next.First
}
