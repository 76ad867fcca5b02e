package recorder

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/network-policy-api/apis/v1alpha2"

	"github.com/winnpm/winnpm/pkg/dataplane"
	"github.com/winnpm/winnpm/pkg/desired"
	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/pkg/hns/hnssim"
	"github.com/winnpm/winnpm/pkg/state"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// world is a recorded dataplane on a simulated node.
type world struct {
	t   testing.TB
	sim *hnssim.Sim
	dp  *dataplane.Dataplane
	rec *Recorder
	run Dataplane
}

func newWorld(t testing.TB, change func(*Config)) *world {
	w := &world{t: t, sim: hnssim.New(hnssim.Options{Foreign: hnssim.DefaultForeign()})}
	cfg := Config{Snapshot: func() func() state.Dump { return w.dp.Snapshot().Dump }, Node: "n1", Agent: "v1", Now: time.Now}
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
	w.rec.Wait()
	return report
}

func (w *world) endpoint(id, addr string) {
	w.t.Helper()
	require.NoError(w.t, w.sim.CreateEndpoint(hnssim.NewEndpoint{ID: id, Addrs: []netip.Addr{netip.MustParseAddr(addr)}}))
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

// sameCalls holds what was recorded against what the simulator was asked.
func sameCalls(t *testing.T, asked []hnssim.Call, steps []Step) {
	t.Helper()
	var got, want []string
	for _, s := range steps {
		for _, c := range s.Calls {
			line := c.Op + " " + c.Endpoint
			for _, v := range c.Sets {
				line += fmt.Sprintf(" %s=%s", v.ID, v.Values)
			}
			for _, a := range c.ACLs {
				line += fmt.Sprintf(" %+v", a)
			}
			for _, p := range c.Policies {
				line += " " + string(p.Settings)
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
		for _, v := range c.Sets {
			line += fmt.Sprintf(" %s=%s", v.ID, v.Values)
		}
		if c.Policies == nil {
			for _, a := range c.ACLs {
				line += fmt.Sprintf(" %+v", a)
			}
		}
		for _, p := range c.Policies {
			line += " " + string(p.Settings)
		}
		if c.Err != nil {
			line += " " + c.Err.Error()
		}
		want = append(want, line)
	}
	require.Empty(t, cmp.Diff(want, got))
}

// Everything that came in, went out and came back is there, and nothing that
// nobody asks for.
func TestRecording(t *testing.T) {
	w := newWorld(t, nil)
	w.endpoint("e1", "10.0.0.1")
	w.endpoint("e2", "10.0.0.2")
	node := []netip.Addr{netip.MustParseAddr("10.9.0.1")}
	web, db := pod("web", "10.0.0.1", "web"), pod("db", "10.0.0.2", "db")
	other := state.Node{Name: "n2", Labels: map[string]string{"a": "b"}, Addrs: []netip.Addr{netip.MustParseAddr("10.9.0.2")}}
	cnp := &v1alpha2.ClusterNetworkPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: "c", UID: "uid-c", Annotations: map[string]string{"secret": "of an object"}},
		Spec:       v1alpha2.ClusterNetworkPolicySpec{Tier: v1alpha2.BaselineTier, Priority: 3, Subject: v1alpha2.ClusterNetworkPolicySubject{Namespaces: &metav1.LabelSelector{MatchLabels: map[string]string{"no": "where"}}}},
	}
	w.apply(func(tx *dataplane.Transaction) {
		tx.SetNamespace(desired.Namespace{Name: "x", Labels: map[string]string{"team": "t"}})
		tx.SetNodeAddrs(node)
		tx.SetPod(web)
		tx.SetPod(db)
		tx.SetClusterPolicy(cnp)
		tx.DeleteClusterPolicy("gone")
		tx.SetNode(other)
		tx.DeleteNode("gone")
	})
	np := allow("p", "web", "db")
	w.sim.Inject(hnssim.Fault{Op: hns.OpACLAdd, Mode: hnssim.LoseReply})
	failed := w.apply(func(tx *dataplane.Transaction) { tx.SetPolicy(np) })
	obs, err := w.run.Observe(t.Context(), dataplane.Everything())
	require.NoError(t, err)
	w.apply(func(tx *dataplane.Transaction) { tx.SetObservation(obs); tx.DeletePod(web.Key()) })
	_, err = w.rec.Client(w.sim).Network(t.Context()) // of no step
	require.NoError(t, err)

	rec := w.rec.Recording()
	calls := w.sim.Calls()
	sameCalls(t, calls[:len(calls)-1], rec.Steps)
	require.Equal(t, []any{"n1", "v1", Format, uint64(0)}, []any{rec.Node, rec.Agent, rec.Format, rec.Forgotten})
	require.Nil(t, rec.Start, "it began with the process")
	require.Len(t, rec.Steps, 4)
	equate := cmpopts.EquateComparable(netip.Addr{})
	require.Empty(t, cmp.Diff([]Event{
		{Kind: KindClusterNode, Operation: Delete, Object: "gone"},
		{Kind: KindClusterNode, Operation: Set, Object: "n2", ClusterNode: &other},
		{Kind: KindClusterPolicy, Operation: Set, Object: "c", ClusterPolicy: &ClusterPolicy{Name: "c", UID: "uid-c", Spec: cnp.Spec}},
		{Kind: KindClusterPolicy, Operation: Delete, Object: "gone"},
		{Kind: KindNamespace, Operation: Set, Object: "x", Namespace: &desired.Namespace{Name: "x", Labels: map[string]string{"team": "t"}}},
		{Kind: KindNode, Operation: Set, NodeAddrs: node},
		{Kind: KindPod, Operation: Set, Object: "x/db", Pod: &db},
		{Kind: KindPod, Operation: Set, Object: "x/web", Pod: &web},
	}, rec.Steps[0].Events, equate))
	require.Empty(t, cmp.Diff([]Event{{Kind: KindPolicy, Operation: Set, Object: "x/p",
		Policy: &Policy{Namespace: "x", Name: "p", UID: "uid-p", Spec: np.Spec}}}, rec.Steps[1].Events))
	require.Equal(t, failed.Errors, rec.Steps[1].Report.Errors)
	require.Equal(t, Observation, rec.Steps[2].Kind)
	require.Nil(t, rec.Steps[2].Report)
	require.Equal(t, uint64(3), rec.Steps[3].Observed)
	require.Equal(t, []Event{{Kind: KindPod, Operation: Delete, Object: "x/web"}}, rec.Steps[3].Events)
	for i, s := range rec.Steps {
		require.Equal(t, uint64(i+1), s.Number)
		require.False(t, s.Running)
	}

	var lost *Call
	for i, c := range rec.Steps[1].Calls {
		if c.Error != nil {
			lost = &rec.Steps[1].Calls[i]
		}
	}
	require.NotNil(t, lost)
	require.Equal(t, hns.ErrUnavailable.Error(), lost.Error.Class)
	require.Equal(t, []string{hns.OpACLAdd, hns.KindEndpoint, "e2"}, []string{lost.Error.Op, lost.Error.Kind, lost.Error.ID})
	require.NotEmpty(t, lost.ACLs)
	var read []EndpointValue
	for _, c := range rec.Steps[2].Calls {
		read = append(read, c.Endpoints...)
	}
	require.Len(t, read, 2)
	require.NotEmpty(t, read[0].Policies)
	e, err := w.sim.GetEndpoint(t.Context(), read[0].ID)
	require.NoError(t, err)
	require.Equal(t, e.Version(), read[0].Version)

	var text bytes.Buffer
	require.NoError(t, Encode(&text, rec))
	require.NotContains(t, text.String(), "secret")
}

// What the caller owns may change afterwards; what was kept does not.
func TestRecordingSharesNothingWithCalls(t *testing.T) {
	own := &owner{}
	rec := New(Config{Snapshot: func() func() state.Dump { return func() state.Dump { return state.Dump{} } }, Now: time.Now})
	client := rec.Client(own)
	run := rec.Dataplane(steps{apply: func(ctx context.Context) error {
		sets := []hns.SetPolicy{{ID: "s", Values: []string{"10.0.0.1"}}}
		acls := []hns.ACL{{ID: "a"}}
		policies := []hns.EndpointPolicy{{Type: "T", Settings: []byte(`{"a":1}`)}}
		_ = client.ModifySets(ctx, hns.Add, sets)
		_ = client.AddACLs(ctx, "e", acls)
		_ = client.ReplacePolicies(ctx, "e", policies)
		n, _ := client.Network(ctx)
		e, _ := client.GetEndpoint(ctx, "e")
		sets[0].Values[0], acls[0].ID, n.Sets[0].Values[0] = "no", "no", "no"
		e.Addrs[0] = netip.Addr{}
		again, _ := client.GetEndpoint(ctx, "e")
		for _, p := range [][]hns.EndpointPolicy{policies, e.Policies, again.Policies} {
			copy(p[0].Settings, "garbage")
		}
		return nil
	}})
	_, err := run.ApplyDataplane(t.Context(), dataplane.NewTransaction())
	require.NoError(t, err)
	var text bytes.Buffer
	require.NoError(t, Encode(&text, rec.Recording()))
	require.NotContains(t, text.String(), "garbage")
	require.NotContains(t, text.String(), `"no"`)
	require.Equal(t, 2, strings.Count(text.String(), `{"a":1}`), "sent and read; the second read is the same")
}

// owner is an HNS that gives away what it has.
type owner struct{}

func (*owner) Network(context.Context) (hns.Network, error) {
	return hns.Network{Sets: []hns.SetPolicy{{ID: "s", Values: []string{"10.0.0.1"}}}}, nil
}

func (*owner) EndpointIDs(context.Context) ([]string, error) { return []string{"e"}, nil }

func (*owner) NewEndpointIDs(context.Context) ([]string, error) { return nil, nil }

func (*owner) Hold(context.Context, string) func() { return func() {} }

func (*owner) GetEndpoint(_ context.Context, id string) (hns.Endpoint, error) {
	return hns.Endpoint{ID: id, Addrs: []netip.Addr{netip.MustParseAddr("10.0.0.1")},
		Policies: []hns.EndpointPolicy{{Type: "T", Settings: []byte(`{"a":1}`)}}}, nil
}

func (*owner) ModifySets(context.Context, hns.Verb, []hns.SetPolicy) error { return nil }
func (*owner) AddACLs(context.Context, string, []hns.ACL) error            { return nil }
func (*owner) ReplacePolicies(context.Context, string, []hns.EndpointPolicy) error {
	return nil
}

// steps is a dataplane that does what a test says.
type steps struct {
	apply func(context.Context) error
}

func (s steps) ApplyDataplane(ctx context.Context, _ *dataplane.Transaction) (state.Report, error) {
	return state.Report{}, s.apply(ctx)
}

func (s steps) Observe(ctx context.Context, _ dataplane.Look) (*dataplane.Observation, error) {
	return &dataplane.Observation{}, s.apply(ctx)
}

func (s steps) NextLook() (dataplane.Look, time.Time) { return dataplane.Look{}, time.Time{} }

// A call that hangs is what people look for: it is there while it hangs, with how
// long it does.
func TestHangingCallShows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		w.endpoint("e1", "10.0.0.1")
		hang := make(chan struct{})
		w.sim.OnCall(func(c hnssim.Call, when hnssim.When) {
			if c.Op == hns.OpACLAdd && when == hnssim.Before {
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

		brief := w.rec.Brief()
		require.Len(t, brief, 1)
		s := brief[0]
		require.True(t, s.Running)
		require.Equal(t, 3*time.Minute, s.Took)
		require.Equal(t, []Event{{Kind: KindPod, Operation: Set, Object: "x/web"}, {Kind: KindPolicy, Operation: Set, Object: "x/p"}}, s.Events)
		last := s.Calls[len(s.Calls)-1]
		require.Equal(t, hns.OpACLAdd, last.Op)
		require.Equal(t, "e1", last.Endpoint)
		require.True(t, last.Running)
		require.Equal(t, 3*time.Minute, last.Took)
		require.Positive(t, last.Count)
		require.Nil(t, last.ACLs, "what was sent is not in brief")
		for _, c := range s.Calls[:len(s.Calls)-1] {
			require.False(t, c.Running)
		}
		kept := w.rec.Recording().Steps[0]
		require.True(t, kept.Running)
		require.NotEmpty(t, kept.Calls[len(kept.Calls)-1].ACLs, "what was sent is kept before it is answered")

		close(hang)
		<-done
		s = w.rec.Brief()[0]
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
	_, err = w.run.Observe(ctx, dataplane.Everything())
	require.Error(t, err)
	got := w.rec.Brief()
	require.Len(t, got, 2)
	require.Equal(t, context.Canceled.Error(), got[0].Error)
	require.Equal(t, []string{"hns Network/Get: network azure: service unavailable: the end", hns.ErrUnavailable.Error()},
		[]string{got[1].Error, got[1].Calls[0].Error.Class})
	require.Empty(t, w.rec.observed, "there is nothing to come in")
}

// In brief much is little.
func TestBriefIsBounded(t *testing.T) {
	w := newWorld(t, nil)
	w.apply(func(tx *dataplane.Transaction) {
		for i := range 200 {
			name := fmt.Sprintf("p%03d", i)
			w.endpoint(name, fmt.Sprintf("10.0.1.%d", i))
			tx.SetPod(pod(name, fmt.Sprintf("10.0.1.%d", i), "web"))
		}
		tx.SetPolicy(allow("p", "db", "web"))
	})
	s := w.rec.Brief()[0]
	full := w.rec.Recording().Steps[0]
	require.Len(t, s.Events, briefEvents)
	require.Equal(t, len(full.Events), len(s.Events)+s.MoreEvents)
	require.Len(t, s.Calls, briefCalls)
	require.Equal(t, len(full.Calls), len(s.Calls)+s.MoreCalls)
	require.Equal(t, full.Calls[len(full.Calls)-1].Op, s.Calls[len(s.Calls)-1].Op, "the last ones")
	require.Nil(t, s.Report.NewEndpoints)
	require.Equal(t, full.Report.Calls, s.Report.Calls)
	require.Empty(t, cmp.Diff(s, s.brief()))

	for range 2 * keptBriefs {
		w.apply(func(*dataplane.Transaction) {})
	}
	brief := w.rec.Brief()
	require.Len(t, brief, keptBriefs)
	require.Equal(t, uint64(2*keptBriefs+1), brief[keptBriefs-1].Number)
}

// Long lists are a count and a digest, which tells two lists apart.
func TestLongListsAreCut(t *testing.T) {
	long := func(n int, last string) []string {
		values := make([]string, n)
		for i := range values {
			values[i] = fmt.Sprintf("10.1.%d.%d", i/256, i%256)
		}
		values[n-1] = last
		return values
	}
	short := newSetValue(hns.SetPolicy{ID: "s", Values: long(maxKept, "z")})
	require.Len(t, short.Values, maxKept)
	require.Empty(t, short.Digest)
	a, b := newSetValue(hns.SetPolicy{ID: "s", Values: long(maxKept+1, "y")}), newSetValue(hns.SetPolicy{ID: "s", Values: long(maxKept+1, "z")})
	require.Nil(t, a.Values)
	require.Equal(t, maxKept+1, a.Count)
	require.NotEqual(t, a.Digest, b.Digest)
	mixed := long(maxKept+1, "y")
	mixed[0], mixed[1] = mixed[1], mixed[0]
	require.Equal(t, a, newSetValue(hns.SetPolicy{ID: "s", Values: mixed}), "the order says nothing")

	var sent Call
	sent.keepACLs(make([]hns.ACL, maxKept+1))
	require.Equal(t, []any{true, maxKept + 1, true}, []any{sent.Cut, sent.Count, sent.ACLs == nil})
	require.NotEmpty(t, sent.Digest)
	policies := make([]hns.EndpointPolicy, maxKept+1)
	for i := range policies {
		policies[i] = hns.EndpointPolicy{Type: "T", Settings: fmt.Appendf(nil, `{"i":%d}`, i)}
	}
	var other Call
	other.keepPolicies(policies)
	require.True(t, other.Cut)
	require.NotEqual(t, sent.Digest, other.Digest)

	s := newSeen(maxKept)
	for count, policies := range map[int][]hns.EndpointPolicy{
		maxKept + 1: policies,
		1:           {{Type: "T", Settings: []byte("no JSON")}}, // it could not be written
	} {
		var read Call
		s.keepEndpoint(&read, hns.Endpoint{ID: "e", Policies: policies})
		require.Equal(t, []any{1, true, 1}, []any{read.Count, read.Cut, len(read.Endpoints)})
		require.Nil(t, read.Endpoints[0].Policies)
		require.Equal(t, count, read.Endpoints[0].Count)
		require.NotEmpty(t, read.Endpoints[0].Version)
	}
}
