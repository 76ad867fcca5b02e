package hcsadapter

import (
	"context"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/winnpm/winnpm/pkg/dataplane"
	"github.com/winnpm/winnpm/pkg/desired"
	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/pkg/state"
	"github.com/winnpm/winnpm/test/effort"
	"github.com/winnpm/winnpm/test/hnsfault"
	"github.com/winnpm/winnpm/tool/match"
)

// plays is an agent's dataplane on the networks cbr0 (0) and vxlan0 (1) of a node, in a bubble. The policy
// x/deny lets pods of its namespace in.
type plays struct {
	*twoNetworks
	t  *testing.T
	dp *dataplane.Dataplane
	tx *dataplane.Transaction
}

func inPlays(t *testing.T, play func(p *plays)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { play(newPlays(t)) })
}

func newPlays(t *testing.T) *plays {
	t.Helper()
	p := &plays{twoNetworks: newTwoNetworks(t), t: t, tx: dataplane.NewTransaction()}
	client := newFound(Options{Now: time.Now}, p.twoNetworks)
	t.Cleanup(client.Close)
	p.dp = dataplane.New(dataplane.Config{Client: client, Node: "n1", Now: time.Now})
	client.OnlyOf(p.dp.HasPodAt)
	p.tx.SetNamespace(desired.Namespace{Name: "x"})
	p.tx.SetPolicy(&networkingv1.NetworkPolicy{
		ObjectMeta: metav1.ObjectMeta{Namespace: "x", Name: "deny"},
		Spec:       networkingv1.NetworkPolicySpec{Ingress: []networkingv1.NetworkPolicyIngressRule{{From: []networkingv1.NetworkPolicyPeer{{PodSelector: &metav1.LabelSelector{}}}}}},
	})
	return p
}

// apply has the dataplane work for some time, as the controller does.
func (p *plays) apply(d time.Duration) {
	p.t.Helper()
	for end := time.Now().Add(d); !time.Now().After(end); {
		report, err := p.dp.ApplyDataplane(p.t.Context(), p.tx)
		require.NoError(p.t, err)
		p.tx = dataplane.NewTransaction()
		next := report.Next()
		if next <= 0 || next > time.Second {
			next = time.Second
		}
		time.Sleep(next)
		_, _ = p.dp.Observe(p.t.Context(), dataplane.Look{Enumerate: true}) // one that fails comes again
	}
}

// pod is one of this node, whose CNI told of its sandbox, if it has one.
func (p *plays) pod(addr, sandbox string) {
	p.tx.SetPod(desired.Pod{Namespace: "x", Name: addr, UID: types.UID(addr), Addr: netip.MustParseAddr(addr), Local: true, Sandbox: state.Sandbox{ID: sandbox}})
}

// peer is a pod of another node, which the policy lets in.
func (p *plays) peer(addr string) {
	p.tx.SetPod(desired.Pod{Namespace: "x", Name: addr, UID: types.UID(addr), Addr: netip.MustParseAddr(addr)})
}

func (p *plays) isOpen(network int, addr string) bool { return p.passes("10.3.0.1", network, addr) }

// passes reports whether a packet reaches a pod of this node.
func (p *plays) passes(from string, network int, addr string) bool {
	p.t.Helper()
	v, err := p.nets[network].Trace("ep-"+addr, hns.In, match.Packet{Src: netip.MustParseAddr(from), Dst: netip.MustParseAddr(addr), Protocol: 6, DstPort: 80})
	require.NoError(p.t, err)
	return v.Allowed
}

// ready returns why a pod may not start.
func (p *plays) ready(addr, sandbox string) error {
	ctx, cancel := context.WithCancel(p.t.Context())
	cancel() // no waiting
	return p.dp.WaitReady(ctx, desired.PodKey{Namespace: "x", Name: addr}, types.UID(addr), state.Sandbox{ID: sandbox})
}

// writes returns how often a network was written to.
func (p *plays) writes(network int) (n int) {
	for op, count := range p.nets[network].Counts() {
		if !hnsfault.ReadsOnly(op) {
			n += count
		}
	}
	return n
}

