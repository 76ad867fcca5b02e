package dataplane

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"github.com/winnpm/winnpm/pkg/desired"
	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/pkg/ipsets"
	"github.com/winnpm/winnpm/pkg/state"
)

// ErrDump is the error for a dump that was not written by a Dataplane.
var ErrDump = errors.New("not the dump of a dataplane")

// View has the contents of HNS for our network: our sets, and all endpoints.
type View struct {
	Sets      []hns.SetPolicy
	Endpoints []hns.Endpoint
}

// ViewOf returns the contents of HNS according to a dump. Of the policies of other programs it has
// only the rules. Where the dump marks a state as unknown, it has the last known state. It fails
// with ErrDump.
func ViewOf(dump state.Dump) (View, error) {
	ids := make(map[string]string, len(dump.Sets))
	for _, s := range dump.Sets {
		ids[s.Name] = s.ID
	}
	empty := ipsets.Empty().String()
	if ids[empty] == "" {
		ids[empty] = ipsets.Empty().ID()
	}
	var v View
	for _, s := range dump.Sets {
		if s.InHNS {
			v.Sets = append(v.Sets, setOf(s, ids))
		}
	}
	for _, ed := range dump.Endpoints {
		addrs, err := desired.ParseAddrs(ed.Addrs)
		if err != nil {
			return View{}, fmt.Errorf("%w: endpoint %s: %w", ErrDump, ed.ID, err)
		}
		for _, text := range ed.IPv6 {
			addr, err := netip.ParseAddr(text)
			if err != nil || addr.Is4() {
				return View{}, fmt.Errorf("%w: endpoint %s: %q is not an IPv6 address", ErrDump, ed.ID, text)
			}
			addrs = append(addrs, addr)
		}
		e := hns.Endpoint{ID: ed.ID, Addrs: addrs, Netns: ed.Next.Netns}
		for _, a := range slices.Concat(ed.ForeignRules, ed.Applied) {
			e.Policies = append(e.Policies, hns.NewACLPolicy(a))
		}
		v.Endpoints = append(v.Endpoints, e)
	}
	return v, nil
}

// setOf returns a set as HNS has it; ids are those of all sets, by name.
func setOf(s state.Set, ids map[string]string) hns.SetPolicy {
	p := hns.SetPolicy{ID: s.ID, Name: cmp.Or(s.Called, s.Name), Type: hns.SetType(s.Type)}
	values := slices.Concat(s.Members, s.Surplus)
	if p.Type == hns.NestedIPSet {
		values = append(values, ipsets.Empty().String())
	}
	missing := make(map[string]bool, len(s.Missing))
	for _, text := range s.Missing {
		missing[text] = true
	}
	for _, text := range values {
		if missing[text] {
			continue
		}
		if id := ids[text]; p.Type == hns.NestedIPSet && id != "" {
			text = id
		}
		p.Values = append(p.Values, text)
	}
	return p
}
