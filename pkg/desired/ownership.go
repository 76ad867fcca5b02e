package desired

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/winnpm/winnpm/pkg/acl"
	"github.com/winnpm/winnpm/pkg/ipsets"
	"github.com/winnpm/winnpm/pkg/policy"
	"github.com/winnpm/winnpm/pkg/render"
	"github.com/winnpm/winnpm/pkg/state"
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

// InDoubt reports whether somebody else may have the address just as well.
func (p *PodState) InDoubt() bool { return !p.member && (p.owner || p.Home && !p.Deleting) }

// whose returns whose an address is. The node's own ones are nobody's: a pod
// that uses them is a host-network pod and says so.
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
		d.entitle(p, owner, owner && !after.Doubt, slices.ContainsFunc(after.Home, same), moves)
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

// RulesOf renders what an endpoint has while it may be any of these pods', at
// least one: what one of them is isolated in is blocked, and what is allowed is what
// each of them allows. A pod that no policy isolates allows everything. When several
// are isolated they have no rule in common, as they are of different namespaces, so
// nothing is allowed but the node.
func (d *State) RulesOf(home []*PodState) render.Rules {
	if slices.ContainsFunc(home, (*PodState).Tiered) {
		return d.tieredBy(home)
	}
	isolating := slices.DeleteFunc(slices.Clone(home), func(p *PodState) bool { return p.Isolated() == [2]bool{} })
	switch len(isolating) {
	case 0:
		return d.desiredOf(home[0])
	case 1:
		return d.desiredOf(isolating[0])
	}
	var isolated [2]bool
	for _, p := range isolating {
		for dir, is := range p.Isolated() {
			isolated[dir] = isolated[dir] || is
		}
	}
	return render.Rules{Shared: slices.Concat(d.cfg.BaseACLs, acl.Shared(isolated, d.nodeAddrs))}
}

// Isolated returns the directions in which a policy, or its budget, isolates a local
// pod.
func (p *PodState) Isolated() [2]bool {
	isolated := [2]bool{p.OverBudget != "", p.OverBudget != ""}
	for _, ps := range p.selected {
		for _, dir := range policy.Directions {
			isolated[dir] = isolated[dir] || ps.Isolates[dir]
		}
	}
	return isolated
}

// namedRivals is how many of those who claim an address a warning names.
const namedRivals = 4

// AddressWarnings tells of the addresses of local pods that others claim too,
// and of local pods with an address that is nobody's: one warning each, so the local
// pods bound them.
func (d *State) AddressWarnings() []state.Warning {
	var out []state.Warning
	for addr := range d.contested {
		s := d.whose(addr)
		follows := fmt.Sprintf("it counts as that of %s, which runs here", s.Owner.Key())
		if s.Doubt {
			follows = "until one is left the address is in no set, and its endpoint is blocked as the policies of each of them say"
		}
		out = append(out, state.Warning{Object: s.Home[0].Key().String(), Kind: "Pod", Reason: state.ReasonAddressContested,
			Message: fmt.Sprintf("address %s is claimed by %s: %s; find out who reports it wrongly: kubectl get pods -A -o wide", addr, d.rivals(addr), follows)})
	}
	nobodys := slices.Collect(maps.Keys(d.misplaced))
	for _, addr := range d.nodeAddrs {
		if home := d.owners.Ownership(addr).Home; len(home) > 0 {
			nobodys = append(nobodys, home[0].Key())
		}
	}
	for _, key := range nobodys {
		out = append(out, state.Warning{Object: key.String(), Kind: "Pod", Reason: state.ReasonAddressContested,
			Message: fmt.Sprintf("the pod reports address %s, which no pod can have: it is in no set and no policy is enforced on it; find out who reports it", d.members.pods[key].Addr)})
	}
	return out
}

// rivals names who claims an address, the strongest first.
func (d *State) rivals(addr netip.Addr) string {
	few, all := d.owners.Rivals(addr, namedRivals)
	names := make([]string, len(few))
	for i, p := range few {
		if names[i] = p.Key().String(); !p.Local {
			names[i] += " (on another node)"
		}
	}
	text := strings.Join(names, ", ")
	if more := all - len(few); more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// podMove is what a pod was and is; nil where it was not or is no more.
type podMove struct{ was, is *PodState }

// current returns the state that a pod has now; nil when it is no more.
func (d *State) current(p *PodState) *PodState {
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
