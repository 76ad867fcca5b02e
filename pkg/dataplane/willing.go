package dataplane

import (
	"maps"
	"slices"

	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/pkg/state"
)

// willing is an HNS that does whatever it is asked to, with a state of its own: what a
// plan is played against. It checks nothing; hnssim is the one that does.
type willing struct {
	sets      map[string]hns.SetPolicy
	endpoints map[string]hns.Endpoint
	hidden    map[string]bool // endpoints that are not enumerated
}

func newWilling(dump state.Dump, view View) *willing {
	w := &willing{map[string]hns.SetPolicy{}, map[string]hns.Endpoint{}, map[string]bool{}}
	for _, s := range view.Sets {
		w.sets[s.ID] = s
	}
	for _, e := range view.Endpoints {
		w.endpoints[e.ID] = e
	}
	for _, ed := range dump.Endpoints {
		w.hidden[ed.ID] = ed.Next.Absent
	}
	return w
}

// do does a request. An endpoint that the view lacks is gone.
func (w *willing) do(r hns.Request) (out hns.Result) {
	switch r.Op {
	case hns.OpNetworkGet:
		for _, id := range slices.Sorted(maps.Keys(w.sets)) {
			out.Network.Sets = append(out.Network.Sets, w.sets[id])
		}
		return out
	case hns.OpEndpointNew: // whether one is in use, the view does not say
		return out
	case hns.OpEndpointIDs:
		out.IDs = slices.DeleteFunc(slices.Sorted(maps.Keys(w.endpoints)), func(id string) bool { return w.hidden[id] })
		return out
	}
	for _, s := range r.Sets {
		if r.Verb() == hns.Remove {
			delete(w.sets, s.ID)
		} else {
			w.sets[s.ID] = s
		}
	}
	if r.Verb() != "" {
		return out
	}
	e, is := w.endpoints[r.Endpoint]
	if !is {
		out.Err = &hns.OpError{Op: r.Op, Kind: hns.KindEndpoint, ID: r.Endpoint, Err: hns.ErrNotFound}
		return out
	}
	switch r.Op {
	case hns.OpACLAdd:
		for _, a := range r.ACLs {
			e.Policies = append(slices.Clip(e.Policies), hns.NewACLPolicy(a))
		}
	case hns.OpACLUpdate:
		e.Policies = r.Policies
	}
	w.endpoints[r.Endpoint] = e
	out.Endpoint = e
	return out
}
