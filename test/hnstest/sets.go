package hnstest

import (
	"fmt"
	"slices"
	"strings"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/stretchr/testify/require"

	"github.com/winnpm/winnpm/pkg/hns"
)

func setLifeCycle(b *bench) {
	web, db := leaf("web", "10.90.0.4", "10.90.1.0/24"), leaf("db")
	both := list("both", web, db)
	b.modify(hns.Add, web, db)
	b.modify(hns.Add, both)
	b.wantSets(web, db, both)

	web.Values = []string{"10.90.0.5"}
	db.Values = []string{"10.90.0.6", "10.90.0.7"}
	b.modify(hns.Update, web, db)
	both.Values = []string{db.ID}
	b.modify(hns.Update, both)
	b.wantSets(web, db, both)

	web.Values = nil
	b.modify(hns.Update, web)
	b.wantSets(web, db, both)

	b.modify(hns.Remove, web) // the nested set no longer contains it
	b.wantSets(db, both)
	b.modify(hns.Remove, both)
	b.modify(hns.Remove, db)
	b.wantSets()
}

func updateOfMissing(b *bench) {
	web := leaf("web", "10.90.0.4")
	b.modify(hns.Add, web)
	web.Values = []string{"10.90.0.5"}
	b.modify(hns.Update, leaf("gone", "10.90.0.9"), web)
	b.wantSets(web)
}

// rejects tests that HNS rejects a request for sets, and changes nothing. It first adds the sets of have in
// this order.
func rejects(class error, verb hns.Verb, sets []hns.SetPolicy, have ...hns.SetPolicy) func(*bench) {
	return func(b *bench) {
		for _, there := range have {
			b.modify(hns.Add, there)
		}
		id := sets[0].ID
		if len(sets) > 1 {
			id = fmt.Sprintf("one of %d", len(sets))
		}
		b.rejected(b.try(verb, sets...), class, hns.OpSets(verb), hns.KindSet, id)
		b.wantSets(have...)
	}
}

func removeOfSetInRule(b *bench) {
	ep, web, _ := b.pod()
	group := list("group", web)
	b.modify(hns.Add, group)
	require.NoError(b, b.add(ep, allowFrom("one", web, group)))
	b.rejected(b.try(hns.Remove, group), hns.ErrInUse, "SetPolicy/Remove", hns.KindSet, group.ID)
	require.NoError(b, b.replace(ep, nil, allowFrom("one", web)))
	b.modify(hns.Remove, group)
	b.rejected(b.try(hns.Remove, web), hns.ErrInUse, "SetPolicy/Remove", hns.KindSet, web.ID)
	require.NoError(b, b.node.HNS.Delete("Endpoint", ep))
	b.modify(hns.Remove, web)
}

// acceptsSets tests that HNS accepts sets, 512 in a request, and returns them.
func acceptsSets(sets ...hns.SetPolicy) func(*bench) {
	return func(b *bench) {
		for request := range slices.Chunk(sets, 512) {
			b.modify(hns.Add, request...)
		}
		b.wantSets(sets...)
	}
}

// leaves returns n sets with one address.
func leaves(n int) (sets []hns.SetPolicy) {
	for i := range n {
		sets = append(sets, leaf(fmt.Sprint(i), "10.90.0.4"))
	}
	return sets
}

// largeSets returns 1024 sets, one of which has 8192 members, and a nested set of all of them.
func largeSets() []hns.SetPolicy {
	sets := leaves(1024)
	sets[0].Values = strings.Split(manyAddresses(8192), ",")
	return append(sets, list("all", sets...))
}

// wantSets checks the suite's sets, with sets and values in any order.
func (b *bench) wantSets(want ...hns.SetPolicy) {
	byID := func(a, b hns.SetPolicy) int { return strings.Compare(a.ID, b.ID) }
	require.Empty(b, cmp.Diff(want, b.sets(), cmpopts.SortSlices(byID), cmpopts.SortSlices(strings.Compare), cmpopts.EquateEmpty()))
}
