package desired

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/winnpm/winnpm/pkg/backoff"
)

// unassignable has the blocks in which no pod has an address: "this network", loopback,
// link-local, multicast and broadcast.
var unassignable = []netip.Prefix{
	netip.MustParsePrefix("0.0.0.0/8"), netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("169.254.0.0/16"),
	netip.MustParsePrefix("224.0.0.0/4"), netip.MustParsePrefix("255.255.255.255/32"),
}

// Claims reports whether the pod claims its address. Host-network pods share the node's
// address, finished pods have given theirs up, and some addresses can belong to
// no pod.
func (p *PodState) Claims() bool {
	return p.Addr.Is4() && !p.HostNetwork && !p.Finished &&
		!slices.ContainsFunc(unassignable, func(b netip.Prefix) bool { return b.Contains(p.Addr) })
}

// compareClaims puts the pod with the stronger claim first. It prefers, in this order, a pod that is
// not being deleted, a pod of this node, the smaller Trust, the later start, the later creation, the
// greater UID, and a pod that is not lost.
func compareClaims(a, b *PodState) int {
	return cmp.Or(later(a.leaves(), b.leaves()), later(b.Local, a.Local), cmp.Compare(a.Trust, b.Trust),
		b.started().Compare(a.started()), b.Created.Compare(a.Created), cmp.Compare(b.UID, a.UID), later(a.IsLost(), b.IsLost()))
}

// sameClaim reports whether two states of a pod claim one address equally: all that compareClaims
// compares is the same.
func (p *PodState) sameClaim(o *PodState) bool {
	return p.Addr == o.Addr && p.UID == o.UID && p.Local == o.Local && p.Deleting == o.Deleting && p.Trust == o.Trust &&
		p.early == o.early && p.Started.Equal(o.Started) && p.Created.Equal(o.Created) && p.LostUntil.Equal(o.LostUntil)
}

// later compares two booleans: false comes first.
func later(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return 1
	}
	return -1
}

// leaves reports whether every claim of a pod that does not leave is stronger.
func (p *PodState) leaves() bool { return p.Deleting || p.IsLost() }

// started is when the pod started, as far as that is known.
func (p *PodState) started() time.Time {
	if p.early {
		return time.Time{}
	}
	return p.Started
}

// losesTo reports whether a claim gives way to another one because of the Trust of both.
func (p *PodState) losesTo(o *PodState) bool {
	return p.Trust == Lost && o.Trust != Lost || p.Trust == Outside && o.Trust == Inside
}

// owners decides which pod an IPv4 address belongs to. Several pods may claim an address: the
// pod with the strongest claim owns it, and the next one inherits it. There is one value per
// claim, strongest first, so the number of pods in the cluster bounds the size.
type owners map[netip.Addr][]*PodState

// ownership says which pod an address belongs to.
type ownership struct {
	// Owner has the strongest claim. It is nil if no pod claims the address.
	Owner *PodState
	// Doubt is set if pods of several namespaces claim the address and no claim gives way. The
	// owner is then unknown, and as a peer the address belongs to no pod.
	Doubt bool
	// Rivals is set if live pods of several namespaces claim the address, all on this node or all
	// on other nodes. Doubt is then also set, unless the state of their nodes decides.
	Rivals bool
	// Home has the pods of this node that endpoints with the address belong to, strongest first:
	// one per namespace in doubt, otherwise at most one. Claims of pods of other nodes do not
	// affect it.
	Home []*PodState
}

// set records the claim of a pod, in place of one of an earlier state.
func (o owners) set(p *PodState) {
	o.drop(p)
	at, _ := slices.BinarySearchFunc(o[p.Addr], p, compareClaims)
	o[p.Addr] = slices.Insert(o[p.Addr], at, p)
}

// drop removes the claim of a pod, if there is one. A lost pod and its live pod have two.
func (o owners) drop(p *PodState) {
	o[p.Addr] = slices.DeleteFunc(o[p.Addr], func(c *PodState) bool { return c.UID == p.UID && c.IsLost() == p.IsLost() })
	if len(o[p.Addr]) == 0 {
		delete(o, p.Addr)
	}
}

// replace gives the claim of a pod to a later state of the pod with the same claim.
func (o owners) replace(was, is *PodState) {
	claims := o[was.Addr]
	if at := slices.Index(claims, was); at >= 0 {
		claims[at] = is
	} else {
		o.set(is) // another pod with its UID took its place
	}
}

