package scale

import (
	"fmt"
	"slices"

	"github.com/google/go-cmp/cmp"

	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/test/hnsfault"
)

// The cost model of docs/performance.md: the requests of a transaction follow from the
// difference that it makes in HNS, and from nothing else.

// Calls of the DLLs. A call of its own opens a handle, uses it and closes it.
const (
	dllCall      = 3
	dllNetwork   = 4 // the network is looked for by its name first
	dllEnumerate = 2 // endpoints in state 2, and in state 3
	dllHandle    = 2 // that calls share: to open and to close it
	dllAdd       = 2 // with a read after it, over a handle
	dllUpdate    = 3 // with a read before it too
)

// counts is what was asked of HNS.
type counts struct {
	calls map[string]int
	dll   int // calls of the DLLs
}

// hnsState is what HNS has.
type hnsState struct {
	sets []hns.SetPolicy
	eps  map[string][]hns.EndpointPolicy // by GUID
}

func stateOf(sim *hnsfault.Sim) hnsState {
	s := hnsState{sim.Sets(), map[string][]hns.EndpointPolicy{}}
	for _, e := range sim.Endpoints() {
		s.eps[e.ID] = e.Policies
	}
	return s
}

// reads is what a transaction reads before it plans.
type reads struct {
	network bool // the first one of a process reads the sets
	// enumerate: the first one, and one with a new pod of this node, asks for the
	// GUIDs of endpoints, and reads those that are unknown.
	enumerate bool
	unknown   []string
}

// expected returns what it costs to get from one state of HNS to another, in
// one transaction.
func expected(before, after hnsState, r reads) counts {
	c := counts{calls: map[string]int{}}
	if r.network {
		c.calls[hns.OpNetworkGet]++
		c.dll += dllNetwork
	}
	if r.enumerate {
		c.calls[hns.OpEndpointIDs]++
		c.dll += dllEnumerate
		for range r.unknown {
			c.calls[hns.OpEndpointGet]++
			c.dll += dllCall
		}
	}
	c.ofSets(before.sets, after.sets)
	for id, e := range after.eps {
		c.ofEndpoint(before.eps[id], e, r.enumerate && slices.Contains(r.unknown, id))
	}
	return c
}

// ofSets: one request per verb and type, however many sets there are; a set that
// changes is sent whole.
func (c *counts) ofSets(before, after []hns.SetPolicy) {
	type request struct {
		verb hns.Verb
		of   hns.SetType
	}
	requests := map[request]bool{}
	was, is := map[string]string{}, map[string]bool{}
	for _, s := range before {
		was[s.ID] = fmt.Sprint(slices.Sorted(slices.Values(s.Values)))
	}
	for _, s := range after {
		is[s.ID] = true
		if values, there := was[s.ID]; !there {
			requests[request{hns.Add, s.Type}] = true
		} else if values != fmt.Sprint(slices.Sorted(slices.Values(s.Values))) {
			requests[request{hns.Update, s.Type}] = true
		}
	}
	for _, s := range before {
		if !is[s.ID] {
			requests[request{hns.Remove, s.Type}] = true
		}
	}
	for r := range requests {
		c.calls[hns.OpSets(r.verb)]++
		c.dll += dllCall
	}
}

// ofEndpoint: rules that are only added are one Add, if they fit into one. Anything else is one
// Update with everything, and on a new endpoint an Add of the block before it. The endpoint is
// read after each, before an Update, and before an Add if the transaction has not read it, all of
// it over one handle.
func (c *counts) ofEndpoint(before, after []hns.EndpointPolicy, read bool) {
	if cmp.Equal(before, after) {
		return
	}
	c.dll += dllHandle
	had, _ := hns.Endpoint{Policies: before}.Split()
	has, _ := hns.Endpoint{Policies: after}.Split()
	adds, updates := 0, 1
	if len(had) <= len(has) && slices.Equal(had, has[:len(had)]) {
		switch {
		case len(has)-len(had) <= batch:
			adds, updates = 1, 0
		case len(had) == 0:
			adds = 1
		}
	}
	if adds > 0 && !read {
		c.calls[hns.OpEndpointGet]++
		c.dll++
	}
	c.calls[hns.OpEndpointGet] += adds + 2*updates
	c.dll += dllAdd*adds + dllUpdate*updates
	if adds > 0 {
		c.calls[hns.OpACLAdd] += adds
	}
	if updates > 0 {
		c.calls[hns.OpACLUpdate]++
	}
}
