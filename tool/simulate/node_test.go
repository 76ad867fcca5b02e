package simulate

import (
	"context"
	"net/netip"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"

	"github.com/winnpm/winnpm/pkg/dataplane"
	"github.com/winnpm/winnpm/pkg/desired"
	"github.com/winnpm/winnpm/pkg/state"
	"github.com/winnpm/winnpm/tool/hnssim"
)

// passed is an Applier that remembers which endpoints there were when a
// transaction came by.
type passed struct {
	sim  *hnssim.Sim
	seen []string
}

func (p *passed) ApplyDataplane(context.Context, *dataplane.Transaction) (state.Report, error) {
	p.seen = nil
	for _, e := range p.sim.Endpoints() {
		p.seen = append(p.seen, e.Addrs[0].String()+" "+e.ID)
	}
	return state.Report{}, nil
}

func TestNodePlaysTheCNI(t *testing.T) {
	sim := hnssim.New(hnssim.Options{Foreign: hnssim.DefaultForeign()})
	next := &passed{sim: sim}
	n := newNode(next, sim)
	pod := func(uid, ip string) desired.Pod {
		p := desired.Pod{Namespace: "x", Name: "a", UID: types.UID(uid), Local: true}
		if ip != "" {
			p.Addr = netip.MustParseAddr(ip)
		}
		return p
	}
	change := func(p desired.Pod, edit func(*desired.Pod)) desired.Pod {
		edit(&p)
		return p
	}
	first := "10.0.0.1 " + endpointID(pod("1", "10.0.0.1"))
	require.Regexp(t, `^10.0.0.1 [0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$`, first)
	for _, step := range []struct {
		name string
		pod  desired.Pod
		want []string
	}{
		{"no address yet", pod("1", ""), nil},
		{"an address", pod("1", "10.0.0.1"), []string{first}},
		{"nothing new", pod("1", "10.0.0.1"), []string{first}},
		{"another sandbox", pod("1", "10.0.0.2"), []string{"10.0.0.2 " + endpointID(pod("1", "10.0.0.2"))}},
		{"another pod of the name", pod("2", "10.0.0.2"), []string{"10.0.0.2 " + endpointID(pod("2", "10.0.0.2"))}},
		{"finished", change(pod("2", "10.0.0.2"), func(p *desired.Pod) { p.Finished = true }), nil},
		{"of another node", change(pod("3", "10.0.0.3"), func(p *desired.Pod) { p.Local = false }), nil},
		{"host network", change(pod("4", "10.0.0.3"), func(p *desired.Pod) { p.HostNetwork = true }), nil},
		{"terminating", change(pod("1", "10.0.0.1"), func(p *desired.Pod) { p.Deleting = true }), []string{first}},
	} {
		tx := dataplane.NewTransaction()
		tx.SetPod(step.pod)
		_, err := n.ApplyDataplane(t.Context(), tx)
		require.NoError(t, err, step.name)
		require.Equal(t, step.want, next.seen, step.name)
	}
	tx := dataplane.NewTransaction()
	tx.DeletePod(desired.PodKey{Namespace: "x", Name: "a"})
	_, err := n.ApplyDataplane(t.Context(), tx)
	require.NoError(t, err)
	require.Empty(t, next.seen, "deleted before the transaction goes on")
	require.Empty(t, sim.Counts(), "the CNI's hand is not counted")
}

func TestNodeReportsWhatTheCNICannotDo(t *testing.T) {
	sim := hnssim.New(hnssim.Options{})
	n := newNode(&passed{sim: sim}, sim)
	pod := desired.Pod{Namespace: "x", Name: "a", UID: "1", Local: true, Addr: netip.MustParseAddr("10.0.0.1")}
	require.NoError(t, sim.CreateEndpoint(hnssim.NewEndpoint{ID: endpointID(pod), Addrs: []netip.Addr{pod.Addr}}))
	tx := dataplane.NewTransaction()
	tx.SetPod(pod)
	_, err := n.ApplyDataplane(t.Context(), tx)
	require.ErrorContains(t, err, "endpoint of pod x/a: ")
}

// during is an applier whose transaction lasts until somebody is done, or for a while.
type during struct {
	began, others chan struct{}
	ended         atomic.Bool
}

func (d *during) ApplyDataplane(context.Context, *dataplane.Transaction) (state.Report, error) {
	close(d.began)
	select {
	case <-d.others:
	case <-time.After(100 * time.Millisecond):
	}
	d.ended.Store(true)
	return state.Report{}, nil
}

// TestLastMoment: what is printed at the end is of no half transaction, and none follows it.
func TestLastMoment(t *testing.T) {
	sim := hnssim.New(hnssim.Options{})
	d := &during{began: make(chan struct{}), others: make(chan struct{})}
	n := newNode(d, sim)
	first := make(chan error)
	go func() {
		_, err := n.ApplyDataplane(t.Context(), dataplane.NewTransaction())
		first <- err
	}()
	<-d.began
	n.end()
	close(d.others)
	require.True(t, d.ended.Load(), "it waits for the transaction that runs")
	require.NoError(t, <-first)

	ctx, cancel := context.WithCancel(t.Context())
	second := make(chan error)
	go func() {
		tx := dataplane.NewTransaction()
		tx.SetPod(desired.Pod{Namespace: "x", Name: "a", UID: "1", Local: true, Addr: netip.MustParseAddr("10.0.0.1")})
		_, err := n.ApplyDataplane(ctx, tx)
		second <- err
	}()
	cancel()
	require.ErrorIs(t, <-second, context.Canceled)
	require.Empty(t, sim.Endpoints())
}
