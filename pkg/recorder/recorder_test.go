package recorder

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/network-policy-api/apis/v1alpha2"

	"github.com/winnpm/winnpm/pkg/dataplane"
	"github.com/winnpm/winnpm/pkg/desired"
	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/pkg/state"
	"github.com/winnpm/winnpm/test/hnsfault"
	"github.com/winnpm/winnpm/test/looks"
	"github.com/winnpm/winnpm/tool/hnssim"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// world is a recorded dataplane on a simulated node.
type world struct {
	t   testing.TB
	sim *hnsfault.Sim
	dp  *dataplane.Dataplane
	rec *Recorder
	run Dataplane
}

func newWorld(t testing.TB, change func(*Config)) *world {
	w := &world{t: t, sim: hnsfault.New(hnsfault.Options{Foreign: hnssim.DefaultForeign()})}
	cfg := Config{Node: "n1", Agent: "v1", Now: time.Now}
	if change != nil {
		change(&cfg)
	}
	w.rec = New(cfg)
	w.dp = dataplane.New(dataplane.Config{Client: w.rec.Client(w.sim), Node: "n1", Now: time.Now})
	w.run = w.rec.Dataplane(w.dp)
	return w
}

// apply applies one transaction.
func (w *world) apply(fill func(*dataplane.Transaction)) state.Report {
	w.t.Helper()
	tx := dataplane.NewTransaction()
	fill(tx)
	report, err := w.run.ApplyDataplane(w.t.Context(), tx)
	require.NoError(w.t, err)
	return report
}

func (w *world) endpoint(id, addr string) {
	w.t.Helper()
	require.NoError(w.t, w.sim.CreateEndpoint(hnssim.SimEndpoint{ID: id, Addrs: []netip.Addr{netip.MustParseAddr(addr)}}))
}

func pod(name, addr, app string) desired.Pod {
	return desired.Pod{
		Namespace: "x", Name: name, UID: types.UID("uid-" + name), Addr: netip.MustParseAddr(addr), Local: true,
		Labels: map[string]string{"app": app},
	}
}

