//go:build linux

package agent

import (
	"context"
	"net"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/test/hnsfault"
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

// writes returns how many requests that change something came so far.
func (h *host) writes() int {
	counts := h.Counts()
	return counts["HcnModifyNetwork"] + counts["HcnModifyEndpoint"]
}

// atWrite calls do before the nth write of rules from now on.
func (h *host) atWrite(nth int, do func()) {
	var seen atomic.Int32
	h.Sim().OnCall(func(c hnsfault.Call, when hnsfault.When) {
		if when == hnsfault.Before && strings.HasPrefix(c.Op, "ACL/") && int(seen.Add(1)) == nth {
			do()
		}
	})
}

// takes sets how long HNS takes for each call of the DLLs that a request is made of, 0 at first.
func (h *host) takes(each time.Duration) {
	h.Sim().SetPersonality(hnsfault.Personality{Latency: each})
}
