package controllers

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/util/flowcontrol"
	"k8s.io/klog/v2"

	"github.com/winnpm/winnpm/pkg/desired"
	"github.com/winnpm/winnpm/pkg/policy"
	"github.com/winnpm/winnpm/pkg/state"
)

const (
	// perSecond and burst limit the rate of Events: a hundred nodes may each have Events on
	// hundreds of policies at the same time.
	perSecond = 1
	burst     = 25
	// sendTimeout limits one request to the server.
	sendTimeout = 30 * time.Second

	// tellPatience is how long a failure that is retried must last before its Event is sent.
	tellPatience = time.Minute
	// tellAgain is the interval at which the Event of an active warning is repeated. By default a
	// server deletes Events after an hour.
	tellAgain = 65 * time.Minute
	// tellPause is the least time between two Events of one topic, after the first tellQuick
	// Events. After tellCalm without an Event of the topic, the count starts again.
	tellPause = time.Minute
	tellQuick = 3
	tellCalm  = 10 * time.Minute

	// reasonProgrammed is the reason of the Event which says that all warnings of a policy have
	// passed.
	reasonProgrammed state.Reason = "Programmed"
)

// EventsConfig is what a Recorder needs.
type EventsConfig struct {
	Sink Sink
	Node string
	// Policy returns the current version of a policy, which must not be changed, or false if there
	// is none. The key of a ClusterNetworkPolicy has no namespace. Policy must not block.
	Policy func(policy.Key) (metav1.Object, bool)
	// Selecting returns the policies that select a pod of this node. It must not
	// block.
	Selecting func(desired.PodKey) []policy.Key
	Logger    klog.Logger
}

// Recorder sends Kubernetes Events on NetworkPolicies and ClusterNetworkPolicies. The Events tell
// the owners which parts of a policy are left out or not programmed on this node, and when that has
// passed.
//
// A warning of the dataplane is active as long as its cause lasts, so the Recorder needs no queue:
// it compares the active warnings with the Events that it sent. It sends the difference at the pace
// of a token bucket, and serves the namespaces round robin. If sending fails, the Event is sent
// later if its cause still lasts.
type Recorder struct {
	cfg      EventsConfig         // set once
	warnings chan []state.Warning // the latest active warnings, until Run takes them

	// Only Run uses the fields below.
	facts   map[topic]*fact
	served  string // the namespace that was served last
	limiter flowcontrol.PassiveRateLimiter
	backoff wait.Backoff
	resume  time.Time // after a failure: when to send again
	failing bool      // the last attempt failed
}

// topic is what an Event is about. All warnings of a topic are one Event with a count, because the
// author of a policy may give it as many faults as fit into an object.
type topic struct {
	policy policy.Key
	uid    types.UID
	reason state.Reason
	// pods is set if pods that the policy selects are not programmed, and the policy is not at fault.
	pods bool
	// everywhere is set if every node finds the same, and so sends the same Event.
	everywhere bool
}

// fact is the state of a topic: the active warnings, and the Events that were sent.
type fact struct {
	topic
	text   string
	active bool
	since  time.Time // when it became active
	due    time.Time // when to send the Event, for the first time or again
	told   time.Time // when it was sent the last time
	times  int       // Events sent since the last pause of tellCalm
	open   bool      // it was sent, and Programmed was not sent since
}

// NewRecorder returns a Recorder that Run starts.
func NewRecorder(cfg EventsConfig) *Recorder {
	return &Recorder{
		cfg: cfg, warnings: make(chan []state.Warning, 1), facts: map[topic]*fact{},
		limiter: flowcontrol.NewTokenBucketPassiveRateLimiter(perSecond, burst),
		backoff: pauses(),
	}
}

// pauses returns the backoff after failed attempts: 1, 2, 4 … 300 s, and up to half as much more.
func pauses() wait.Backoff {
	return wait.Backoff{Duration: time.Second, Factor: 2, Jitter: 0.5, Steps: 10, Cap: 5 * time.Minute}
}