// allow lets pods of one app in to those of another.
func allow(name, from, to string) *networkingv1.NetworkPolicy {
	return &networkingv1.NetworkPolicy{
		ObjectMeta: metav1.ObjectMeta{Namespace: "x", Name: name, UID: types.UID("uid-" + name), Annotations: map[string]string{"token": "secret"}},
		Spec: networkingv1.NetworkPolicySpec{
			PodSelector: metav1.LabelSelector{MatchLabels: map[string]string{"app": to}},
			Ingress: []networkingv1.NetworkPolicyIngressRule{{From: []networkingv1.NetworkPolicyPeer{
				{PodSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": from}}},
			}}},
		},
	}
}

// recording returns what Write writes.
func recording(t *testing.T, r *Recorder) (Header, []Step) {
	t.Helper()
	var text bytes.Buffer
	require.NoError(t, r.Write(&text))
	dec := json.NewDecoder(&text)
	dec.DisallowUnknownFields()
	var h Header
	require.NoError(t, dec.Decode(&h))
	steps := []Step{}
	for dec.More() {
		var s Step
		require.NoError(t, dec.Decode(&s))
		steps = append(steps, s)
	}
	return h, steps
}

// sameCalls compares the recorded calls with those that the simulator was asked.
func sameCalls(t *testing.T, asked []hnsfault.Call, steps []Step) {
	t.Helper()
	var got, want []string
	for _, s := range steps {
		for _, c := range s.Calls {
			line := c.Op + " " + c.Endpoint
			if !hnsfault.ReadsOnly(c.Op) {
				line += fmt.Sprint(" ", c.Count)
			}
			if c.Error != nil {
				line += " " + c.Error.Message
			}
			got = append(got, line)
		}
	}
	for _, c := range asked {
		line := c.Op + " "
		if c.Op == hns.OpEndpointGet || c.Op == hns.OpACLAdd || c.Op == hns.OpACLUpdate {
			line += c.Target
		}
		if !hnsfault.ReadsOnly(c.Op) {
			line += fmt.Sprint(" ", max(len(c.Sets), len(c.ACLs), len(c.Policies)))
		}
		if c.Err != nil {
			line += " " + c.Err.Error()
		}
		want = append(want, line)
	}
	require.Empty(t, cmp.Diff(want, got))
}

// The recording has the name of everything that came in, and every call with its outcome.
func TestRecording(t *testing.T) {
	w := newWorld(t, nil)
	w.endpoint("e1", "10.0.0.1")
	w.endpoint("e2", "10.0.0.2")
	web, db := pod("web", "10.0.0.1", "web"), pod("db", "10.0.0.2", "db")
	cnp := &v1alpha2.ClusterNetworkPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: "c", UID: "uid-c", Annotations: map[string]string{"secret": "of an object"}},
		Spec:       v1alpha2.ClusterNetworkPolicySpec{Tier: v1alpha2.BaselineTier, Priority: 3, Subject: v1alpha2.ClusterNetworkPolicySubject{Namespaces: &metav1.LabelSelector{MatchLabels: map[string]string{"no": "where"}}}},
	}
	w.apply(func(tx *dataplane.Transaction) {
		tx.SetNamespace(desired.Namespace{Name: "x", Labels: map[string]string{"team": "t"}})
		tx.SetNodeAddrs([]netip.Addr{netip.MustParseAddr("10.9.0.1")})
		tx.SetPod(web)
		tx.SetPod(db)
		tx.SetClusterPolicy(cnp)
		tx.DeleteClusterPolicy("gone")
		tx.SetNode(state.NodeDump{Name: "n2", Labels: map[string]string{"a": "b"}, Addrs: []netip.Addr{netip.MustParseAddr("10.9.0.2")}})
		tx.DeleteNode("gone")
	})
	w.sim.Inject(hnsfault.Fault{Op: hns.OpACLAdd, Mode: hnsfault.LoseReply})
	failed := w.apply(func(tx *dataplane.Transaction) { tx.SetPolicy(allow("p", "web", "db")) })
	due, err := w.run.Observe(t.Context(), looks.All(w.dp))
	require.NoError(t, err)
	require.True(t, due)
	w.apply(func(tx *dataplane.Transaction) { tx.DeletePod(web.Key()) })
	_, err = w.rec.Client(w.sim).Network(t.Context()) // of no step
	require.NoError(t, err)

	head, steps := recording(t, w.rec)
	calls := w.sim.Calls()
	sameCalls(t, calls[:len(calls)-1], steps)
	require.Equal(t, []any{"n1", "v1", uint64(0)}, []any{head.Node, head.Agent, head.Forgotten})
	require.Len(t, steps, 4)
	require.Equal(t, []Event{
		{"clusterNode", "delete", "gone"}, {"clusterNode", "set", "n2"}, {"clusterPolicy", "set", "c"}, {"clusterPolicy", "delete", "gone"},
		{"namespace", "set", "x"}, {"node", "set", ""}, {"pod", "set", "x/db"}, {"pod", "set", "x/web"},
	}, steps[0].Events)
	require.Equal(t, []Event{{"policy", "set", "x/p"}}, steps[1].Events)
	require.Equal(t, failed.Errors, steps[1].Report.Errors)
	require.Equal(t, Observation, steps[2].Kind)
	require.Nil(t, steps[2].Report)
	require.Equal(t, []Event{{"pod", "delete", "x/web"}}, steps[3].Events)
	for i, s := range steps {
		require.Equal(t, uint64(i+1), s.Number)
		require.False(t, s.Running)
	}

	lost := slices.IndexFunc(steps[1].Calls, func(c Call) bool { return c.Error != nil })
	require.Contains(t, steps[1].Calls[lost].Error.Message, hns.ErrUnavailable.Error())
	require.Equal(t, "e2", steps[1].Calls[lost].Endpoint)
	require.Positive(t, steps[1].Calls[lost].Count)

	var text bytes.Buffer
	require.NoError(t, w.rec.Write(&text))
	require.NotContains(t, text.String(), "secret")
}

// steps is a dataplane that does what a test says.
type steps struct {
	apply func(context.Context) error
}

func (s steps) ApplyDataplane(ctx context.Context, _ *dataplane.Transaction) (state.Report, error) {
	return state.Report{}, s.apply(ctx)
}

func (s steps) Observe(ctx context.Context, _ dataplane.Look) (due bool, err error) {
	return true, s.apply(ctx)
}

func (s steps) NextLook() (dataplane.Look, time.Time) { return dataplane.Look{}, time.Time{} }

