//go:build linux

package agent

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/test/windows/hnsd"
)

// host is the HNS of a Windows node. It is part of this process, so that it
// outlives the agent as the real one does.
type host struct {
	*hnsd.Server
	t         *testing.T
	addr      string // where the DLLs find it
	stop      func() // ends the service, as often as one likes
	endpoints map[netip.Addr]string
}

// newHost starts an HNS that runs until the test ends.
func newHost(t *testing.T, o hnsd.Options) *host { return newHostAt(t, "127.0.0.1:0", o) }

func newHostAt(t *testing.T, addr string, o hnsd.Options) *host {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", addr)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background()) // the agent ends first
	ended := make(chan error, 1)
	h := &host{Server: hnsd.New(o), t: t, addr: l.Addr().String(), endpoints: map[netip.Addr]string{}}
	go func() {
		ended <- h.Serve(ctx, l)
		close(ended)
	}()
	h.stop = func() {
		cancel()
		if err, first := <-ended; first {
			require.NoError(t, err)
		}
	}
	t.Cleanup(h.stop)
	return h
}

// plug gives a pod its endpoint, as the CNI does before the pod has an address.
func (h *host) plug(addrs ...netip.Addr) {
	h.t.Helper()
	for _, addr := range addrs {
		id, err := h.CreateEndpoint(addr)
		require.NoError(h.t, err)
		h.endpoints[addr] = id
	}
}

// unplug takes an endpoint away.
func (h *host) unplug(addr netip.Addr) {
	h.t.Helper()
	require.NoError(h.t, h.Sim().DeleteEndpoint(h.endpoints[addr]))
	delete(h.endpoints, addr)
}

// state is what there is in HNS: every set, and every policy by the address of
// its endpoint, whose id is another one on every node. It is sorted.
func (h *host) state() []string {
	return slices.Sorted(slices.Values(append(h.sets(), h.policies()...)))
}

func (h *host) sets() []string {
	var lines []string
	for _, s := range h.Sim().Sets() {
		lines = append(lines, setLine(s))
	}
	return lines
}

func (h *host) policies() []string {
	var lines []string
	for _, e := range h.Sim().Endpoints() {
		ours, foreign := hns.Endpoint{Policies: e.Policies}.Split()
		for _, acl := range ours {
			lines = append(lines, aclLine(e.Addrs, acl))
		}
		for _, p := range foreign {
			lines = append(lines, foreignLine(e.Addrs, p))
		}
	}
	return lines
}

func setLine(s hns.SetPolicy) string {
	return fmt.Sprintf("set %s %s %s %s", s.Name, s.ID, s.Type, slices.Sorted(slices.Values(s.Values)))
}

func aclLine(addrs []netip.Addr, acl hns.ACL) string { return fmt.Sprintf("%v %+v", addrs, acl) }

func foreignLine(addrs []netip.Addr, p hns.EndpointPolicy) string {
	return fmt.Sprintf("%v foreign %s %s", addrs, p.Type, p.Settings)
}

// endpoint returns our rules on the endpoint of an address, and everybody
// else's policies.
func (h *host) endpoint(addr netip.Addr) (ours []hns.ACL, foreign []hns.EndpointPolicy) {
	h.t.Helper()
	for _, e := range h.Sim().Endpoints() {
		if e.ID == h.endpoints[addr] {
			return hns.Endpoint{Policies: e.Policies}.Split()
		}
	}
	require.FailNow(h.t, "no endpoint", "%v", addr)
	return nil, nil
}

// ours returns our rules on the endpoint of an address.
func (h *host) ours(addr netip.Addr) []hns.ACL {
	h.t.Helper()
	acls, _ := h.endpoint(addr)
	return acls
}

// waitState waits until there is this in HNS, and nothing else.
func (h *host) waitState(want func() []string) {
	h.t.Helper()
	eventually(h.t, settle, func() string { return difference(want(), h.state()) })
}

// writes returns how many requests that change something came since the last
// ResetCounts.
func (h *host) writes() int {
	counts := h.Counts()
	return counts["HcnModifyNetwork"] + counts["HcnModifyEndpoint"]
}

// open returns how many handles are open, of all processes ever.
func (h *host) open() int {
	sum := 0
	for _, n := range h.OpenHandles() {
		sum += n
	}
	return sum
}

// waitHandles waits until no handle is open.
func (h *host) waitHandles() {
	h.t.Helper()
	eventually(h.t, settle, func() string {
		if open := h.open(); open > 0 {
			return fmt.Sprintf("%d handles are open; calls that failed: %v", open, h.Failed())
		}
		return ""
	})
}
