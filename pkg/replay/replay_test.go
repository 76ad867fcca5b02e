package replay_test

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
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
	"github.com/winnpm/winnpm/pkg/hns/hnssim"
	"github.com/winnpm/winnpm/pkg/policy"
	"github.com/winnpm/winnpm/pkg/recorder"
	"github.com/winnpm/winnpm/pkg/replay"
	"github.com/winnpm/winnpm/pkg/state"
)

var update = flag.Bool("update", false, "write the golden files")

// stage is a node whose dataplane is recorded, in a bubble of time.
type stage struct {
	t        *testing.T
	sim      *hnssim.Sim
	rec      *recorder.Recorder
	dp       *dataplane.Dataplane
	recorded recorder.Dataplane
	timeout  time.Duration // of a call
	edit     func(*recorder.Recording)
	dump     func(*state.Dump)
	options  replay.Options
	view     replay.View
	taken    *recorder.Recording // before the end
}

// bounded gives up calls that take too long, as the real client does.
type bounded struct {
	hns.Client
	s *stage
}

func (b bounded) ModifySets(ctx context.Context, verb hns.Verb, sets []hns.SetPolicy) error {
	ctx, cancel := context.WithTimeout(ctx, b.s.timeout)
	defer cancel()
	return b.Client.ModifySets(ctx, verb, sets)
}

func newStage(t *testing.T, steps int) *stage { return newStageOf(t, steps, policy.Budgets{}) }

func newStageOf(t *testing.T, steps int, budgets policy.Budgets) *stage {
	s := &stage{t: t, timeout: 2 * time.Minute}
	s.sim = hnssim.New(hnssim.Options{Foreign: hnssim.DefaultForeign()})
	cfg := dataplane.Config{Node: "win-1", Now: time.Now, GracePeriod: time.Minute, Budgets: budgets}
	s.rec = recorder.New(recorder.Config{
		Snapshot: func() func() state.Dump { return s.dp.Snapshot().Dump }, Settings: recorder.NewSettings("azure", cfg),
		Node: "win-1", Agent: "v1.0.0", Now: time.Now, MaxSteps: steps,
	})
	cfg.Client = s.rec.Client(bounded{s.sim, s})
	s.dp = dataplane.New(cfg)
	s.recorded = s.rec.Dataplane(s.dp)
	return s
}

func (s *stage) apply(events ...func(*dataplane.Transaction)) {
	s.t.Helper()
	tx := dataplane.NewTransaction()
	for _, e := range events {
		e(tx)
	}
	_, err := s.recorded.ApplyDataplane(s.t.Context(), tx)
	require.NoError(s.t, err)
	s.rec.Wait()
}

// reconcile has HNS read and what was read handed in.
func (s *stage) reconcile() {
	s.t.Helper()
	obs, err := s.recorded.Observe(s.t.Context(), dataplane.Everything())
	require.NoError(s.t, err)
	s.apply(func(tx *dataplane.Transaction) { tx.SetObservation(obs) })
}

func pod(name, addr, app string) func(*dataplane.Transaction) {
	return func(tx *dataplane.Transaction) {
		tx.SetPod(desired.Pod{
			Namespace: "x", Name: name, UID: types.UID("uid-" + name), Labels: map[string]string{"app": app},
			Addr: netip.MustParseAddr(addr), Local: app == "web",
		})
	}
}

func namespace(tx *dataplane.Transaction) {
	tx.SetNamespace(desired.Namespace{Name: "x", Labels: map[string]string{"team": "a"}})
}

// allow lets pods in to the web.
func allow(name, app string) func(*dataplane.Transaction) {
	return func(tx *dataplane.Transaction) {
		tx.SetPolicy(&networkingv1.NetworkPolicy{
			ObjectMeta: metav1.ObjectMeta{Namespace: "x", Name: name},
			Spec: networkingv1.NetworkPolicySpec{
				PodSelector: metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}},
				Ingress: []networkingv1.NetworkPolicyIngressRule{{From: []networkingv1.NetworkPolicyPeer{
					{PodSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}}},
				}}},
			},
		})
	}
}

func leave(name string) func(*dataplane.Transaction) {
	return func(tx *dataplane.Transaction) { tx.DeleteFinishedPod(desired.PodKey{Namespace: "x", Name: name}) }
}