// Applied takes the active warnings after a transaction. It never waits. Only the worker may call
// it.
func (r *Recorder) Applied(a Applied) {
	if a.Err != nil { // the report may be empty, and all warnings are still active
		return
	}
	select {
	case <-r.warnings: // drop the warnings of an earlier transaction
	default:
	}
	r.warnings <- a.Report.Warnings
}

// Run sends Events until ctx is done. It must be called only once.
func (r *Recorder) Run(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case warnings := <-r.warnings:
			r.update(time.Now(), warnings)
		case <-timer.C:
		}
		timer.Reset(r.step(ctx))
	}
}

// step sends one Event if one is due, and returns the time until the next call.
func (r *Recorder) step(ctx context.Context) time.Duration {
	now := time.Now()
	f := r.next(now)
	if f == nil {
		return tellAgain
	}
	at := f.due
	if at.Before(r.resume) {
		at = r.resume
	}
	switch {
	case at.After(now):
		return at.Sub(now)
	case !r.limiter.TryAccept():
		return time.Second / perSecond
	}
	r.send(ctx, f)
	return 0
}

// send sends the Event of a fact.
func (r *Recorder) send(ctx context.Context, f *fact) {
	ctx, cancel := context.WithTimeout(ctx, sendTimeout)
	defer cancel()
	r.served = f.policy.Namespace
	err := r.cfg.Sink.Create(ctx, r.event(f, time.Now()))
	now := time.Now()
	if !settled(err) {
		pause := r.backoff.Step()
		r.resume = now.Add(pause)
		f.due = r.resume // other due Events go first
		if !r.failing {
			r.cfg.Logger.Info("sending an Event failed, trying again", "policy", policyName(f.policy), "reason", f.reason, "err", err.Error(), "retryAfter", pause)
		}
		r.failing = true
		return
	}
	if r.failing {
		r.cfg.Logger.Info("Events are sent again")
	}
	r.failing, r.backoff = false, pauses()
	if now.Sub(f.told) >= tellCalm {
		f.times = 0
	}
	f.told, f.times, f.due = now, f.times+1, now.Add(tellAgain)
	if f.open = f.reason != reasonProgrammed; f.open {
		return
	}
	f.active = false
	for _, other := range r.facts {
		other.open = other.open && other.policy != f.policy
	}
}

// update replaces the active warnings. It forgets policies that were deleted, or deleted and
// created again.
func (r *Recorder) update(now time.Time, warnings []state.Warning) {
	here := map[policy.Key]bool{} // the policies with open facts; true if one of the facts concerns this node alone
	for t, f := range r.facts {
		if np, ok := r.cfg.Policy(t.policy); !ok || np.GetUID() != t.uid {
			delete(r.facts, t)
		} else if f.open {
			here[t.policy] = here[t.policy] || !t.everywhere
		}
	}
	texts, away := r.collect(warnings)
	for t := range texts {
		delete(here, t.policy)
	}
	if !away {
		for key, is := range here {
			r.addText(texts, topic{policy: key, reason: reasonProgrammed, everywhere: !is}, "nothing of it is left out or failing any more")
		}
	}
	for t, f := range r.facts {
		f.active = f.active && texts[t] != nil
		if texts[t] == nil && !f.open && now.Sub(f.told) >= tellCalm {
			delete(r.facts, t)
		}
	}
	for t, all := range texts {
		f := r.facts[t]
		if f == nil {
			f = &fact{topic: t}
			r.facts[t] = f
		}
		f.update(now, t.text(all))
	}
}

// update records that a fact is active with this text.
func (f *fact) update(now time.Time, text string) {
	due := now
	if f.pods || f.reason == state.ReasonHNSUnavailable { // the pods of a policy may be written right after it
		due = due.Add(tellPatience)
	}
	if pause := f.told.Add(tellPause); f.times >= tellQuick && pause.After(due) {
		due = pause
	}
	if !f.active {
		f.active, f.since, f.due = true, now, due
	}
	if f.text != text && !f.pods && f.due.After(due) { // which pods fail changes while HNS is in trouble
		f.due = due
	}
	f.text = text
}

