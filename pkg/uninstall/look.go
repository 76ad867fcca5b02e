// Package uninstall takes what WinNPM and its predecessor have in HNS off a node: first
// the rules of each endpoint, by one request, then the sets, once no rule can name them.
// What others have there goes back as it was read. It knows neither Kubernetes nor clocks.
package uninstall

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/winnpm/winnpm/pkg/hns"
)

// Found is what of ours a look finds in HNS.
type Found struct {
	Endpoints []Endpoint      // that have rules of ours, or cannot be read, by GUID
	Sets      []hns.SetPolicy // ours: nested ones first, then by name
	// SetErr is why HNS did not remove sets, nil for none.
	SetErr error
}

// Endpoint is one that has rules of ours, or may have.
type Endpoint struct {
	ID    string // GUID
	Addrs []netip.Addr
	Rules int   // of ours; 0 when it cannot be read
	Err   error // of its last read or write, nil for none

	version hns.Version // that its rules are taken away from
}

// Empty reports whether nothing of ours is left, as far as HNS shows it.
func (f Found) Empty() bool { return len(f.Endpoints)+len(f.Sets) == 0 }

// Rules returns how many rules are ours.
func (f Found) Rules() int {
	n := 0
	for _, e := range f.Endpoints {
		n += e.Rules
	}
	return n
}

// Nested returns how many of the sets hold sets.
func (f Found) Nested() int {
	n := 0
	for _, s := range f.Sets {
		if s.Type == hns.NestedIPSet {
			n++
		}
	}
	return n
}

// Look reads the sets and every endpoint, and writes nothing. An endpoint that cannot be
// read is found, with the reason. The error is that of the sets or of the enumeration,
// without which nothing is known.
func Look(ctx context.Context, client hns.Client) (Found, error) {
	network, err := client.Network(ctx)
	if err != nil {
		return Found{}, fmt.Errorf("reading the sets: %w", err)
	}
	var out Found
	for _, s := range network.Sets {
		if len(s.ID) >= len(hns.SetIDPrefix) && strings.EqualFold(s.ID[:len(hns.SetIDPrefix)], hns.SetIDPrefix) {
			out.Sets = append(out.Sets, s)
		}
	}
	slices.SortFunc(out.Sets, func(a, b hns.SetPolicy) int {
		return cmp.Or(-cmp.Compare(a.Type, b.Type), cmp.Compare(a.Name, b.Name)) // NESTEDIPSET is after IPSET
	})
	ids, err := client.EndpointIDs(ctx)
	if err != nil {
		return Found{}, fmt.Errorf("enumerating the endpoints: %w", err)
	}
	for _, id := range slices.Sorted(slices.Values(ids)) {
		e, err := client.GetEndpoint(ctx, id)
		ours, _ := e.Split()
		switch {
		case ctx.Err() != nil:
			return Found{}, context.Cause(ctx)
		case errors.Is(err, hns.ErrElsewhere), hns.EndpointGone(err):
		case err != nil:
			out.Endpoints = append(out.Endpoints, Endpoint{ID: id, Err: err})
		case len(ours) > 0:
			out.Endpoints = append(out.Endpoints, Endpoint{ID: id, Addrs: e.Addrs, Rules: len(ours), version: e.Basis()})
		}
	}
	return out, nil
}