// A call that hangs is what people look for: it is there while it hangs, with how
// long it does.
func TestHangingCallShows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		w.endpoint("e1", "10.0.0.1")
		hang := make(chan struct{})
		w.sim.OnCall(func(c hnsfault.Call, when hnsfault.When) {
			if c.Op == hns.OpACLAdd && when == hnsfault.Before {
				<-hang
			}
		})
		done := make(chan struct{})
		go func() {
			defer close(done)
			w.apply(func(tx *dataplane.Transaction) {
				tx.SetPod(pod("web", "10.0.0.1", "web"))
				tx.SetPolicy(allow("p", "db", "web"))
			})
		}()
		synctest.Wait()
		time.Sleep(3 * time.Minute)

		_, kept := recording(t, w.rec)
		require.Len(t, kept, 1)
		s := kept[0]
		require.True(t, s.Running)
		require.Equal(t, 3*time.Minute, s.Took)
		require.Equal(t, []Event{{"pod", "set", "x/web"}, {"policy", "set", "x/p"}}, s.Events)
		last := s.Calls[len(s.Calls)-1]
		require.Equal(t, hns.OpACLAdd, last.Op)
		require.Equal(t, "e1", last.Endpoint)
		require.True(t, last.Running)
		require.Equal(t, 3*time.Minute, last.Took)
		require.Positive(t, last.Count)
		for _, c := range s.Calls[:len(s.Calls)-1] {
			require.False(t, c.Running)
		}
		close(hang)
		<-done
		_, kept = recording(t, w.rec)
		s = kept[0]
		require.False(t, s.Running)
		require.False(t, s.Calls[len(s.Calls)-1].Running)
		require.Equal(t, 3*time.Minute, s.Took)
	})
}

// The error of a context is the step's.
func TestStepThatWasBrokenOff(t *testing.T) {
	w := newWorld(t, nil)
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("the end"))
	_, err := w.run.ApplyDataplane(ctx, dataplane.NewTransaction())
	require.Error(t, err)
	_, err = w.run.Observe(ctx, looks.All(w.dp))
	require.Error(t, err)
	_, got := recording(t, w.rec)
	require.Len(t, got, 2)
	require.Equal(t, context.Canceled.Error(), got[0].Error)
	require.Equal(t, "hns Network/Get: network azure: service unavailable: the end", got[1].Error)
	require.Equal(t, got[1].Error, got[1].Calls[0].Error.Message)
}

// The number of objects of a step is bounded.
func TestObjectsAreBounded(t *testing.T) {
	w := newWorld(t, nil)
	report := w.apply(func(tx *dataplane.Transaction) {
		for i := range 200 {
			name := fmt.Sprintf("p%03d", i)
			w.endpoint(name, fmt.Sprintf("10.0.1.%d", i))
			tx.SetPod(pod(name, fmt.Sprintf("10.0.1.%d", i), "web"))
		}
		tx.SetPolicy(allow("p", "db", "web"))
	})
	_, steps := recording(t, w.rec)
	s := steps[0]
	require.Len(t, s.Events, maxEvents)
	require.Equal(t, 201, len(s.Events)+s.MoreEvents)
	require.Equal(t, len(w.sim.Calls()), len(s.Calls))
	require.Nil(t, s.Report.NewEndpoints)
	require.Equal(t, report.Calls, s.Report.Calls)
}

// The oldest steps are dropped, and the earlier calls of a long one.
func TestMemoryIsBounded(t *testing.T) {
	var client hns.Client
	many := 2*maxCalls + 1
	r := New(Config{Now: time.Now, MaxBytes: 1 << 20})
	client = r.Client(hnsfault.New(hnsfault.Options{}))
	run := r.Dataplane(steps{apply: func(ctx context.Context) error {
		for range many {
			_, _ = client.GetEndpoint(ctx, "e1")
		}
		return nil
	}})
	step := func() {
		_, err := run.ApplyDataplane(t.Context(), dataplane.NewTransaction())
		require.NoError(t, err)
		require.LessOrEqual(t, r.bytes, r.cfg.MaxBytes)
	}
	step()
	_, kept := recording(t, r)
	require.Len(t, kept[0].Calls, maxCalls)
	require.Equal(t, many-maxCalls, kept[0].MoreCalls)
	many = 1
	const steps = 5000
	for range steps {
		step()
	}
	head, kept := recording(t, r)
	require.Greater(t, len(kept), 1_000)
	require.Equal(t, uint64(1+steps), head.Forgotten+uint64(len(kept)))
	require.Equal(t, uint64(1+steps), kept[len(kept)-1].Number)
}

// A step that is larger than everything that may be kept is forgotten.
func TestTooLarge(t *testing.T) {
	w := newWorld(t, func(cfg *Config) { cfg.MaxBytes = 100 })
	w.apply(func(*dataplane.Transaction) {})
	head, steps := recording(t, w.rec)
	require.Empty(t, steps)
	require.Equal(t, uint64(1), head.Forgotten)
}

// A time without a text does not end the agent.
func TestTimeWithoutText(t *testing.T) {
	r := New(Config{Now: func() time.Time { return time.Date(10_000, 1, 1, 0, 0, 0, 0, time.UTC) }})
	run := r.Dataplane(steps{apply: func(context.Context) error { return nil }})
	_, err := run.ApplyDataplane(t.Context(), dataplane.NewTransaction())
	require.NoError(t, err)
	require.Contains(t, string(r.lines[0].text), "year outside of range")
	require.Error(t, r.Write(io.Discard))
}
