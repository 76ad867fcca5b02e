package main

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/klog/v2"

	"github.com/winnpm/winnpm/pkg/doctor"
	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/pkg/hns/canary"
	"github.com/winnpm/winnpm/pkg/hns/hnssim"
	"github.com/winnpm/winnpm/test/windows/hnsd"
)

// isolating selects the pod of apiServer, and needs a set.
const isolating = `[{"metadata":{"namespace":"x","name":"p","uid":"u7"},"spec":{"podSelector":{},"ingress":[{"from":[{"podSelector":{"matchLabels":{"a":"b"}}}]}]}}]`

// isolated runs npm start on a node whose pod is isolated, until it is ready.
func isolated(t *testing.T, fake *fakeService, ready string) *started {
	t.Helper()
	if len(fake.Endpoints()) == 0 {
		require.NoError(t, fake.CreateEndpoint(hnssim.NewEndpoint{ID: "e1", Addrs: []netip.Addr{netip.MustParseAddr("10.0.0.1")}}))
	}
	s := start(t, fake, "{}", "--kubeconfig", serveAPI(t, isolating, make(chan string, 100)))
	s.becomes("/readyz", 200, ready)
	return s
}

func (s *started) end() {
	s.t.Helper()
	s.stop()
	require.NoError(s.t, <-s.ended)
}

// writes returns how many requests changed something.
func writes(fake *fakeService) int {
	n := 0
	for op, count := range fake.Counts() {
		if op != hns.OpNetworkGet && op != hns.OpEndpointGet && op != hns.OpEndpointIDs && op != hns.OpEndpointNew {
			n += count
		}
	}
	return n
}

func leftCanary(fake *fakeService) bool { return slices.ContainsFunc(fake.Sets(), canary.Is) }

// TestStartCanary: what HNS does otherwise with the canary is a warning, a line of /readyz
// and a metric, and all is written all the same.
func TestStartCanary(t *testing.T) {
	const line = "HNS does otherwise than WinNPM assumes, run npm doctor: an add of a set is refused: "
	fake := newFake()
	fake.RejectSet(canary.Is)
	require.NoError(t, fake.CreateEndpoint(hnssim.NewEndpoint{ID: "e1", Addrs: []netip.Addr{netip.MustParseAddr("10.0.0.1")}}))
	s := start(t, fake, "{}", "--kubeconfig", serveAPI(t, isolating, make(chan string, 100)))
	entry := s.log("HNS does otherwise than WinNPM assumes; npm doctor records it")
	require.Contains(t, entry["canary"], "an add of a set is refused")
	require.Eventually(t, func() bool {
		code, body := s.get("/readyz")
		return code == 200 && len(body) > 3 && body[:3] == "ok\n"
	}, 30*time.Second, 10*time.Millisecond)
	_, body := s.get("/readyz")
	require.Contains(t, body, line)
	_, body = s.get("/node-metrics")
	require.Contains(t, body, `npm_hns_refuted_assumptions{check="canary"} 1`)
	require.Contains(t, fake.Dump(), "azure-acl-npm-block-in", "it is isolated")
	s.end()
}

// TestStartWritesNothingAgain: a restart with nothing changed writes nothing, no canary
// either (I5).
func TestStartWritesNothingAgain(t *testing.T) {
	fake := newFake()
	s := isolated(t, fake, "ok\n")
	require.Equal(t, 1, fake.Counts()["SetPolicy/Remove"], "the canary's")
	_, body := s.get("/node-metrics")
	require.Contains(t, body, `npm_hns_refuted_assumptions{check="canary"} 0`)
	s.end()
	require.False(t, leftCanary(fake))
	before := fake.Dump()
	fake.ResetCalls()
	isolated(t, fake, "ok\n").end()
	require.Zero(t, writes(fake), "%v", fake.Counts())
	require.Equal(t, before, fake.Dump())
}

// TestStartCanaryKilled: what a process left that was killed between add and remove, the next
// one that writes takes away. One that writes nothing leaves it: it is nobody's.
func TestStartCanaryKilled(t *testing.T) {
	left := hns.SetPolicy{ID: canary.ID, Name: canary.ID, Type: hns.IPSet, Values: []string{"192.0.2.1"}}
	fake := newFake()
	require.NoError(t, fake.PutSet(left))
	s := isolated(t, fake, "ok\n")
	s.end()
	require.False(t, leftCanary(fake))

	require.NoError(t, fake.PutSet(left))
	fake.ResetCalls()
	s = isolated(t, fake, "ok\n")
	s.end()
	require.Zero(t, writes(fake), "%v", fake.Counts())
	require.True(t, leftCanary(fake))
}

