package endpoints

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/winnpm/winnpm/pkg/desired"
	"github.com/winnpm/winnpm/pkg/hns"
)

// queue plays the queue of pending updates by itself: endpoints "namespace/name" of pods that
// no policy selects, which are right.
type queue struct {
	*Table
	served []string
}

func newQueue() *queue {
	q := &queue{Table: newTestEndpoints()}
	q.Clock = testStart
	q.Begin(2, testStart)
	return q
}

// do plays steps, each "verb endpoint…".
func (q *queue) do(t *testing.T, steps ...string) {
	for _, text := range steps {
		words := strings.Fields(text)
		for _, id := range words[1:] {
			ep := q.endpoint(id)
			switch words[0] {
			case "change":
				ep.tries, ep.repair = 0, false
			case "leave": // nothing differs any more
				q.leave(ep)
				continue
			case "repair":
				ep.repair = true
			case "fail": // it was served, and HNS did not do it
				require.Equal(t, id, q.next(), text)
				ep.tries++
			}
			if !ep.Pending() || ep.flow != q.flowOf(ep) {
				q.Join(ep)
			}
		}
		switch text {
		case "serve":
			q.served = append(q.served, q.next())
		case "rest":
			for len(q.Due(testStart)) > 0 {
				q.served = append(q.served, q.next())
			}
		}
	}
}

// next serves who is first.
func (q *queue) next() string {
	ep := q.Due(testStart)[0]
	q.Serve(ep.ID)
	q.leave(ep)
	return ep.ID
}

// endpoint returns an endpoint, which is made when it is named first.
func (q *queue) endpoint(id string) *Tracked {
	if ep := q.byID[id]; ep != nil {
		return ep
	}
	ns, name, _ := strings.Cut(id, "/")
	in := desired.NewObjects()
	in.SetPod(desired.Pod{Namespace: ns, Name: name, UID: types.UID(id), Addr: testAddr(len(q.byID)), Local: true})
	q.desired.Stage(&in, testStart)
	q.byID[id] = &Tracked{ID: id, owner: types.UID(id), writtenFor: types.UID(id), state: endpointState{rules: rulesKnown}}
	return q.byID[id]
}

// TestOrder: in which order those that wait are served.
func TestOrder(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct{ steps, order string }{
		"one namespace in its order":           {"change x/1 x/2 x/3; rest", "x/1 x/2 x/3"},
		"many of one, one of another":          {"change x/1 x/2 x/3 x/4 y/1; rest", "x/1 y/1 x/2 x/3 x/4"},
		"one that comes while many are served": {"change x/1 x/2 x/3 x/4; serve; serve; change y/1; rest", "x/1 x/2 x/3 y/1 x/4"},
		"three namespaces":                     {"change x/1 x/2 y/1 y/2 z/1; rest", "x/1 y/1 z/1 x/2 y/2"},
		"one that is withdrawn":                {"change x/1 x/2 x/3 y/1 y/2; leave x/1; rest", "x/2 y/1 x/3 y/2"},
		"a repair behind the events":           {"repair x/1; change x/2 y/1; rest", "x/2 y/1 x/1"},
		"repairs do not wait for good":         {"repair z/1; change x/1 x/2 x/3; rest", "x/1 z/1 x/2 x/3"},
		"a failure behind all that wait":       {"change x/1 x/2 y/1 y/2; fail x/1; rest", "y/1 x/2 y/2 x/1"},
		"a failure behind many of one":         {"change x/1 x/2 x/3 x/4 y/1; fail x/1; rest", "y/1 x/2 x/3 x/4 x/1"},
		"a failure keeps nobody's turn":        {"change x/1 x/2; fail x/1; change x/1; rest", "x/2 x/1"},
		"two failures in their order":          {"change x/1 x/2 y/1; fail x/1; fail y/1; rest", "x/2 x/1 y/1"},
		"a failure does not wait for good":     {"change x/1 y/1; fail x/1; change y/2 y/3 y/4; rest", "y/1 y/2 x/1 y/3 y/4"},
		"whoever waited, and changes again":    {"change x/1 x/2 y/1; change x/1; rest", "x/1 y/1 x/2"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			q := newQueue()
			q.cfg.MaxRepairs = 32
			q.do(t, strings.Split(tt.steps, "; ")...)
			require.Equal(t, tt.order, strings.Join(q.served, " "))
		})
	}
}