func forget(name string) func(*dataplane.Transaction) {
	return func(tx *dataplane.Transaction) { tx.DeletePolicy(policy.Key{Namespace: "x", Name: name}) }
}

// begin is a web pod that an api pod may reach.
func (s *stage) begin() {
	s.t.Helper()
	require.NoError(s.t, s.sim.CreateEndpoint(hnssim.NewEndpoint{ID: "ep-1", Addrs: []netip.Addr{netip.MustParseAddr("10.0.0.1")}}))
	s.apply(namespace, pod("web", "10.0.0.1", "web"), pod("api", "10.0.0.2", "api"), allow("web", "api"))
	s.wait(time.Second)
}

func (s *stage) wait(d time.Duration) {
	timer := time.NewTimer(d)
	<-timer.C
}

// set is a set of the node by its name.
func (s *stage) set(name string) hns.SetPolicy {
	s.t.Helper()
	sets := s.sim.Sets()
	i := slices.IndexFunc(sets, func(p hns.SetPolicy) bool { return p.Name == name })
	require.GreaterOrEqual(s.t, i, 0, name)
	return sets[i]
}

// rules keeps those of an endpoint's policies that keep holds of.
func (s *stage) rules(keep func(hns.ACL) bool) {
	s.t.Helper()
	e, _ := s.sim.Endpoint("ep-1")
	require.NoError(s.t, s.sim.SetPolicies("ep-1", slices.DeleteFunc(e.Policies, func(p hns.EndpointPolicy) bool {
		a, err := p.ACL()
		return err == nil && a.Ours() && !keep(a)
	})))
}

// calls edits the recorded calls of an operation in the last step that has any.
func (s *stage) calls(op string, edit func(*recorder.Step, int)) {
	s.edit = func(rec *recorder.Recording) {
		for at := len(rec.Steps) - 1; at >= 0; at-- {
			step := &rec.Steps[at]
			if i := slices.IndexFunc(step.Calls, func(c recorder.Call) bool { return c.Op == op }); i >= 0 {
				step.Calls = slices.Clone(step.Calls)
				edit(step, i)
				return
			}
		}
		require.Fail(s.t, "no such call", op)
	}
}

// overlap has events come in while HNS is read; each read takes a while before or
// after it is done.
func (s *stage) overlap(when hnssim.When) {
	s.sim.OnCall(func(c hnssim.Call, at hnssim.When) {
		if at == when && (c.Op == hns.OpNetworkGet || c.Op == hns.OpEndpointIDs) {
			s.wait(10 * time.Second)
		}
	})
	seen := make(chan *dataplane.Observation)
	go func() {
		obs, err := s.recorded.Observe(s.t.Context(), dataplane.Everything())
		if err != nil {
			s.t.Error(err)
		}
		seen <- obs
	}()
	s.wait(5 * time.Second)
	s.apply(pod("other", "10.0.0.3", "api"))
	s.wait(10 * time.Second)
	s.apply(allow("more", "job"))
	obs := <-seen
	s.apply(func(tx *dataplane.Transaction) { tx.SetObservation(obs) })
	s.reconcile()
}