// TestStartCheck: what phase 0 of the doctor refutes is a warning, a line of /readyz and a
// metric. It writes nothing.
func TestStartCheck(t *testing.T) {
	node := &standIn{Server: hnsd.New(hnsd.Options{Foreign: hnssim.DefaultForeign()})}
	node.Inject(hnsd.Fault{Proc: "HNSCall", Times: -1, Code: 0x80004005})
	fake := newFake()
	fake.raw = func(time.Duration) (rawHNS, error) { return node, nil }
	s := start(t, fake, "{}")
	require.Equal(t, "W12 (the older API tells the version of HNS): it does not: 0x80004005 E_FAIL", s.log("HNS does otherwise than WinNPM assumes; npm doctor records it")["assumption"])
	s.log("HNS was asked what WinNPM assumes of it")
	s.becomes("/readyz", 200, "ok\nHNS does otherwise than WinNPM assumes, run npm doctor: W12 (the older API tells the version of HNS): it does not: 0x80004005 E_FAIL\n")
	_, body := s.get("/node-metrics")
	require.Contains(t, body, `npm_hns_refuted_assumptions{check="read"} 1`)
	for export := range node.Counts() {
		require.Regexp(t, "Enumerate|Open|Query|Close|HNSCall", export)
	}
	s.end()

	fake = newFake()
	fake.raw = func(time.Duration) (rawHNS, error) { return &standIn{Server: hnsd.New(hnsd.Options{})}, nil }
	s = start(t, fake, "{}")
	require.EqualValues(t, 0, s.log("HNS was asked what WinNPM assumes of it")["refuted"])
	s.becomes("/readyz", 200, "ok\n")
	s.end()
}

// hanging is an HNS whose calls do not return.
type hanging struct{ asked chan struct{} }

// Call implements doctor.Library.
func (h hanging) Call(ctx context.Context, _ string, _ doctor.Arguments) (doctor.Outcome, error) {
	select {
	case h.asked <- struct{}{}:
	default:
	}
	<-ctx.Done()
	return doctor.Outcome{}, context.Cause(ctx)
}

func (hanging) Close() {}

// TestStartCheckHangs: an agent is ready and has isolated its pod while the check hangs, and
// a check that does not come to its end refutes nothing.
func TestStartCheckHangs(t *testing.T) {
	fake, h := newFake(), hanging{make(chan struct{}, 1)}
	fake.raw = func(time.Duration) (rawHNS, error) { return h, nil }
	s := isolated(t, fake, "ok\n")
	<-h.asked
	require.Contains(t, fake.Dump(), "azure-acl-npm-block-in")
	s.becomes("/healthz", 200, "ok\n")
	s.stop()
	s.log("HNS was not asked all that WinNPM assumes of it")
	require.NoError(t, <-s.ended)

	fake.raw = func(time.Duration) (rawHNS, error) {
		t.Error("with another binding ours makes no call")
		return h, nil
	}
	s = start(t, fake, `{"HNSBinding": "hcsshim"}`)
	s.becomes("/readyz", 200, "ok\n")
	s.end()
}

// TestNoteOf: /readyz stays short.
func TestNoteOf(t *testing.T) {
	require.Empty(t, noteOf(nil))
	many := make([]string, 12)
	for i := range many {
		many[i] = "x"
	}
	require.Regexp(t, `: x(; x){9}; and 2 more$`, noteOf(many))
}

// TestStartCheckWaits: nothing is read for the check before the first transaction is over, or
// for half a minute without one.
func TestStartCheckWaits(t *testing.T) {
	for name, want := range map[string]time.Duration{"applied": time.Second, "never": startCheckWait} {
		synctest.Test(t, func(t *testing.T) {
			began, asked := time.Now(), time.Duration(0)
			a := &agent{first: make(chan struct{}), logger: klog.Background()}
			a.host.raw = func(time.Duration) (rawHNS, error) {
				asked = time.Since(began)
				return nil, errNoRaw
			}
			if name == "applied" {
				time.AfterFunc(time.Second, func() { close(a.first) })
			}
			a.checkStart(t.Context())
			require.Equal(t, want, asked, name)
		})
	}
}

var errNoRaw = errors.New("no calls")
