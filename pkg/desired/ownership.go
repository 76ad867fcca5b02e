package desired

import (
	"maps"
	"math"
	"net/netip"
	"slices"

	"github.com/winnpm/winnpm/pkg/ipsets"
)

// ownership says which pod an address belongs to.
type ownership = ipsets.Ownership[*PodState]

// InDoubt reports whether the address may belong to another pod.
func (p *PodState) InDoubt() bool { return !p.member && (p.owner || p.Home && !p.Deleting) }

// whose returns which pod an address belongs to. The addresses of this node belong to no pod:
// host-network pods use them.
func (d *State) whose(addr netip.Addr) ownership {
	if slices.Contains(d.nodeAddrs, addr) {
		return ownership{}
	}
	return d.owners.Ownership(addr)
}

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
			d.owners.Set(addr, &next)
			is = &next
		}
		is.own(owner, member, home)
	}
	if delete(d.contested, addr); d.owners.Live(addr) > 1 || slices.Contains(d.nodeAddrs, addr) && d.owners.Count(addr) > 0 {
		d.contested[addr] = true
	}
}

// elsewhere reports whether pods of other nodes contest an address.
func elsewhere(s ownership) bool { return s.Rivals && len(s.Home) == 0 }

// maxRivals bounds the number of pods that Rivals returns.
const maxRivals = 1024

// Rivals returns the pods of other nodes that contest an address, as namespace and name, sorted by
// address and name. It returns at most maxRivals pods. The result does not depend on their Trust.
func (d *State) Rivals() [][2]string {
	var out [][2]string
	for _, addr := range slices.SortedFunc(maps.Keys(d.contested), netip.Addr.Compare) {
		if !elsewhere(d.whose(addr)) {
			continue
		}
		pods, _ := d.owners.Rivals(addr, math.MaxInt)
		at := len(out)
		for _, p := range pods {
			out = append(out, [2]string{p.Namespace, p.Name})
		}
		slices.SortFunc(out[at:], func(a, b [2]string) int { return slices.Compare(a[:], b[:]) })
		if len(out) >= maxRivals {
			return out[:maxRivals]
		}
	}
	return out
}

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
