package controllers

import (
	"context"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/util/flowcontrol"
	"k8s.io/klog/v2"

	"github.com/winnpm/winnpm/pkg/desired"
	"github.com/winnpm/winnpm/pkg/policy"
	"github.com/winnpm/winnpm/pkg/state"
)

const (
	// A hundred nodes may have reason to tell of hundreds of policies at once.
	perSecond = 1
	burst     = 25
	// sendTimeout is how long a server may take.
	sendTimeout = 30 * time.Second
)

// EventsConfig is what a Recorder needs.
type EventsConfig struct {
	Sink Sink
	Node string
	// Policy returns a policy as it is now, which is not changed; false when
	// there is none. A ClusterNetworkPolicy has no namespace. Policy must not block.
	Policy func(policy.Key) (metav1.Object, bool)
	// Selecting returns the policies that select a pod of this node. It must not
	// block.
	Selecting func(desired.PodKey) []policy.Key
	Logger    klog.Logger
}

// Recorder sends Kubernetes Events on NetworkPolicies and ClusterNetworkPolicies. They tell the owners what of
// a policy is left out or not programmed on this node, and when that has passed.
//
// A warning of the dataplane is active as long as its cause lasts, so no queue is needed:
// the active warnings are compared with what was sent. The difference goes out at the pace
// of a token bucket, round robin over the namespaces, and for each policy about once a
// minute for each reason, with a count. An Event that could not be sent is sent later if
// its cause is still there. A server that is down or slow, or refuses the Events, affects
// nothing else.
//
// The name of an Event follows from what it says. What is wrong with the policy itself is
// the same on every node, and after a restart: the server takes the first such Event and
// refuses the others, which serves as well.
type Recorder struct {
	cfg      EventsConfig         // set once
	warnings chan []state.Warning // those that are active, if Run has not seen them

	// Only Run uses the fields below.
	ledger  ledger
	limiter flowcontrol.PassiveRateLimiter
	backoff wait.Backoff
	resume  time.Time // nothing is sent before, because sending failed
	failing bool
}

// NewRecorder returns a Recorder that Run starts.
func NewRecorder(cfg EventsConfig) *Recorder {
	return &Recorder{
		cfg: cfg, warnings: make(chan []state.Warning, 1),
		ledger:  ledger{node: cfg.Node, policy: cfg.Policy, subjects: map[policy.Key]*subject{}, lastServed: map[string]uint64{}},
		limiter: flowcontrol.NewTokenBucketPassiveRateLimiter(perSecond, burst),
		backoff: pauses(),
	}
}

// pauses are the times to wait after Events that could not be sent, one by one:
// 1, 2, 4 … 300 s, and up to half as much more.
func pauses() wait.Backoff {
	return wait.Backoff{Duration: time.Second, Factor: 2, Jitter: 0.5, Steps: 10, Cap: 5 * time.Minute}
}

// Applied takes the active warnings after a transaction. It never waits, as only the worker calls it.
func (r *Recorder) Applied(a Applied) {
	if a.Err != nil { // the report may be empty, and all warnings are still active
		return
	}
	select {
	case <-r.warnings: // those of an earlier transaction
	default:
	}
	r.warnings <- a.Report.Warnings
}

// Run sends Events until ctx is done. It is called once.
func (r *Recorder) Run(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case warnings := <-r.warnings:
			r.ledger.update(time.Now(), collect(warnings, r.cfg.Selecting))
		case <-timer.C:
		}
		timer.Reset(r.step(ctx))
	}
}

// step sends one Event if it may, and returns when to come again.
func (r *Recorder) step(ctx context.Context) time.Duration {
	now := time.Now()
	f := r.ledger.next(now)
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

// send tells the server about a fact.
func (r *Recorder) send(ctx context.Context, f *fact) {
	ctx, cancel := context.WithTimeout(ctx, sendTimeout)
	defer cancel()
	r.ledger.serve(f)
	err := r.cfg.Sink.Create(ctx, r.ledger.event(f, time.Now()))
	now := time.Now()
	if !settled(err) {
		pause := r.backoff.Step()
		r.resume = now.Add(pause)
		f.due = r.resume // whatever else is due goes first then
		if !r.failing {
			r.cfg.Logger.Info("sending an Event failed, trying again", "policy", policyName(f.of), "reason", f.reason, "err", err.Error(), "retryAfter", pause)
		}
		r.failing = true
		return
	}
	r.ledger.told(f, now)
	if r.failing {
		r.cfg.Logger.Info("Events are sent again")
	}
	r.failing, r.backoff = false, pauses()
}
