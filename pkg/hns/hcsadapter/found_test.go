package hcsadapter

import (
	"context"
	"encoding/json"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/winnpm/winnpm/pkg/dataplane"
	"github.com/winnpm/winnpm/pkg/desired"
	"github.com/winnpm/winnpm/pkg/hns"
	netpol "github.com/winnpm/winnpm/pkg/policy"
	"github.com/winnpm/winnpm/pkg/state"
	"github.com/winnpm/winnpm/test/hnsfault"
	"github.com/winnpm/winnpm/test/looks"
	"github.com/winnpm/winnpm/tool/hnssim"
	"github.com/winnpm/winnpm/tool/match"
)

// twoNetworks is a node with pods on two networks: a simulator for each, as one library.
type twoNetworks struct {
	nets    [2]*simLibrary
	handles []struct {
		of *simLibrary
		h  handle
	}
}

func newTwoNetworks(t *testing.T) *twoNetworks {
	t.Helper()
	two := &twoNetworks{}
	for i, name := range []string{"cbr0", "vxlan0"} {
		two.nets[i] = &simLibrary{
			ctx: context.WithoutCancel(t.Context()), sim: hnsfault.New(hnsfault.Options{Network: name}), id: []string{"11", "22"}[i],
			opened: map[handle]string{}, name: name,
		}
	}
	return two
}

func (w *twoNetworks) enumerate(k kind, query string) (string, error) {
	all := []string{}
	for _, n := range w.nets {
		var ids []string
		text, err := n.enumerate(k, query)
		if err == nil {
			err = json.Unmarshal([]byte(text), &ids)
		}
		if err != nil {
			return "", err
		}
		all = append(all, ids...)
	}
	return encode(all)
}

func (w *twoNetworks) open(k kind, id string) (handle, error) {
	var err error
	for _, n := range w.nets {
		var h handle
		if h, err = n.open(k, id); err == nil {
			w.handles = append(w.handles, struct {
				of *simLibrary
				h  handle
			}{n, h})
			return handle(len(w.handles)), nil
		}
	}
	return 0, err
}

func (w *twoNetworks) query(k kind, h handle, query string) (string, error) {
	of := w.handles[h-1]
	return of.of.query(k, of.h, query)
}

func (w *twoNetworks) modify(k kind, h handle, request string) error {
	of := w.handles[h-1]
	return of.of.modify(k, of.h, request)
}

func (w *twoNetworks) close(k kind, h handle) error {
	of := w.handles[h-1]
	return of.of.close(k, of.h)
}

// TestSeveralNetworks: pods on two networks at once have their policies, sets are on both
// networks, what one of them loses comes back, and one that fails does not stop the other
// for good.
func TestSeveralNetworks(t *testing.T) {
	two := newTwoNetworks(t)
	client := newFound(Options{Now: time.Now}, two)
	defer client.Close()
	now := time.Unix(1_800_000_000, 0)
	dp := dataplane.New(dataplane.Config{Client: client, Node: "n1", Now: func() time.Time { return now }})
	settle := func(tx *dataplane.Transaction) (report state.Report) {
		for range 40 {
			var err error
			report, err = dp.ApplyDataplane(t.Context(), tx)
			require.NoError(t, err)
			if tx = dataplane.NewTransaction(); report.Converged() {
				return report
			}
			now = now.Add(max(report.Next(), time.Millisecond))
		}
		t.Fatalf("does not settle: %v", report.Errors)
		return report
	}
	look := func() state.Report {
		_, err := dp.Observe(t.Context(), looks.All(dp))
		require.NoError(t, err)
		return settle(dataplane.NewTransaction())
	}
	pods := []string{"10.1.0.1", "10.2.0.1"}
	for i, addr := range pods {
		require.NoError(t, two.nets[i].sim.CreateEndpoint(hnssim.NewEndpoint{ID: "ep-" + addr, Addrs: []netip.Addr{netip.MustParseAddr(addr)}}))
	}
	passes := func(from string) (out [2]bool) {
		for i, addr := range pods {
			v, err := two.nets[i].sim.Trace("ep-"+addr, hns.In, match.Packet{Src: netip.MustParseAddr(from), Dst: netip.MustParseAddr(addr), Protocol: 6, DstPort: 80})
			require.NoError(t, err)
			out[i] = v.Allowed
		}
		return out
	}
	tx := dataplane.NewTransaction()
	tx.SetNamespace(desired.Namespace{Name: "x"})
	for _, addr := range append(slices.Clone(pods), "10.3.0.1") {
		app := map[bool]string{true: "api", false: "web"}[addr == "10.3.0.1"]
		tx.SetPod(desired.Pod{Namespace: "x", Name: app + addr, UID: types.UID(addr), Labels: map[string]string{"app": app}, Addr: netip.MustParseAddr(addr), Local: app == "web"})
	}
	tx.SetPolicy(&networkingv1.NetworkPolicy{
		ObjectMeta: metav1.ObjectMeta{Namespace: "x", Name: "p"},
		Spec: networkingv1.NetworkPolicySpec{
			PodSelector: metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}},
			Ingress:     []networkingv1.NetworkPolicyIngressRule{{From: []networkingv1.NetworkPolicyPeer{{PodSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "api"}}}}}},
		},
	})
	settle(tx)
	require.Equal(t, [2]bool{true, true}, passes("10.3.0.1"))
	require.Equal(t, [2]bool{}, passes("10.3.0.2"))
	require.Equal(t, two.nets[0].sim.Sets(), two.nets[1].sim.Sets())
	require.NotEmpty(t, two.nets[0].sim.Sets())
	require.Empty(t, look().Plan, "nothing is to be written")

	// One network loses a member.
	broken := two.nets[1].sim.Sets()
	broken[0].Values = nil
	require.NoError(t, two.nets[1].sim.ModifySets(t.Context(), hns.Update, broken[:1]))
	require.Equal(t, [2]bool{true, false}, passes("10.3.0.1"))
	look()
	require.Equal(t, [2]bool{true, true}, passes("10.3.0.1"))
	require.Equal(t, two.nets[0].sim.Sets(), two.nets[1].sim.Sets())

	// A network whose sets cannot be written for a while.
	two.nets[1].sim.Inject(hnsfault.Fault{Op: hns.OpSets(hns.Update), Times: 3})
	tx = dataplane.NewTransaction()
	tx.SetPod(desired.Pod{Namespace: "x", Name: "api2", UID: "api2", Labels: map[string]string{"app": "api"}, Addr: netip.MustParseAddr("10.3.0.2")})
	settle(tx)
	require.Equal(t, [2]bool{true, true}, passes("10.3.0.2"))

	// All goes: nothing of ours is left on either.
	tx = dataplane.NewTransaction()
	tx.DeletePolicy(netpol.Key{Namespace: "x", Name: "p"})
	settle(tx)
	now = now.Add(time.Hour)
	settle(dataplane.NewTransaction())
	for _, n := range two.nets {
		require.Empty(t, n.sim.Sets())
	}
	require.Equal(t, [2]bool{true, true}, passes("10.9.9.9"))
}
