package hnstest

import (
	"fmt"
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

	b.modify(hns.Remove, both)
	b.modify(hns.Remove, web, db)
	b.wantSets()
}

func updateOfMissing(b *bench) {
	web := leaf("web", "10.90.0.4")
	b.modify(hns.Add, web)
	web.Values = []string{"10.90.0.5"}
	b.modify(hns.Update, leaf("gone", "10.90.0.9"), web)
	b.wantSets(web)
}

func addTwice(b *bench) {
	web := leaf("web", "10.90.0.4")
	b.modify(hns.Add, web)
	err := b.try(hns.Add, leaf("web", "10.90.0.5"))
	b.refused(err, hns.ErrAlreadyExists, "SetPolicy/Add", hns.KindSet, web.ID)
	b.wantSets(web)
}

func removeOfMissing(b *bench) {
	gone := leaf("gone")
	err := b.try(hns.Remove, gone)
	b.refused(err, hns.ErrNotFound, "SetPolicy/Remove", hns.KindSet, gone.ID)
	require.False(b, hns.EndpointGone(err))
}

func listNeedsMembers(b *bench) {
	web := leaf("web")
	b.modify(hns.Add, web)
	group := list("group", web, leaf("gone"))
	err := b.try(hns.Add, group)
	b.refused(err, hns.ErrNotFound, "SetPolicy/Add", hns.KindSet, group.ID)
	b.wantSets(web)

	b.modify(hns.Add, list("group", web))
	err = b.try(hns.Update, group)
	b.refused(err, hns.ErrNotFound, "SetPolicy/Update", hns.KindSet, group.ID)
	b.wantSets(web, list("group", web))
}

func removeOfMember(b *bench) {
	web, db := leaf("web"), leaf("db")
	b.modify(hns.Add, web, db)
	b.modify(hns.Add, list("group", web, db))
	remove := func(p hns.SetPolicy) error { return b.try(hns.Remove, p) }
	b.refused(remove(web), hns.ErrInUse, "SetPolicy/Remove", hns.KindSet, web.ID)

	b.modify(hns.Update, list("group", db))
	require.NoError(b, remove(web), "the list has let it go")
	b.refused(remove(db), hns.ErrInUse, "SetPolicy/Remove", hns.KindSet, db.ID)
	b.modify(hns.Remove, list("group", db))
	require.NoError(b, remove(db), "the list is gone")
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

// malformed asks whether HNS refuses a set.
func malformed(p hns.SetPolicy) func(*bench) {
	return func(b *bench) {
		err := b.try(hns.Add, p)
		b.refused(err, hns.ErrInvalid, "SetPolicy/Add", hns.KindSet, p.ID)
		b.wantSets()
	}
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

// manySets adds 4096 sets, 512 in a request.
func manySets(b *bench) {
	var all []hns.SetPolicy
	for len(all) < 4096 {
		from := len(all)
		for i := range 512 {
			all = append(all, leaf(fmt.Sprint(from+i), "10.90.0.4"))
		}
		b.modify(hns.Add, all[from:]...)
	}
	b.wantSets(all...)
}

func largeSets(b *bench) {
	big := leaf("big")
	for i := range 8192 {
		big.Values = append(big.Values, fmt.Sprintf("10.100.%d.%d", i/250, i%250))
	}
	sets := []hns.SetPolicy{big}
	for i := range 1024 {
		sets = append(sets, leaf(fmt.Sprint(i)))
	}
	all := list("all", sets[1:]...)
	b.modify(hns.Add, sets...)
	b.modify(hns.Add, all)
	b.wantSets(append(sets, all)...)
}

// wantSets checks the suite's sets. The order of values means nothing.
func (b *bench) wantSets(want ...hns.SetPolicy) {
	byID := map[string]hns.SetPolicy{}
	for _, p := range want {
		byID[p.ID] = p
	}
	require.Empty(b, cmp.Diff(byID, b.sets(), cmpopts.SortSlices(strings.Compare), cmpopts.EquateEmpty()))
}
