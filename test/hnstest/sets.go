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

	b.modify(hns.Remove, web) // the list has let it go
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

// refuses asks whether HNS refuses a request for one set, and does nothing. The sets of have are
// there, each after its members.
func refuses(class error, verb hns.Verb, p hns.SetPolicy, have ...hns.SetPolicy) func(*bench) {
	return func(b *bench) {
		for _, there := range have {
			b.modify(hns.Add, there)
		}
		err := b.try(verb, p)
		b.refused(err, class, hns.OpSets(verb), hns.KindSet, p.ID)
		require.False(b, hns.EndpointGone(err))
		b.wantSets(have...)
	}
}

func removeOfSetInRule(b *bench) {
	web, ns := leaf("web"), leaf("ns")
	group := list("group", web)
	b.modify(hns.Add, web, ns)
	b.modify(hns.Add, group)
	ep := b.endpoint()
	require.NoError(b, b.add(ep, allowFrom("one", ns, group)))
	for _, p := range []hns.SetPolicy{ns, group} {
		err := b.try(hns.Remove, p)
		b.refused(err, hns.ErrInUse, "SetPolicy/Remove", hns.KindSet, p.ID)
	}
	require.NoError(b, b.replace(ep, nil, allowFrom("one", ns)))
	b.modify(hns.Remove, group)
	require.NoError(b, b.node.DeleteEndpoint(ep))
	b.modify(hns.Remove, ns, web)
}

func setsAllOrNothing(b *bench) {
	web, db := leaf("web", "10.90.0.4"), leaf("db", "10.90.0.5")
	b.modify(hns.Add, web, db)
	b.modify(hns.Add, list("group", db))

	err := b.try(hns.Add, leaf("new"), web, leaf("newer"))
	require.ErrorIs(b, err, hns.ErrAlreadyExists)
	err = b.try(hns.Remove, web, db)
	require.ErrorIs(b, err, hns.ErrInUse)
	err = b.try(hns.Update, leaf("web", "10.90.0.9"), leaf("db", "everything"))
	require.ErrorIs(b, err, hns.ErrInvalid)
	b.wantSets(web, db, list("group", db))
}

// takesSets asks whether HNS takes sets, 512 in a request, and shows them.
func takesSets(sets ...hns.SetPolicy) func(*bench) {
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

// largeSets returns 1024 sets, one of which has 8192 members, and a list of all of them.
func largeSets() []hns.SetPolicy {
	sets := leaves(1024)
	sets[0].Values = strings.Split(manyAddresses(8192), ",")
	return append(sets, list("all", sets...))
}

// wantSets checks the suite's sets. The order of values means nothing.
func (b *bench) wantSets(want ...hns.SetPolicy) {
	byID := map[string]hns.SetPolicy{}
	for _, p := range want {
		byID[p.ID] = p
	}
	require.Empty(b, cmp.Diff(byID, b.sets(), cmpopts.SortSlices(strings.Compare), cmpopts.EquateEmpty()))
}
