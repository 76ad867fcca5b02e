package main

import (
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/pkg/node"
	"github.com/winnpm/winnpm/test/hnsfault"
	"github.com/winnpm/winnpm/tool/hnssim"
	"github.com/winnpm/winnpm/tool/match"
)

// denyX isolates all pods of x.
const denyX = `[{"metadata":{"namespace":"x","name":"deny","uid":"u1"},"spec":{"podSelector":{}}}]`

// podClaim is a claim for a pod of apiServer's node.
func podClaim(pod string, wait time.Duration) node.Claim {
	return node.Claim{
		UID: map[string]string{"a": "u"}[pod], Namespace: "x", Name: pod, ContainerID: "s1",
		Addresses: []netip.Addr{netip.MustParseAddr("10.0.0.1")}, Wait: wait,
	}
}

// TestStartAnswersClaims: the agent answers a claim when the endpoint is isolated, and tells of a pod that
// started without, in its log and in its metrics.
func TestStartAnswersClaims(t *testing.T) {
	early := func(fake *fakeService) { fake.SetPersonality(hnsfault.Personality{Early: true}) }
	startInMemory(t, denyX, early, func(t *testing.T, m *inMemory) {
		require.Equal(t, `\\.\pipe\test`, m.log("answering the CNI plugin")["pipe"])
		require.NoError(t, m.fake.CreateEndpoint(hnssim.SimEndpoint{ID: "e1", Addrs: []netip.Addr{netip.MustParseAddr("10.0.0.1")}, State: hnssim.Created}))

		answer, err := node.Ask(t.Context(), m.pipe.Dial, podClaim("a", 20*time.Second))
		require.NoError(t, err)
		require.True(t, answer.Ready)
		v, err := m.fake.Trace("e1", hns.In, match.Packet{Src: netip.MustParseAddr("10.0.9.9"), Dst: netip.MustParseAddr("10.0.0.1"), Protocol: 6, DstPort: 80})
		require.NoError(t, err)
		require.False(t, v.Allowed)

		answer, err = node.Ask(t.Context(), m.pipe.Dial, podClaim("nobody", time.Second))
		require.ErrorIs(t, err, node.ErrRefused)
		require.Equal(t, node.CodeLate, answer.Code)
		require.Equal(t, "the watch of the API server does not show it on this node", m.log("a pod started without its rules")["why"])
		strict := podClaim("nobody", time.Second)
		strict.Strict = true
		_, err = node.Ask(t.Context(), m.pipe.Dial, strict)
		require.ErrorIs(t, err, node.ErrRefused)
		m.log("a pod does not start, as it has not its rules")
		none := strict
		none.Name, none.UID, none.Addresses = "a", "u", nil
		_, err = node.Ask(t.Context(), m.pipe.Dial, none)
		require.ErrorIs(t, err, node.ErrRefused)

		page := httptest.NewRecorder()
		m.metrics.NodePage().ServeHTTP(page, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil))
		for result, n := range map[string]string{"ready": "1", "late": "2", "failed": "1", "hung_up": "0"} {
			require.Contains(t, page.Body.String(), `npm_cni_claims_total{result="`+result+`"} `+n)
		}
	})
}

// noNetwork has HNS know no network, as before the first pod of a node.
func noNetwork(fake *fakeService) {
	fake.gone = &hns.OpError{Op: "Network/Get", Kind: hns.KindNetwork, ID: "azure", Err: hns.ErrNotFound}
}

// TestStartAnswersBeforeTheNetwork: a claim waits for an agent that waits for the network, which the
// first pod's CNI may be making.
func TestStartAnswersBeforeTheNetwork(t *testing.T) {
	startInMemory(t, "[]", noNetwork, func(t *testing.T, m *inMemory) {
		m.log("waiting for the HNS network")
		answers := make(chan error, 1)
		go func() {
			claim := podClaim("a", 30*time.Second)
			claim.Addresses[0] = netip.MustParseAddr("10.0.0.2") // the API server tells that of an older sandbox
			_, err := node.Ask(t.Context(), m.pipe.Dial, claim)
			answers <- err
		}()
		time.Sleep(time.Second)
		require.NoError(t, m.fake.CreateEndpoint(hnssim.SimEndpoint{ID: "e1", Addrs: []netip.Addr{netip.MustParseAddr("10.0.0.2")}}))
		require.Empty(t, answers)
		m.fake.set(func() { m.fake.gone = nil })
		require.NoError(t, <-answers)
	})
}

// TestStartWithATakenPipe: an agent without its pipe programs the node, says so, and answers
// when it has the pipe. Without a path it asks for none.
func TestStartWithATakenPipe(t *testing.T) {
	tries := 0
	taken := func(fake *fakeService) {
		free := fake.pipe
		fake.pipe = func(path string) (net.Listener, error) {
			if tries++; tries < 3 {
				return nil, errors.New("somebody else has it")
			}
			return free(path)
		}
	}
	startInMemory(t, "[]", taken, func(t *testing.T, m *inMemory) {
		require.Equal(t, "somebody else has it", m.log("the CNI plugin gets no answers, trying again")["err"])
		synctest.Wait()
		require.NoError(t, m.pages().Ready())
		began := time.Now()
		m.log("answering the CNI plugin")
		require.Equal(t, 2*pipeAgain, time.Since(began))
	})

	fake := newFake()
	fake.pipe = func(string) (net.Listener, error) { return nil, errors.New("BUG: asked") }
	s := start(t, fake, `{"CNIPipe":""}`)
	s.becomes("/readyz", 200, "ok\n")
	s.end()
}
