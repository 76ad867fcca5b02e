package hcsadapter

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/test/effort"
)

// foundTwo returns the client of a node with pods on two networks, and the set that the tests
// of looks write.
func foundTwo(t *testing.T) (*Found, *twoNetworks) {
	t.Helper()
	two := newTwoNetworks(t)
	client := newFound(Options{Now: time.Now}, two)
	t.Cleanup(client.Close)
	for _, n := range two.nets {
		require.NoError(t, n.ModifySets(t.Context(), hns.Add, []hns.SetPolicy{setOf("first", "10.0.0.1")}))
	}
	_, err := client.Network(t.Context())
	require.NoError(t, err)
	require.Len(t, client.on, 2)
	return client, two
}

func setOf(name, value string) hns.SetPolicy {
	return hns.SetPolicy{ID: "azure-npm-" + name, Name: name, Type: hns.IPSet, Values: []string{value}}
}

// TestLookBesideWrites: reads run concurrently with writes of sets, and no write is lost: every
// network has the result of each successful write.
func TestLookBesideWrites(t *testing.T) {
	client, two := foundTwo(t)
	ctx, cancel := context.WithCancel(t.Context())
	var looks sync.WaitGroup
	for range 4 {
		looks.Go(func() {
			for ctx.Err() == nil {
				_, _ = client.Network(context.WithoutCancel(ctx))
			}
		})
	}
	writes, lost := 0, 0
	has := func(value string) (all bool) {
		all = true
		for _, n := range two.nets {
			held := ""
			for _, s := range n.Sets() {
				if s.ID == setOf("x", "").ID {
					held = s.Values[0]
				}
			}
			all = all && held == value
		}
		return all
	}
	write := func(verb hns.Verb, value string) {
		err := client.ModifySets(t.Context(), verb, []hns.SetPolicy{setOf("x", value)})
		if verb == hns.Remove {
			value = ""
		}
		if writes++; err != nil || !has(value) {
			lost++
		}
	}
	for range effort.Of(40, 3000) {
		write(hns.Add, "10.0.0.2")
		write(hns.Update, "10.0.0.3")
		write(hns.Remove, "10.0.0.3")
	}
	cancel()
	looks.Wait()
	require.Zero(t, lost, "of %d writes", writes)
}

// TestSecondNetworkAfterWrites: the client remembers writes from the time when there was only one
// network. So when a second network appears, an Add does not become an Update of a removed set.
func TestSecondNetworkAfterWrites(t *testing.T) {
	client, two := foundTwo(t)
	both := client.on
	client.set(both[:1])
	x := []hns.SetPolicy{setOf("x", "10.0.0.2")}
	require.NoError(t, client.ModifySets(t.Context(), hns.Add, x))
	_, err := client.Network(t.Context())
	require.NoError(t, err)
	require.NoError(t, client.ModifySets(t.Context(), hns.Remove, x))
	client.set(both)
	require.NoError(t, client.ModifySets(t.Context(), hns.Add, x))
	for _, n := range two.nets {
		require.Contains(t, n.Sets(), x[0])
	}
}
