package desired

import (
	"maps"
	"math"
	"net/netip"
	"slices"
	"time"

	"github.com/winnpm/winnpm/pkg/ipsets"
)

// clockSkew is how far the clock of a pod's node may be ahead of ours. A pod that
// says that it starts later than that says nothing.
const clockSkew = time.Minute

// ownership is whose an address is.
type ownership = ipsets.Ownership[*PodState]

// inFuture reports whether a start is later than clocks explain. Where there is no
// clock, as in a world without a time, none is.
func (d *State) inFuture(start time.Time) bool {
	return d.now.Year() > 1 && start.After(d.now.Add(clockSkew))
}

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

// settle gives the pods that claim an address what they have of it now; before
// is whose it was.
func (d *State) settle(addr netip.Addr, before ownership, moves map[PodKey]*podMove) {
	after := d.whose(addr)
	entitle := func(p *PodState) {
		if p = d.current(p); p == nil || !p.Claims() || p.Addr != addr {
			return
		}
		same := func(o *PodState) bool { return o != nil && o.UID == p.UID }
		owner := same(after.Owner)
		d.entitle(p, owner, owner && !after.Doubt && !p.IsLost(), slices.ContainsFunc(after.Home, same), moves)
	}
	for _, s := range [...]ownership{before, after} {
		entitle(s.Owner)
		for _, p := range s.Home {
			if p != s.Owner {
				entitle(p)
			}
		}
	}
	if d.owners.Live(addr) > 1 && len(after.Home) > 0 && !after.Home[0].Deleting {
		d.contested[addr] = true
	} else {
		delete(d.contested, addr)
	}
	if after.Rivals && len(after.Home) == 0 {
		d.elsewhere[addr] = true
	} else {
		delete(d.elsewhere, addr)
	}
}

// maxRivals bounds the number of pods that Rivals returns.
const maxRivals = 1024

// Rivals returns the pods of other nodes that contest an address, as namespace and name, sorted by
// address and name. It returns at most maxRivals pods. The result does not depend on their Trust.
func (d *State) Rivals() [][2]string {
	var out [][2]string
	for _, addr := range slices.SortedFunc(maps.Keys(d.elsewhere), netip.Addr.Compare) {
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

// Home returns the local pods that an endpoint with these addresses belongs to: one, or
// none, or in doubt several, first the one that it is said to be of.
func (d *State) Home(addrs []netip.Addr) []*PodState {
	for _, addr := range addrs {
		if home := d.whose(addr).Home; len(home) > 0 {
			return home
		}
	}
	return nil
}

// podMove is what a pod was and is; nil where it was not or is no more.
type podMove struct{ was, is *PodState }

// current returns the state that a pod has now; nil when it is no more.
func (d *State) current(p *PodState) *PodState {
	if p == nil {
		return nil
	}
	if is := d.members.pod(p.Key()); is != nil && is.UID == p.UID {
		return is
	}
	return nil
}

// entitle gives a pod what it has of its address. A pod that the transaction
// does not name moves along when an address changes hands.
func (d *State) entitle(p *PodState, owner, member, home bool, moves map[PodKey]*podMove) {
	if m := moves[p.Key()]; m != nil {
		m.is.owner, m.is.member, m.is.Home = owner, member, home
		return
	}
	if p.owner == owner && p.member == member && p.Home == home {
		return
	}
	is := *p
	is.owner, is.member, is.Home = owner, member, home
	d.members.put(&is)
	d.owners.Set(is.Addr, &is)
	moves[p.Key()] = &podMove{was: p, is: &is}
}
