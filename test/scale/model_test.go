package scale

import (
	"bytes"
	"maps"
	"slices"

	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/test/hnsfault"
)

// The cost model: what a transaction asks of HNS follows from the difference
// that it makes there, and from nothing else. docs/performance.md has it in
// words.

// Calls of the DLLs. A call of its own opens a handle, uses it and closes it.
const (
	dllCall      = 3
	dllNetwork   = 4 // the network is looked for by its name first
	dllEnumerate = 2 // endpoints in state 2, and in state 3
	dllHandle    = 2 // that calls share: to open and to close it
	dllWrite     = 3 // with a read before and a read after, over a handle
)

// hnsState is what HNS has.
type hnsState struct {
	sets map[string]hns.SetPolicy // by id
	eps  map[string]hns.Endpoint  // by GUID
}

func stateOf(sim *hnsfault.Sim) hnsState {
	s := hnsState{map[string]hns.SetPolicy{}, map[string]hns.Endpoint{}}
	for _, set := range sim.Sets() {
		s.sets[set.ID] = set
	}
	for _, e := range sim.Endpoints() {
		s.eps[e.ID] = hns.Endpoint{ID: e.ID, Addrs: e.Addrs, Policies: e.Policies}
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
		c.read += networkBytes(before.sets)
	}
	if r.enumerate {
		c.calls[hns.OpEndpointIDs]++
		c.dll += dllEnumerate
		c.read += idsBytes(before.eps)
		for _, id := range r.unknown {
			c.calls[hns.OpEndpointGet]++
			c.dll += dllCall
			c.read += endpointBytes(before.eps[id])
		}
	}
	c.ofSets(before.sets, after.sets)
	for id, e := range after.eps {
		c.ofEndpoint(before.eps[id], e)
	}
	return c
}

// ofSets: one request per verb and type, however many sets there are; a set that
// changes is sent whole.
func (c *counts) ofSets(before, after map[string]hns.SetPolicy) {
	type request struct {
		verb hns.Verb
		of   hns.SetType
	}
	sent := map[request][]hns.SetPolicy{}
	for id, s := range after {
		was, there := before[id]
		switch {
		case !there:
			sent[request{hns.Add, s.Type}] = append(sent[request{hns.Add, s.Type}], s)
		case !sameValues(was, s):
			sent[request{hns.Update, s.Type}] = append(sent[request{hns.Update, s.Type}], s)
		}
	}
	for id, s := range before {
		if _, there := after[id]; !there {
			sent[request{hns.Remove, s.Type}] = append(sent[request{hns.Remove, s.Type}], s)
		}
	}
	for r, sets := range sent {
		c.calls[hns.OpSets(r.verb)]++
		c.dll += dllCall
		c.sent += requestBytes(r.verb, len(sets))
		for _, s := range sets {
			c.sent += setBytes(s)
		}
	}
}

// sameValues compares values in any order.
func sameValues(a, b hns.SetPolicy) bool {
	return slices.Equal(slices.Sorted(slices.Values(a.Values)), slices.Sorted(slices.Values(b.Values)))
}

// mostAdds is how many batches an endpoint is given; what takes more is one of them on
// a new endpoint, and one Update.
const mostAdds = 4

