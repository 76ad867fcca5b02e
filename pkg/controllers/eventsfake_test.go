package controllers

import (
	"context"

	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/zapr"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	zapobserver "go.uber.org/zap/zaptest/observer"
	eventsv1 "k8s.io/api/events/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/network-policy-api/apis/v1alpha2"

	"github.com/winnpm/winnpm/pkg/desired"
	"github.com/winnpm/winnpm/pkg/policy"
	"github.com/winnpm/winnpm/pkg/state"
)

// world is a Recorder in a synctest bubble, with what it asks and tells.
type world struct {
	*Recorder
	t    *testing.T
	logs *zapobserver.ObservedLogs

	mu       sync.Mutex // guards following
	policies map[policy.Key]*networkingv1.NetworkPolicy
	clusters map[string]*v1alpha2.ClusterNetworkPolicy
	selected map[desired.PodKey][]policy.Key
	sent     []*eventsv1.Event // what Create was called with
	at       []time.Duration   // when, since the start
	answer   func(*eventsv1.Event) error
	began    time.Time
}

// runEvents plays a test with policies that are there from the start.
func runEvents(t *testing.T, policies []string, play func(w *world)) {
	t.Helper()
	runOn(t, "win-1", policies, play)
}

func runOn(t *testing.T, node string, policies []string, play func(w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		core, logs := zapobserver.New(zapcore.InfoLevel)
		w := &world{
			t: t, logs: logs, policies: map[policy.Key]*networkingv1.NetworkPolicy{}, selected: map[desired.PodKey][]policy.Key{},
			answer: func(*eventsv1.Event) error { return nil }, began: time.Now(),
		}
		for _, name := range policies {
			w.write(name, 1)
		}
		w.Recorder = NewRecorder(EventsConfig{Sink: w, Node: node, Policy: w.policy, Selecting: w.selecting, Logger: zapr.NewLogger(zap.New(core))})
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel() // a failed test would move the bubble's clock for good
		done := make(chan struct{})
		go func() {
			defer close(done)
			w.Run(ctx)
		}()
		play(w)
		cancel()
		<-done
	})
}

// key is that of a policy of the one namespace.
func key(name string) policy.Key { return policy.Key{Namespace: "x", Name: name} }

// write creates a policy, or gives it another generation.
func (w *world) write(name string, generation int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.policies[key(name)] = &networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{
		Namespace: "x", Name: name, UID: types.UID("uid-" + name), Generation: generation,
	}}
}

func (w *world) remove(name string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.policies, key(name))
}

// replace deletes a policy and creates one with its name.
func (w *world) replace(name string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	other := w.policies[key(name)].DeepCopy()
	other.UID = "another one"
	w.policies[key(name)] = other
}

func (w *world) policy(k policy.Key) (metav1.Object, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if cnp, ok := w.clusters[k.Name]; ok && k.Namespace == "" {
		return cnp, true
	}
	np, ok := w.policies[k]
	return np, ok
}

func (w *world) selecting(pod desired.PodKey) []policy.Key {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.selected[pod]
}

func (w *world) selects(pod string, names ...string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, name := range names {
		at := desired.PodKey{Namespace: "x", Name: pod}
		w.selected[at] = append(w.selected[at], key(name))
	}
}

// Create implements Sink.
func (w *world) Create(ctx context.Context, e *eventsv1.Event) error {
	w.mu.Lock()
	w.sent = append(w.sent, e)
	w.at = append(w.at, time.Since(w.began))
	answer := w.answer
	w.mu.Unlock()
	if answer == nil { // never
		<-ctx.Done()
		return ctx.Err()
	}
	return answer(e)
}

func (w *world) answers(answer func(*eventsv1.Event) error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.answer = answer
}

// activate hands over a transaction after which these warnings are active, and returns
// when what could be told at once is told.
func (w *world) activate(warnings ...state.Warning) {
	w.Applied(Applied{Report: state.Report{Warnings: warnings}})
	synctest.Wait()
}

// events returns what was sent since the last call, and when.
func (w *world) events() ([]*eventsv1.Event, []time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	sent, at := w.sent, w.at
	w.sent, w.at = nil, nil
	return sent, at
}

// took returns what was sent since the last call: type, policy and reason.
func (w *world) took() []string {
	sent, _ := w.events()
	var out []string
	for _, e := range sent {
		out = append(out, fmt.Sprintf("%s %s %s", e.Type, e.Regarding.Name, e.Reason))
	}
	return out
}

// one returns the only event that was sent since the last call.
func (w *world) one() *eventsv1.Event {
	w.t.Helper()
	sent, _ := w.events()
	require.Len(w.t, sent, 1)
	return sent[0]
}

// ipv6 is a warning that follows from the policy alone.
func ipv6(name, message string) state.Warning {
	return state.Warning{Object: "x/" + name, Kind: "NetworkPolicy", Reason: state.Reason(policy.ReasonIPv6Peer), Message: message}
}

// rejected is one that only this node has.
func rejected(name, message string) state.Warning {
	return state.Warning{Object: "x/" + name, Kind: "NetworkPolicy", Reason: state.ReasonHNSRejected, Message: message}
}

// stuck is one about a pod.
func stuck(pod, message string) state.Warning {
	return state.Warning{Object: "x/" + pod, Kind: "Pod", Reason: state.ReasonHNSUnavailable, Message: message}
}
