package oracletest

import (
	"fmt"
	"slices"
	"strings"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"github.com/winnpm/winnpm/pkg/dataplane"
	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/test/hnsfault"
	"github.com/winnpm/winnpm/test/oracle"
	"github.com/winnpm/winnpm/test/script"
	"github.com/winnpm/winnpm/tool/hnssim"
)

// hnsState is what there is in HNS, in the words of the simulator's sets and ACLs.
type hnsState struct {
	Sets map[string]hns.SetPolicy // by Id
	ACLs map[string][]hns.ACL     // of ours, by endpoint
}

func (w *world) state() hnsState {
	s := hnsState{Sets: map[string]hns.SetPolicy{}, ACLs: map[string][]hns.ACL{}}
	for _, set := range w.sim.Sets() {
		s.Sets[set.ID] = set
	}
	for _, endpoint := range w.sim.Endpoints() {
		s.ACLs[endpoint.ID], _ = hns.Endpoint{Policies: endpoint.Policies}.Split()
	}
	return s
}

// unneeded returns the Ids of sets that no ACL names, directly or as the
// member of a set.
func (s hnsState) unneeded() []string {
	needed := map[string]bool{}
	for _, acls := range s.ACLs {
		for _, acl := range acls {
			for _, id := range acl.SetIDs() {
				needed[id] = true
				for _, member := range s.Sets[id].Values {
					needed[member] = true // or an address, which is no Id
				}
			}
		}
	}
	var ids []string
	for id := range s.Sets {
		if !needed[id] {
			ids = append(ids, id)
		}
	}
	return ids
}

// effective returns the state without the numbers of named ports that no peer
// uses any more: their rules, which match nothing, stay until the endpoint's
// next Update, and so what else there is for their sake.
func (s hnsState) effective() hnsState {
	for endpoint := range s.ACLs {
		s.ACLs[endpoint] = slices.DeleteFunc(s.ACLs[endpoint], func(acl hns.ACL) bool {
			return hnsfault.Unused(acl, s.Sets)
		})
		slices.SortFunc(s.ACLs[endpoint], func(a, b hns.ACL) int { // the order says nothing
			return strings.Compare(fmt.Sprint(a), fmt.Sprint(b))
		})
	}
	for _, id := range s.unneeded() {
		delete(s.Sets, id)
	}
	return s
}

// checkSets checks that every set in HNS is there for a reason.
func (w *world) checkSets(c oracle.Cluster) {
	s := w.state()
	for _, id := range s.unneeded() {
		w.fail(c, "nothing needs set %s", s.Sets[id].Name)
	}
}

// sameAsFresh checks that nothing in HNS tells how the world came to be as it
// is. An endpoint that no pod of the node owns keeps what it had, and so must go first.
func (w *world) sameAsFresh(c oracle.Cluster) {
	w.plug(c, true)
	w.reconcile()
	fresh := newWorld(w.t, w.setup)
	for _, e := range w.sim.Endpoints() { // an endpoint keeps its IPv6 addresses when those of its pod change
		require.NoError(w.t, fresh.sim.CreateEndpoint(hnssim.SimEndpoint{ID: e.ID, Addrs: e.Addrs}))
	}
	fresh.start(c, true)
	if d := cmp.Diff(fresh.state().effective(), w.state().effective()); d != "" {
		w.fail(c, "HNS depends on the way here (- at once, + this way):\n%s", d)
	}
}

// checkQuiet checks that a transaction of nothing writes nothing.
func (w *world) checkQuiet() {
	report := w.apply(dataplane.NewTransaction())
	require.Zero(w.t, report.Pending)
	require.Empty(w.t, report.Plan)
	for op := range report.Calls {
		require.False(w.t, strings.HasPrefix(op, "SetPolicy/") || strings.HasPrefix(op, "ACL/"), "%s for nothing", op)
	}
}

// describe words a cluster for whoever reads a failure.
func describe(c oracle.Cluster) string {
	var b strings.Builder
	for name, object := range script.Objects(c) {
		fmt.Fprintln(&b, name, object)
	}
	return b.String()
}