// TestOthersNetwork: a network whose endpoints are of no pod, as of a container that somebody
// runs with docker, is not written to, and what it refuses holds nobody up.
func TestOthersNetwork(t *testing.T) {
	for pods := range 2 {
		inPlays(t, func(p *plays) {
			others := 1 - pods
			p.nets[others].Inject(hnsfault.Fault{Op: hns.OpSets(hns.Add), Times: -1, Err: hns.ErrUnlisted})
			p.endpoint(p.t, others, "172.16.0.2")
			p.endpoint(p.t, pods, "10.1.0.1")
			p.pod("10.1.0.1", "")
			p.apply(2 * time.Second)
			require.False(p.t, p.isOpen(pods, "10.1.0.1"))
			require.NotEmpty(p.t, p.nets[pods].Sets())
			p.apply(time.Duration(effort.Of(10, 60)) * time.Minute)
			require.Zero(p.t, p.writes(others))
		})
	}
}

// TestNetworkOfAStart: the network that a CNI makes with the first pod is found when it tells
// of the pod, though the node had another one before.
func TestNetworkOfAStart(t *testing.T) {
	for seconds := 0; seconds < 30; seconds += effort.Of(7, 1) { // wherever in its backoff
		inPlays(t, func(p *plays) {
			p.endpoint(p.t, 1, "172.16.0.2")
			p.apply(time.Minute + time.Duration(seconds)*time.Second)
			p.endpoint(p.t, 0, "10.1.0.1")
			p.pod("10.1.0.1", "s1")
			p.apply(time.Second)
			require.NoError(p.t, p.ready("10.1.0.1", "s1"))
			require.Zero(p.t, p.writes(1))
		})
	}
}

// TestSecondNetwork: a pod on a network that came later is closed, soon where its CNI told of
// it, and a network stays when its last pod has gone.
func TestSecondNetwork(t *testing.T) {
	for sandbox, within := range map[string]time.Duration{"s1": 3 * time.Second, "": seldomLook + 3*time.Second} {
		inPlays(t, func(p *plays) { p.second(sandbox, within) })
	}
}

func (p *plays) second(sandbox string, within time.Duration) {
	p.endpoint(p.t, 0, "10.1.0.1")
	p.pod("10.1.0.1", "")
	p.apply(5 * time.Second)
	require.False(p.t, p.isOpen(0, "10.1.0.1"))
	p.endpoint(p.t, 1, "10.2.0.1")
	p.pod("10.2.0.1", sandbox)
	p.apply(within)
	require.False(p.t, p.isOpen(1, "10.2.0.1"))
	require.Equal(p.t, p.nets[0].Sets(), p.nets[1].Sets())

	p.deleteEndpoint(p.t, "ep-10.2.0.1")
	p.tx.DeletePod(desired.PodKey{Namespace: "x", Name: "10.2.0.1"})
	p.apply(time.Duration(effort.Of(10, 60)) * time.Minute)
	p.endpoint(p.t, 0, "10.1.0.2")
	p.pod("10.1.0.2", sandbox)
	p.apply(time.Minute)
	require.NotEmpty(p.t, p.nets[1].Sets())
	require.Equal(p.t, p.nets[0].Sets(), p.nets[1].Sets(), "for the next pod")
}

// TestOneNetworkFails: a network that takes no sets does not keep them from the others.
func TestOneNetworkFails(t *testing.T) {
	for bad := range 2 {
		inPlays(t, func(p *plays) {
			for i, addr := range []string{"10.1.0.1", "10.2.0.1"} {
				p.endpoint(p.t, i, addr)
				p.pod(addr, "")
			}
			for _, verb := range []hns.Verb{hns.Add, hns.Update} {
				p.nets[bad].Inject(hnsfault.Fault{Op: hns.OpSets(verb), Times: -1})
			}
			p.apply(time.Minute)
			require.NotEmpty(p.t, p.nets[1-bad].Sets())
			for i, addr := range []string{"10.1.0.1", "10.2.0.1"} {
				require.False(p.t, p.isOpen(i, addr))
			}
		})
	}
}