// whose returns which pod an address belongs to. The addresses of this node belong to no pod:
// host-network pods use them. The cost is linear in the number of claims to the address.
func (d *State) whose(addr netip.Addr) ownership {
	claims := d.owners[addr]
	if len(claims) == 0 || slices.Contains(d.nodeAddrs, addr) {
		return ownership{}
	}
	best := claims[0]
	s := ownership{Owner: best}
	if best.Local {
		s.Home = append(s.Home, best)
	}
	for _, p := range claims[1:] {
		switch {
		case best.leaves() || p.leaves() || p.Local != best.Local: // always the weaker claim
			if p.Local && len(s.Home) == 0 {
				s.Home = append(s.Home, p)
			}
		case p.Namespace != best.Namespace:
			s.Rivals = true
			s.Doubt = s.Doubt || !p.losesTo(best)
			if p.Local && !slices.ContainsFunc(s.Home, func(h *PodState) bool { return h.Namespace == p.Namespace }) {
				s.Home = append(s.Home, p)
			}
		}
	}
	return s
}

// live returns the pods that claim the address and do not leave, strongest first.
func (o owners) live(a netip.Addr) []*PodState {
	claims := o[a]
	if i := slices.IndexFunc(claims, (*PodState).leaves); i >= 0 {
		return claims[:i]
	}
	return claims
}

// InDoubt reports whether the address may belong to another pod.
func (p *PodState) InDoubt() bool { return !p.member && (p.owner || p.Home && !p.Deleting) }

// podMove has the old and the new state of a pod, nil if it did not exist then.
type podMove struct{ was, is *PodState }

// settle sets owner, member and Home of the pods that claim an address; before is its ownership
// before the transaction. It adds pods that the transaction does not name, but whose values change.
func (d *State) settle(addr netip.Addr, before ownership, moves map[PodKey]*podMove) {
	after := d.whose(addr)
	for _, p := range slices.Concat([]*PodState{before.Owner, after.Owner}, before.Home, after.Home) {
		if p == nil {
			continue
		}
		is := d.members.pod(p.Key())
		if is == nil || is.UID != p.UID || !is.Claims() || is.Addr != addr {
			continue
		}
		same := func(o *PodState) bool { return o != nil && o.UID == is.UID }
		owner, home := same(after.Owner), slices.ContainsFunc(after.Home, same)
		member := owner && !after.Doubt && !is.IsLost()
		if moves[is.Key()] == nil {
			if is.owner == owner && is.member == member && is.Home == home {
				continue
			}
			next := *is
			moves[is.Key()] = &podMove{was: is, is: &next}
			d.members.put(&next)
			d.owners.set(&next)
			is = &next
		}
		is.own(owner, member, home)
	}
	if delete(d.contested, addr); len(d.owners.live(addr)) > 1 || slices.Contains(d.nodeAddrs, addr) && len(d.owners[addr]) > 0 {
		d.contested[addr] = true
	}
}

// elsewhere reports whether pods of other nodes contest an address.
func elsewhere(s ownership) bool { return s.Rivals && len(s.Home) == 0 }

// Home returns the local pods that an endpoint with these addresses belongs to: one or none, or
// in doubt several, strongest claim first.
func (d *State) Home(addrs []netip.Addr) []*PodState {
	for _, addr := range addrs {
		if home := d.whose(addr).Home; len(home) > 0 {
			return home
		}
	}
	return nil
}

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
		d.owners.set(is)
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
		if other := gone[was.Addr]; other == nil || compareClaims(was, other) < 0 {
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
	return len(d.owners[addr]) > 1 || !lost && len(d.owners[addr]) > 0
}

// EndLost ends the local lost pods whose address has no endpoint any more; there reports whether an
// address has an endpoint. It returns when the LostUntil of the next lost pod passes, zero for never.
func (d *State) EndLost(there func(netip.Addr) bool) (due time.Time) {
	ended := map[PodKey]*Pod{}
	for _, key := range d.lost {
		if p := d.members.pod(key); p.Local && p.Home && !there(p.Addr) {
			ended[key] = nil
		}
	}
	if len(ended) > 0 {
		d.stagePods(ended, nil, map[netip.Addr]ownership{}, changes{})
		d.activate()
	}
	var next backoff.Due
	for _, key := range d.lost {
		next.At(d.members.pod(key).LostUntil)
	}
	return next.First
}
