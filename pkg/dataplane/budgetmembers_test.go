package dataplane_test

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"github.com/winnpm/winnpm/pkg/dataplane"
	"github.com/winnpm/winnpm/pkg/desired"
	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/pkg/policy"
	"github.com/winnpm/winnpm/pkg/state"
	"github.com/winnpm/winnpm/test/hnsfault"
	"github.com/winnpm/winnpm/tool/hnssim"
)

// crowdedWorld is a node with the pods x/web, x/db and y/web, and 50 pods of other nodes
// in the namespace z.
type crowdedWorld struct {
	overWorld
	tx *dataplane.Transaction
}

func newCrowdedWorld(t *testing.T, b policy.Budgets) *crowdedWorld {
	sim := hnsfault.New(hnsfault.Options{})
	now := func() time.Time { return time.Unix(1_700_000_000, 0) }
	w := &crowdedWorld{overWorld{t, sim, dataplane.New(dataplane.Config{Client: sim, Now: now, Budgets: b})}, dataplane.NewTransaction()}
	for _, ns := range []string{"x", "y", "z"} {
		w.tx.SetNamespace(desired.Namespace{Name: ns, Labels: map[string]string{"kubernetes.io/metadata.name": ns}})
	}
	for name, addr := range map[string]string{"x/web": "10.0.0.1", "x/db": "10.0.0.2", "y/web": "10.0.0.3"} {
		require.NoError(t, sim.CreateEndpoint(hnssim.NewEndpoint{ID: name, Addrs: []netip.Addr{mustAddr(addr)}}))
		ns, pod, _ := strings.Cut(name, "/")
		w.tx.SetPod(desired.Pod{
			Namespace: ns, Name: pod, UID: types.UID(name), Addr: mustAddr(addr), Local: true, Labels: map[string]string{"app": pod},
		})
	}
	w.others(0, 50)
	return w
}

func (w *crowdedWorld) others(from, to int) {
	for i := from; i < to; i++ {
		name := fmt.Sprint("p", i)
		w.tx.SetPod(desired.Pod{Namespace: "z", Name: name, UID: types.UID(name), Addr: mustAddr(fmt.Sprintf("10.1.0.%d", i+1))})
	}
}

// policy sets one on the pods of an app: its peers are as many selectors, each of all
// pods of z.
func (w *crowdedWorld) policy(key, app string, selectors int) {
	var peers []string
	for i := range selectors {
		peers = append(peers, fmt.Sprintf(
			"{namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: z}}, podSelector: {matchExpressions: [{key: %s%d, operator: DoesNotExist}]}}",
			strings.ReplaceAll(key, "/", "-"), i))
	}
	np := &networkingv1.NetworkPolicy{}
	np.Namespace, np.Name, _ = strings.Cut(key, "/")
	require.NoError(w.t, yaml.UnmarshalStrict(fmt.Appendf(nil, "podSelector: {matchLabels: {app: %s}}\ningress: [{from: [%s]}]", app, strings.Join(peers, ", ")), &np.Spec))
	w.tx.SetPolicy(np)
}

// closed applies what was set and returns the policies that have no room.
func (w *crowdedWorld) closed() (out []string) {
	report, err := w.dp.ApplyDataplane(w.t.Context(), w.tx)
	require.NoError(w.t, err)
	require.True(w.t, report.Converged(), "%v", report.Errors)
	w.tx = dataplane.NewTransaction()
	for _, warning := range report.Warnings {
		require.Equal(w.t, state.ReasonOverBudget, warning.Reason)
		require.Contains(w.t, warning.Message, "(MaxMembersPerNamespace)")
		out = append(out, warning.Object)
	}
	return out
}

func (w *crowdedWorld) lets(ep string) bool {
	e, _ := w.sim.Endpoint(ep)
	return w.allows(ep, hns.In, "10.1.0.1", e.Addrs[0].String())
}

// What the selectors of a namespace match is bounded: its heaviest policies close, in
// whatever order they came, other namespaces' never, and they open when there is room.
func TestMembersOfANamespace(t *testing.T) {
	// A selector of all 53 pods weighs 309, that of the namespace 257.
	budgets := policy.Budgets{NamespaceMembers: 1300}
	for _, heavyFirst := range []bool{false, true} {
		w := newCrowdedWorld(t, budgets)
		w.policy("y/heavy", "web", 3)
		if heavyFirst {
			w.policy("x/heavy", "web", 3)
			require.Empty(t, w.closed())
			require.True(t, w.lets("x/web"))
		}
		w.policy("x/light", "db", 2)
		w.policy("x/heavy", "web", 3)
		require.Equal(t, []string{"x/heavy"}, w.closed())
		require.False(t, w.lets("x/web"), "it isolates and allows nothing")
		require.True(t, w.lets("x/db"))
		require.True(t, w.lets("y/web"))

		w.tx.DeletePolicy(policy.Key{Namespace: "x", Name: "light"})
		require.Empty(t, w.closed(), "there is room again")
		require.True(t, w.lets("x/web"))

		w.others(50, 200)
		require.Equal(t, []string{"x/heavy", "y/heavy"}, w.closed(), "the pods became more")
		require.False(t, w.lets("x/web"))
		w.policy("x/heavy", "web", 2)
		require.Equal(t, []string{"y/heavy"}, w.closed())
		require.True(t, w.lets("x/web"))
		w.tx.DeletePolicy(policy.Key{Namespace: "y", Name: "heavy"})
		require.Empty(t, w.closed())
	}
}

// Which policies stay follows from their texts: pods that come make nobody change
// places, and when they have gone a policy that changes opens them again.
func TestMembersOrder(t *testing.T) {
	w := newCrowdedWorld(t, policy.Budgets{NamespaceMembers: 1250})
	w.policy("x/light", "db", 2)
	w.policy("x/heavy", "web", 3)
	require.Equal(t, []string{"x/heavy"}, w.closed())
	w.others(50, 250)
	require.Equal(t, []string{"x/heavy", "x/light"}, w.closed(), "the heavy one does not come in on what it weighed")
	for i := 50; i < 250; i++ {
		w.tx.DeletePod(desired.PodKey{Namespace: "z", Name: fmt.Sprint("p", i)})
	}
	w.policy("x/touch", "db", 0)
	require.Equal(t, []string{"x/heavy"}, w.closed())
	require.True(t, w.lets("x/db"))
}

// Pods that are in no set weigh nothing, however many have finished.
func TestMembersAreThoseOfSets(t *testing.T) {
	w := newCrowdedWorld(t, policy.Budgets{NamespaceMembers: 1300})
	for i := range 200 {
		name := fmt.Sprint("job", i)
		w.tx.SetPod(desired.Pod{Namespace: "z", Name: name, UID: types.UID(name), Addr: mustAddr(fmt.Sprintf("10.2.0.%d", i+1)), Finished: true})
	}
	w.policy("x/heavy", "web", 3)
	require.Empty(t, w.closed())
}

// A policy that has no room costs what its text costs, whatever its selectors match.
func TestMembersThatHaveNoRoom(t *testing.T) {
	w := newCrowdedWorld(t, policy.Budgets{NamespaceMembers: 3000})
	w.policy("x/heavy", "web", 1000)
	require.Equal(t, []string{"x/heavy"}, w.closed())
	require.Empty(t, w.dp.Dump().Sets)
}
