package desired

import (
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/winnpm/winnpm/pkg/ipsets"
	"github.com/winnpm/winnpm/pkg/policy"
	"github.com/winnpm/winnpm/pkg/progress"
)

// newTestState returns a State of an empty cluster with the usual budgets.
func newTestState() *State {
	return New(Settings{Budgets: policy.DefaultBudgets()}, ipsets.NewCache(), progress.New(time.Now))
}

// denyAll is a policy that selects every pod of a namespace, and allows nothing.
func denyAll(namespace, name string) *networkingv1.NetworkPolicy {
	return &networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
}

// TestEffects: what is staged says which endpoints it concerns, once.
func TestEffects(t *testing.T) {
	d := newTestState()
	stage := func(do func(*Objects)) Effects {
		in := NewObjects()
		do(&in)
		d.Stage(&in, time.Time{})
		return d.TakeEffects()
	}
	here, there := netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.0.0.2")
	pod := Pod{Namespace: "x", Name: "web", UID: "1", Addr: here, Local: true}
	came := stage(func(o *Objects) { o.SetPod(pod) })
	require.Contains(t, came.Changed, here)
	require.True(t, came.Check[here], "what is there may be another one")
	require.Len(t, came.Came, 1)
	require.Equal(t, types.UID("1"), came.Came[0].UID)
	require.Zero(t, d.TakeEffects(), "they were taken")

	require.Zero(t, stage(func(o *Objects) { o.SetPod(pod) }), "the same again")
	require.Zero(t, stage(func(o *Objects) { o.SetPod(Pod{Namespace: "x", Name: "far", UID: "2", Addr: there}) }), "a pod of another node")

	selects := stage(func(o *Objects) { o.SetPolicy(denyAll("x", "p")) })
	require.Equal(t, map[netip.Addr][]policy.Key{here: {{Namespace: "x", Name: "p"}}}, selects.Changed)
	require.Zero(t, stage(func(o *Objects) { o.SetPolicy(denyAll("y", "p")) }), "a policy that selects nobody here")
	require.True(t, stage(func(o *Objects) { o.SetNodeAddrs([]netip.Addr{there}) }).All)

	gone := stage(func(o *Objects) { o.DeletePod(pod.Key()) })
	require.Contains(t, gone.Changed, here)
	require.True(t, gone.Check[here], "is its endpoint gone too?")
	require.Empty(t, gone.Came)
}
