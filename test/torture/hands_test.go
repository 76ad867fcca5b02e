package torture

import (
	"slices"

	"github.com/stretchr/testify/require"

	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/test/hnsfault"
	"github.com/winnpm/winnpm/test/script"
	"github.com/winnpm/winnpm/tool/hnssim"
)

// play has the CNI or another program change the node.
func (r *replay) play(words []string) {
	require.NoError(r.t, script.Change(r.sim, words))
	if !r.began { // nothing of ours is there
		return
	}
	r.handed = r.handed || r.doing == hand
	switch words[0] {
	case "foreign":
		r.foreign = append(r.foreign, words[1])
	case "drop-acl":
		r.watch.damage.endpoint(words[1])
	case "put-set", "drop-set":
		r.watch.damage.set(hnsfault.DerivedID(words[1]))
	case "restart-hns":
		r.watch.damage.all = true
	}
}

// half breaks the assumption that a write is atomic: only the end counts.
func half(r *replay, c hnsfault.Call) {
	fault(hnsfault.Half)(r, c)
	r.watch.damage.all = true
}

// loseAll is HNS that restarts and has lost everything of ours.
func loseAll(r *replay, _ hnsfault.Call) {
	r.sim.Restart()
	r.watch.damage.all = true
}

// target picks the endpoint of a call, or any.
func (r *replay) target(c hnsfault.Call) (hnssim.SimEndpoint, bool) {
	if e, ok := r.sim.Endpoint(c.Target); ok {
		return e, true
	}
	eps := r.sim.Endpoints()
	if len(eps) == 0 || r.disturb == nil {
		return hnssim.SimEndpoint{}, false
	}
	return eps[r.disturb.call%len(eps)], true
}

// foreignRule is a rule of nobody we know that no packet meets.
var foreignRule = hns.NewACLPolicy(hns.ACL{
	ID: "other", Action: hns.Block, Direction: hns.In, RemoteAddresses: "10.8.8.8", RuleType: hns.Switch, Priority: 150,
})

func addForeign(r *replay, c hnsfault.Call) {
	e, ok := r.target(c)
	_, others := hns.Endpoint{Policies: e.Policies}.Split()
	if !ok || len(others) == 0 { // the first rule would close the endpoint
		return
	}
	require.NoError(r.t, r.sim.SetPolicies(e.ID, append(e.Policies, foreignRule)))
	r.foreign = append(r.foreign, e.ID)
	r.note("a foreign rule on %s", e.ID)
}

// dropACL takes one of our rules off an endpoint.
func dropACL(action hns.ActionType) func(*replay, hnsfault.Call) {
	return func(r *replay, c hnsfault.Call) {
		e, ok := r.target(c)
		if !ok {
			return
		}
		at := slices.IndexFunc(e.Policies, func(p hns.EndpointPolicy) bool {
			a, err := p.ACL()
			return err == nil && a.Ours() && a.Action == action
		})
		if at < 0 {
			return
		}
		r.note("dropped on %s: %s", e.ID, e.Policies[at].Settings)
		r.watch.damage.endpoint(e.ID)
		require.NoError(r.t, r.sim.SetPolicies(e.ID, slices.Delete(e.Policies, at, at+1)))
	}
}

// victims returns the sets that somebody else may change: first those of the call, then all
// others.
func (r *replay) victims(c hnsfault.Call) []hns.SetPolicy {
	named := map[string]bool{}
	for _, s := range c.Sets {
		named[s.ID] = true
	}
	for _, a := range c.ACLs {
		for _, id := range a.SetIDs() {
			named[id] = true
		}
	}
	sets := r.sim.Sets()
	slices.SortStableFunc(sets, func(a, b hns.SetPolicy) int {
		switch {
		case named[a.ID] == named[b.ID]:
			return 0
		case named[a.ID]:
			return -1
		}
		return 1
	})
	return sets
}

func emptySet(r *replay, c hnsfault.Call) {
	for _, s := range r.victims(c) {
		if len(s.Values) == 0 {
			continue
		}
		r.note("emptied: %s", s.Name)
		r.watch.damage.set(s.ID)
		s.Values = nil
		require.NoError(r.t, r.sim.PutSet(s))
		return
	}
}

func dropSet(r *replay, c hnsfault.Call) {
	for _, s := range r.victims(c) {
		if r.sim.DropSet(s.ID) == nil { // refused while in use
			r.note("dropped: %s", s.Name)
			r.watch.damage.set(s.ID)
			return
		}
	}
}

// inherit ends the given part of a node that Azure NPM has left: it had all of
// these events in HNS, and no process of ours has run.
func (r *replay) inherit(events []event) {
	for _, e := range events {
		r.todo.change(e)
	}
	r.todo.done()
	r.away = true
	r.check("as Azure NPM left it")
	r.watch.reached(r.sim, cluster(r.todo.now.values()))
	r.checkProgrammed()
}
