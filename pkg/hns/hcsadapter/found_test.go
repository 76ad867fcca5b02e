package hcsadapter

import (
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
	"github.com/winnpm/winnpm/test/windows/hnsd"
	"github.com/winnpm/winnpm/tool/hnssim"
	"github.com/winnpm/winnpm/tool/match"
)

// twoNetworks is a node with pods on the networks cbr0 (0) and vxlan0 (1).
type twoNetworks struct {
	*simNode
	nets [2]*hnsfault.Sim
}

func newTwoNetworks(t *testing.T) *twoNetworks {
	t.Helper()
	two := &twoNetworks{simNode: newSimNode(t, hnsd.Options{Bare: true})}
	for i, name := range []string{"cbr0", "vxlan0"} {
		var err error
		two.nets[i], err = two.AddNetwork("", name, "L2Bridge")
		require.NoError(t, err)
	}
	return two
}

// endpoint makes the endpoint of a pod on one of the networks.
func (w *twoNetworks) endpoint(t *testing.T, network int, addr string) {
	t.Helper()
	name := []string{"cbr0", "vxlan0"}[network]
	require.NoError(t, w.AddEndpoint(hnssim.NewEndpoint{ID: "ep-" + addr, Network: name, Addrs: []netip.Addr{netip.MustParseAddr(addr)}}))
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
		two.endpoint(t, i, addr)
	}
	passes := func(from string) (out [2]bool) {
		for i, addr := range pods {
			v, err := two.nets[i].Trace("ep-"+addr, hns.In, match.Packet{Src: netip.MustParseAddr(from), Dst: netip.MustParseAddr(addr), Protocol: 6, DstPort: 80})
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
	require.Equal(t, two.nets[0].Sets(), two.nets[1].Sets())
	require.NotEmpty(t, two.nets[0].Sets())
	require.Empty(t, look().Plan, "nothing is to be written")

	// One network loses a member.
	broken := two.nets[1].Sets()
	broken[0].Values = nil
	require.NoError(t, two.nets[1].ModifySets(t.Context(), hns.Update, broken[:1]))
	require.Equal(t, [2]bool{true, false}, passes("10.3.0.1"))
	look()
	require.Equal(t, [2]bool{true, true}, passes("10.3.0.1"))
	require.Equal(t, two.nets[0].Sets(), two.nets[1].Sets())

	// A network whose sets cannot be written for a while.
	two.nets[1].Inject(hnsfault.Fault{Op: hns.OpSets(hns.Update), Times: 3})
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
		require.Empty(t, n.Sets())
	}
	require.Equal(t, [2]bool{true, true}, passes("10.9.9.9"))
}