// TestReplay: what a replay says of everything that may part, in its own words.
func TestReplay(t *testing.T) {
	for name, tc := range map[string]struct {
		steps int // of a segment
		kinds []replay.Kind
		play  func(*stage)
	}{
		"nothing": {0, nil, func(s *stage) { s.reconcile() }},
		"wrapped": {2, nil, func(s *stage) {
			s.apply(pod("api", "10.0.0.3", "api"))
			s.apply(forget("web"))
			s.wait(30 * time.Second)
			s.apply(allow("again", "job"))
			s.wait(2 * time.Minute)
			s.apply() // the set of the first policy goes
			s.apply()
		}},
		"set-changed": {0, []replay.Kind{replay.State}, func(s *stage) {
			set := s.set("podlabel-app:api")
			set.Values = []string{"10.0.0.9"}
			require.NoError(s.t, s.sim.PutSet(set))
			s.reconcile()
		}},
		"set-made": {0, []replay.Kind{replay.State}, func(s *stage) {
			require.NoError(s.t, s.sim.PutSet(hns.SetPolicy{ID: hns.SetIDPrefix + "1", Name: "podlabel-app:else", Type: hns.IPSet, Values: []string{"10.0.0.9"}}))
			s.reconcile()
		}},
		"everything-lost": {0, []replay.Kind{replay.State}, func(s *stage) {
			s.sim.Restart(true)
			s.reconcile()
		}},
		"rule-removed": {0, []replay.Kind{replay.State}, func(s *stage) {
			s.rules(func(a hns.ACL) bool { return a.Action == hns.Allow })
			s.apply(allow("more", "job")) // it is read before the write
		}},
		"reply-lost": {0, []replay.Kind{replay.Answer, replay.Note, replay.Note}, func(s *stage) {
			s.sim.Inject(hnssim.Fault{Op: hns.OpSets(hns.Add), Mode: hnssim.LoseReply, Delay: 3 * time.Second})
			s.apply(allow("more", "job"))
			s.wait(time.Minute)
			s.apply()
		}},
		"half-done": {0, []replay.Kind{replay.Answer, replay.Note}, func(s *stage) {
			s.sim.Inject(hnssim.Fault{Op: hns.OpACLUpdate, Mode: hnssim.Half})
			s.apply(forget("web"), allow("other", "api"))
			s.wait(time.Minute)
			s.apply()
		}},
		"refused": {0, []replay.Kind{replay.Answer}, func(s *stage) {
			s.sim.RejectSet(func(p hns.SetPolicy) bool { return p.Name == "podlabel-app:job" })
			s.apply(allow("more", "job"))
		}},
		"refused-once": {0, []replay.Kind{replay.Answer}, func(s *stage) {
			s.sim.Inject(hnssim.Fault{Op: hns.OpSets(hns.Add)})
			s.apply(allow("more", "job"))
			s.wait(time.Minute)
			s.apply()
		}},
		"read-meanwhile": {0, nil, func(s *stage) {
			s.sim.Inject(hnssim.Fault{Op: hns.OpSets(hns.Update), Mode: hnssim.Slow, Delay: 10 * time.Second})
			done := make(chan struct{})
			go func() {
				s.apply(pod("other", "10.0.0.3", "api"), forget("web"))
				close(done)
			}()
			s.wait(time.Second)
			obs, err := s.recorded.Observe(s.t.Context(), dataplane.Everything()) // over before the write is done
			require.NoError(s.t, err)
			<-done
			s.apply(func(tx *dataplane.Transaction) { tx.SetObservation(obs) })
		}},
		"hang": {0, []replay.Kind{replay.Answer}, func(s *stage) {
			s.sim.Inject(hnssim.Fault{Op: hns.OpSets(hns.Update), Mode: hnssim.Hang})
			s.apply(pod("other", "10.0.0.3", "api"))
			s.wait(time.Minute)
			s.apply()
		}},
		"hanging": {0, []replay.Kind{replay.Answer}, func(s *stage) {
			s.sim.Inject(hnssim.Fault{Op: hns.OpSets(hns.Update), Mode: hnssim.Hang})
			done := make(chan struct{})
			go func() {
				s.apply(pod("other", "10.0.0.3", "api"))
				close(done)
			}()
			s.wait(time.Minute)
			rec := s.rec.Recording()
			s.taken = &rec
			<-done
		}},
		"did-what-it-refuses": {0, []replay.Kind{replay.Answer}, func(s *stage) {
			require.NoError(s.t, s.sim.PutSet(hns.SetPolicy{ID: "other", Name: "podlabel-app:job", Type: hns.IPSet}))
			s.reconcile()
			require.NoError(s.t, s.sim.DropSet("other"))
			s.apply(allow("more", "job"))
		}},
		"other-content": {0, []replay.Kind{replay.Build, replay.Note}, func(s *stage) {
			s.apply(pod("other", "10.0.0.3", "api"))
			s.calls(hns.OpSets(hns.Update), func(step *recorder.Step, i int) {
				step.Calls[i].Sets = slices.Clone(step.Calls[i].Sets)
				v := &step.Calls[i].Sets[0]
				v.Values, v.Count = []string{"10.0.0.7"}, 1
			})
		}},
		"asks-more": {0, []replay.Kind{replay.Build}, func(s *stage) {
			s.apply(allow("more", "job"))
			s.calls(hns.OpACLAdd, func(step *recorder.Step, i int) { step.Calls = slices.Delete(step.Calls, i, i+1) })
		}},
		"asks-less": {0, []replay.Kind{replay.Build}, func(s *stage) {
			s.apply(pod("other", "10.0.0.3", "api"))
			s.calls(hns.OpSets(hns.Update), func(step *recorder.Step, i int) {
				step.Calls = append(step.Calls, recorder.Call{Op: hns.OpSets(hns.Remove), Began: step.Began, Count: 1, Sets: []recorder.SetValue{
					{ID: s.set("podlabel-app:api").ID, Name: "podlabel-app:api", Type: hns.IPSet},
				}})
			})
		}},
		// An endpoint that is detached is still there, with rules that need their set.
		"detached": {0, []replay.Kind{replay.Build}, func(s *stage) {
			require.NoError(s.t, s.sim.SetState("ep-1", hnssim.Detached))
			s.reconcile() // a listing lacks it
			s.apply(leave("web"), forget("web"))
			s.calls(hns.OpEndpointGet, func(step *recorder.Step, i int) { step.Calls = append(step.Calls, step.Calls[i]) })
			s.apply(pod("other", "10.0.0.3", "api")) // of the dataplane that goes on
		}},
		"other-end": {0, []replay.Kind{replay.Outcome}, func(s *stage) {
			s.apply(pod("other", "10.0.0.3", "api"))
			s.dump = func(d *state.Dump) {
				for i := range d.Sets {
					if d.Sets[i].Name == "podlabel-app:api" {
						d.Sets[i].Members = []string{"10.0.0.2"}
					}
				}
			}
		}},
		"read-late":  {0, nil, func(s *stage) { s.overlap(hnssim.Before) }},
		"read-early": {0, nil, func(s *stage) { s.overlap(hnssim.After) }},
		"one-step": {0, nil, func(s *stage) {
			s.apply(pod("other", "10.0.0.3", "api"), allow("more", "job"))
			s.options.Detail = 2
			s.view = replay.View{From: 2, To: 2, Verbose: true}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newStage(t, tc.steps)
				s.begin()
				tc.play(s)
				result := s.replay()
				var kinds []replay.Kind
				for _, step := range result.Steps {
					for _, f := range step.Findings {
						kinds = append(kinds, f.Kind)
					}
				}
				for _, f := range result.Final {
					kinds = append(kinds, f.Kind)
				}
				for _, kind := range tc.kinds {
					require.Contains(t, kinds, kind)
				}
				var text bytes.Buffer
				require.NoError(t, result.WriteText(&text, s.view))
				golden(t, name+".txt", text.String())
			})
		})
	}
}