// collect groups the texts of warnings by topic. A warning on a pod concerns every policy that
// selects the pod. away is true if HNS does not answer at all, so that it is unknown what is
// programmed.
func (r *Recorder) collect(warnings []state.Warning) (texts map[topic][]string, away bool) {
	texts = map[topic][]string{}
	for _, w := range warnings {
		namespace, name, _ := strings.Cut(w.Object, "/")
		t := topic{reason: w.Reason, everywhere: everywhere(w)}
		switch w.Kind {
		case "NetworkPolicy":
			t.policy = policy.Key{Namespace: namespace, Name: name}
			r.addText(texts, t, w.Message)
		case "ClusterNetworkPolicy":
			t.policy = policy.Key{Name: w.Object}
			r.addText(texts, t, w.Message)
		case "Pod", desired.RemotePod:
			t.pods = true
			for _, t.policy = range r.cfg.Selecting(desired.PodKey{Namespace: namespace, Name: name}) {
				r.addText(texts, t, fmt.Sprintf("%s pod %s: %s", effectOnPolicy(w.Reason), name, w.Message))
			}
		case "Node":
			away = true
		}
	}
	return texts, away
}

// addText adds a text to a topic if the policy exists.
func (r *Recorder) addText(texts map[topic][]string, t topic, text string) {
	if np, ok := r.cfg.Policy(t.policy); ok {
		t.uid = np.GetUID()
		texts[t] = append(texts[t], text)
	}
}

// everywhere reports whether a warning follows from objects alone, so that every node sends the same.
func everywhere(w state.Warning) bool {
	if w.Kind == desired.RemotePod {
		return true
	}
	switch w.Reason {
	case state.ReasonHNSRejected, state.ReasonHNSUnavailable, state.ReasonForeignWrites, state.ReasonAddressContested,
		state.ReasonIPv6Blocked, state.ReasonNodesUnknown: // depend on this node or its agent
		return false
	case state.ReasonSelectsNothing, state.ReasonOverBudget: // these follow from objects: each node that has such pods sends the same
	}
	return true
}

// effectOnPolicy returns what a warning on a pod means for a policy that selects the pod, as the beginning
// of a sentence.
func effectOnPolicy(reason state.Reason) string {
	switch reason {
	case state.ReasonAddressContested:
		return "in doubt for"
	case state.ReasonIPv6Blocked:
		return "stricter than written for"
	default:
	}
	return "not in force for"
}

// text combines the texts of a topic. The result does not depend on their order.
func (t topic) text(all []string) string {
	first := slices.Min(all)
	switch n := len(all); {
	case n > 1 && t.pods:
		return fmt.Sprintf("in %d pods, one of them: %s", n, first)
	case n > 1:
		return fmt.Sprintf("%d times, the first: %s", n, first)
	}
	return first
}

// next returns the fact to send first, or nil if there is none. Facts that are due are sent round
// robin by namespace, in the order of the names, so a namespace waits for at most one Event of each
// other namespace. Within a namespace, and among facts that are not due, the earliest due time
// comes first.
func (r *Recorder) next(now time.Time) *fact {
	var first *fact
	for _, f := range r.facts {
		if f.active && (first == nil || r.compare(f, first, now) < 0) {
			first = f
		}
	}
	return first
}

func (r *Recorder) compare(f, g *fact, now time.Time) int {
	if !f.due.After(now) && !g.due.After(now) {
		x, y := f.policy.Namespace, g.policy.Namespace
		if served := x <= r.served; served != (y <= r.served) { // f and g are served in different rounds
			if served {
				return 1
			}
			return -1
		}
		if x != y {
			return cmp.Compare(x, y)
		}
	}
	if by := cmp.Or(f.due.Compare(g.due), strings.Compare(f.policy.Namespace, g.policy.Namespace), strings.Compare(f.policy.Name, g.policy.Name)); by != 0 {
		return by
	}
	return strings.Compare(fmt.Sprint(f.topic), fmt.Sprint(g.topic)) // breaks ties, so that the order is unique
}