// ofEndpoint: what only adds rules goes as batches of Add, anything else as one
// Update with everything. The endpoint is read before and after each, all of it
// over one handle.
func (c *counts) ofEndpoint(before, after hns.Endpoint) {
	if slices.EqualFunc(before.Policies, after.Policies, samePolicy) {
		return
	}
	c.dll += dllHandle
	had, _ := before.Split()
	has, _ := after.Split()
	update := func() {
		c.calls[hns.OpEndpointGet] += 2
		c.calls[hns.OpACLUpdate]++
		c.dll += dllWrite
		c.read += endpointBytes(before) + endpointBytes(after)
		c.sent += requestBytes(hns.Update, len(after.Policies))
		for _, p := range after.Policies {
			c.sent += sentBytes(p)
		}
	}
	if len(had) > len(has) || !slices.Equal(had, has[:len(had)]) {
		update()
		return
	}
	sizes := batches(has[len(had):])
	if len(sizes) > mostAdds {
		defer func() { update() }() // of what the batch has left
		if sizes = sizes[:1]; len(had) > 0 {
			sizes = nil
		}
	}
	for _, size := range sizes {
		next := before
		next.Policies = after.Policies[:len(before.Policies)+size]
		c.calls[hns.OpEndpointGet] += 2
		c.calls[hns.OpACLAdd]++
		c.dll += dllWrite
		c.read += endpointBytes(before) + endpointBytes(next)
		c.sent += requestBytes(hns.Add, size)
		for _, p := range next.Policies[len(before.Policies):] {
			c.sent += sentBytes(p)
		}
		before = next
	}
}

func samePolicy(a, b hns.EndpointPolicy) bool {
	return a.Type == b.Type && bytes.Equal(a.Settings, b.Settings)
}

// batches returns the sizes of the requests that rules are added in: whole
// policies, 30 rules at most. The block of an endpoint comes along with what
// goes first or last and makes no request of its own.
func batches(added []hns.ACL) []int {
	var sizes []int
	open := 0
	for len(added) > 0 {
		n := 1
		for n < len(added) && added[n].ID == added[0].ID {
			n++
		}
		if open > 0 && open+n > batch && added[0].Priority != hns.PriorityBlock {
			sizes = append(sizes, open)
			open = 0
		}
		open += n
		added = added[n:]
	}
	return append(sizes, open)
}

// ----- bytes -----

// requestBytes is the envelope of a request with so many policies.
func requestBytes(verb hns.Verb, policies int) int {
	return len(`{"ResourceType":"Policy","RequestType":"","Settings":{"Policies":[]}}`) + len(verb) + commas(policies)
}

// setBytes is one set: 15 bytes of each member at most, and 130 or so besides.
func setBytes(s hns.SetPolicy) int {
	n := len(`{"Type":"SetPolicy","Settings":{"Id":"","Name":"","PolicyType":"","Values":""}}`)
	n += len(s.ID) + len(s.Name) + len(s.Type) + commas(len(s.Values))
	for _, v := range s.Values {
		n += len(v)
	}
	return n
}

// policyBytes is one policy of an endpoint as it is read, and as it goes back.
func policyBytes(p hns.EndpointPolicy) int {
	return len(`{"Type":"","Settings":}`) + len(p.Type) + len(p.Settings)
}

// sentBytes is a policy as it is sent, given as it is read back: HNS adds to our
// rules that they are for any protocol, and what others have goes back as it is.
func sentBytes(p hns.EndpointPolicy) int {
	if a, err := p.ACL(); err == nil && a.Ours() {
		p = hns.NewACLPolicy(a.Canonical())
	}
	return policyBytes(p)
}

func networkBytes(sets map[string]hns.SetPolicy) int {
	n := len(`{"ID":"","Name":"azure","Policies":[]}`) + len("5c1d0d2e-7a53-4d2b-9a60-0f6c9e0f1a11") + commas(len(sets))
	for s := range maps.Values(sets) {
		n += setBytes(s)
	}
	return n
}

func idsBytes(eps map[string]hns.Endpoint) int {
	n := len(`[]`) + commas(len(eps))
	for id := range maps.Keys(eps) {
		n += len(`""`) + len(id)
	}
	return n
}

func endpointBytes(e hns.Endpoint) int {
	n := len(`{"ID":"","IpConfigurations":[],"Policies":[]}`) + len(e.ID) + commas(len(e.Addrs)) + commas(len(e.Policies))
	for _, a := range e.Addrs {
		n += len(`{"IpAddress":""}`) + len(a.String())
	}
	for _, p := range e.Policies {
		n += policyBytes(p)
	}
	return n
}

func commas(n int) int { return max(n-1, 0) }
