package recorder

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	networkingv1 "k8s.io/api/networking/v1"

	"github.com/winnpm/winnpm/pkg/dataplane"
	"github.com/winnpm/winnpm/pkg/desired"
	"github.com/winnpm/winnpm/pkg/state"
)

// gated returns a world in which no state is packed before the gate opens.
func gated(t *testing.T, change func(*Config)) (w *world, apply func(name string), open func()) {
	gate := make(chan struct{})
	w = newWorld(t, func(c *Config) {
		c.MaxSteps = 4
		c.Snapshot = func() func() state.Dump {
			dump := w.dp.Snapshot().Dump
			return func() state.Dump {
				<-gate
				return dump()
			}
		}
		if change != nil {
			change(c)
		}
	})
	apply = func(name string) {
		tx := dataplane.NewTransaction()
		tx.SetNamespace(desired.Namespace{Name: name})
		_, err := w.run.ApplyDataplane(t.Context(), tx)
		require.NoError(t, err)
	}
	return w, apply, func() { close(gate) }
}

// Steps wait for no state that is packed; it is that before them all the same.
func TestStepsGoOnWhileTheStateIsPacked(t *testing.T) {
	w, apply, open := gated(t, nil)
	for i := range 11 {
		apply(fmt.Sprint("n", i))
	}
	rec := w.rec.Recording()
	require.Nil(t, rec.Start)
	require.Len(t, rec.Steps, 11, "no other segment begins meanwhile")
	open()
	w.rec.Wait()
	apply("last")
	w.rec.Wait()
	rec = w.rec.Recording()
	require.Equal(t, uint64(4), rec.Forgotten)
	require.Equal(t, []uint64{5, 6, 7, 8, 9, 10, 11, 12}, numbers(rec.Steps))
	require.Len(t, rec.Start.Namespaces, 4)
	require.Len(t, rec.Start.Reports, 4)
}

// A recording that begins with a state waits for it, and for nothing that it does
// not begin with.
func TestRecordingWaitsForItsState(t *testing.T) {
	w, apply, open := gated(t, func(c *Config) { c.MaxBytes = 20_000 })
	apply(strings.Repeat("n", 30_000)) // is not kept
	apply("n")
	made := make(chan Recording)
	go func() { made <- w.rec.Recording() }()
	select {
	case <-made:
		t.Fatal("it has no state")
	default:
	}
	open()
	rec := <-made
	require.Equal(t, []uint64{2}, numbers(rec.Steps))
	require.Len(t, rec.Start.Namespaces, 1)
	w.rec.Wait()
}

// What becomes too large while its state is packed is lost, and what comes after
// it is not.
func TestLostWhileTheStateIsPacked(t *testing.T) {
	w, apply, open := gated(t, func(c *Config) { c.MaxBytes = 20_000 })
	for i := range 5 {
		apply(fmt.Sprint("n", i))
	}
	apply(strings.Repeat("n", 30_000))
	require.Empty(t, w.rec.Recording().Steps)
	apply("more")
	open()
	w.rec.Wait()
	require.Empty(t, w.rec.Recording().Steps)
	apply("after")
	w.rec.Wait()
	rec := w.rec.Recording()
	require.Equal(t, []uint64{8}, numbers(rec.Steps))
	require.Len(t, rec.Start.Namespaces, 7)
}

func TestPack(t *testing.T) {
	for _, d := range []state.Dump{
		{},
		{Node: "n", Sets: []state.Set{}, Pods: []state.Pod{}, Policies: []state.Policy{}, Endpoints: []state.Endpoint{}},
		{
			Node: "n", Sets: make([]state.Set, packed), Pods: make([]state.Pod, 2*packed+1),
			Policies:  []state.Policy{{Policy: "x/p", Spec: &networkingv1.NetworkPolicySpec{}}, {Policy: "x/q"}},
			Endpoints: []state.Endpoint{{ID: "e"}},
		},
	} {
		text, err := pack(d)
		require.NoError(t, err)
		require.Empty(t, cmp.Diff(&d, (&start{text: text}).unpack()))
	}
}