// replay plays what was recorded, as it comes out of a file.
func (s *stage) replay() *replay.Result {
	s.t.Helper()
	rec := s.rec.Recording()
	dump := s.dp.Dump()
	s.options.Dump = &dump
	if s.taken != nil {
		rec, s.options.Dump = *s.taken, nil
	}
	if s.edit != nil {
		s.edit(&rec)
	}
	if s.dump != nil {
		s.dump(&dump)
	}
	var text bytes.Buffer
	require.NoError(s.t, recorder.Encode(&text, rec))
	rec, err := recorder.Decode(&text)
	require.NoError(s.t, err)
	result, err := replay.Replay(s.t.Context(), rec, s.options)
	require.NoError(s.t, err)
	again, err := replay.Replay(s.t.Context(), rec, s.options)
	require.NoError(s.t, err)
	require.Equal(s.t, result, again, "the same recording gives the same result")
	var out bytes.Buffer
	require.NoError(s.t, result.WriteJSON(&out, s.view))
	require.True(s.t, json.Valid(out.Bytes()))
	require.NotContains(s.t, out.String(), "null")
	return result
}

func golden(t *testing.T, name, text string) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if *update {
		require.NoError(t, os.MkdirAll("testdata", 0o755))
		require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	}
	want, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, strings.ReplaceAll(string(want), "\r\n", "\n"), text)
}