// TestRepairsOfATransaction: of those that wait only because of somebody else so many are
// due, and whatever else waits is due beside them.
func TestRepairsOfATransaction(t *testing.T) {
	t.Parallel()
	q := newQueue()
	q.cfg.MaxRepairs = 2
	q.do(t, "repair x/1 x/2 x/3 y/1", "change x/4 y/2")
	require.Len(t, q.Due(testStart), 4)
	q.cfg.MaxRepairs = 0
	require.Len(t, q.Due(testStart), 2)
	q.endpoint("x/4").retryAt = testStart.Add(1)
	require.Len(t, q.Due(testStart), 1, "its pause is not over")
}

// opened makes endpoints open: a policy isolates their pods, and nothing of it is there.
func (q *queue) opened(ids ...string) {
	for _, id := range ids {
		ep := q.endpoint(id)
		ns, _, _ := strings.Cut(id, "/")
		in := desired.NewObjects()
		deny := fromApp("deny", "nobody")
		deny.Namespace, deny.Spec.Ingress = ns, []networkingv1.NetworkPolicyIngressRule{}
		in.SetPolicy(deny)
		q.desired.Stage(&in, testStart)
		ep.writtenFor = ""
		ep.desired = q.desired.ListOf([]*desired.PodState{q.desired.Local(ep.owner)}, false)
		q.relist(ep)
		q.Join(ep)
	}
}

// TestOpenGoesFirst: an endpoint that is open goes before all others, but not when it failed,
// and a namespace with ever new ones is only so far ahead of who waits longest.
func TestOpenGoesFirst(t *testing.T) {
	t.Parallel()
	q := newQueue()
	q.do(t, "change x/1 x/2 y/1")
	q.opened("z/1")
	require.Equal(t, "z/1", q.Due(testStart)[0].ID)
	q.do(t, "fail z/1", "rest")
	require.Equal(t, []string{"x/1", "y/1", "x/2", "z/1"}, q.served)

	q = newQueue()
	q.do(t, "change y/1")
	for i := 0; !slices.Contains(q.served, "y/1"); i++ {
		require.LessOrEqual(t, i, maxAhead+1)
		q.opened(fmt.Sprint("z/", i))
		q.do(t, "serve")
	}
	require.Len(t, q.served, maxAhead+2, "they did go ahead")
}

// TestPausesOfRepairs: what somebody else undoes is repaired at once the first time. Who goes
// on undoing it is waited for, and the endpoint is read before it is written again.
func TestPausesOfRepairs(t *testing.T) {
	t.Parallel()
	d := begun(t, "a")
	d.cfg.MaxRepairs = 32
	d.follow(func(o *desired.Objects) { o.SetPolicy(fromApp("p", "web")) })
	ep := d.Endpoint("a")
	var last time.Duration
	for i := range 8 {
		s, reached := step(t, d, "a")
		require.NotEmpty(t, s.ACLs)
		d.drift.wrote(drifting{endpoint: "a"})
		d.applied(ep, reached, "v")
		d.Queue(ep)
		require.False(t, ep.Pending())

		now := d.Clock.Add(time.Second)
		d.Clock = now
		d.Begin(uint64(3+i), now)
		d.TakeRead("a", hns.Endpoint{ID: "a", Addrs: []netip.Addr{testAddr(0)}}, nil) // somebody took all rules away
		require.True(t, ep.Pending())
		require.True(t, ep.repair)
		pause := max(0, ep.retryAt.Sub(now))
		require.GreaterOrEqual(t, pause, last, "the pauses grow")
		require.Equal(t, pause > 0, ep.state.check)
		require.Equal(t, pause == 0, len(d.Due(now)) == 1)
		if last = pause; i == 0 {
			require.Zero(t, pause)
		}
		d.Clock = now.Add(pause)
		require.Len(t, d.Due(d.Clock), 1)
		ep.state.check = false
	}
	require.NotZero(t, last)
	ep.fail(hns.ErrUnavailable, d.Clock)
	d.follow(func(o *desired.Objects) { o.SetPolicy(fromApp("q", "web")) })
	require.Zero(t, ep.retryAt, "a change of ours does not wait")
	require.Equal(t, "x", ep.flow, "and is no other try")
}
