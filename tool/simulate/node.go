package simulate

import (
	"context"
	"crypto/sha256"
	"fmt"
	"net/netip"
	"sync"

	"github.com/winnpm/winnpm/pkg/controllers"
	"github.com/winnpm/winnpm/pkg/dataplane"
	"github.com/winnpm/winnpm/pkg/desired"
	"github.com/winnpm/winnpm/pkg/state"
	"github.com/winnpm/winnpm/tool/hnssim"
)

// node plays the kubelet and the CNI: before a transaction goes on, the
// simulated endpoints are those of its pods.
type node struct {
	next controllers.Applier
	sim  *hnssim.Sim

	// mu guards following. It is held for a whole transaction, so that who holds
	// it sees the simulated node standing still.
	mu        sync.Mutex
	endpoints map[desired.PodKey]string // id of the pod's endpoint
	ended     bool                      // no transaction begins any more
}

func newNode(next controllers.Applier, sim *hnssim.Sim) *node {
	return &node{next: next, sim: sim, endpoints: map[desired.PodKey]string{}}
}

// end makes that no transaction begins any more, whatever a live cluster tells.
func (n *node) end() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.ended = true
}

// ApplyDataplane implements controllers.Applier. When no transaction begins any more, it waits
// for the end of ctx.
func (n *node) ApplyDataplane(ctx context.Context, tx *dataplane.Transaction) (state.Report, error) {
	n.mu.Lock()
	if n.ended {
		n.mu.Unlock()
		<-ctx.Done()
		return state.Report{}, ctx.Err()
	}
	defer n.mu.Unlock()
	for key, pod := range tx.Pods() {
		if err := n.play(key, pod); err != nil {
			return state.Report{}, fmt.Errorf("endpoint of pod %s: %w", key, err)
		}
	}
	return n.next.ApplyDataplane(ctx, tx)
}

// play gives a pod its endpoint or takes it away. A pod that got another UID or
// address has another sandbox, and with it another endpoint.
func (n *node) play(key desired.PodKey, pod *desired.Pod) error {
	id := ""
	if pod != nil && pod.Local && !pod.HostNetwork && !pod.Finished && pod.Addr.IsValid() {
		id = endpointID(*pod)
	}
	have := n.endpoints[key]
	if have == id {
		return nil
	}
	if have != "" {
		if err := n.sim.DeleteEndpoint(have); err != nil {
			return err
		}
		delete(n.endpoints, key)
	}
	if id == "" {
		return nil
	}
	if err := n.sim.CreateEndpoint(hnssim.NewEndpoint{ID: id, Addrs: []netip.Addr{pod.Addr}}); err != nil {
		return err
	}
	n.endpoints[key] = id
	return nil
}

// endpointID makes a GUID that is the same in every run.
func endpointID(pod desired.Pod) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s %s %s", pod.Key(), pod.UID, pod.Addr))
	return fmt.Sprintf("%x-%x-%x-%x-%x", sum[0:4], sum[4:6], sum[6:8], sum[8:10], sum[10:16])
}
