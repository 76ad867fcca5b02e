package events

import (
	"slices"
	"time"

	"github.com/winnpm/winnpm/pkg/desired"
	"github.com/winnpm/winnpm/pkg/policy"
)

const (
	// idleEvery is how often all policies are looked at that select nothing.
	idleEvery = time.Minute
	// idlePause is the pause after which is asked again while not all is known.
	idlePause = time.Second
)

// Idle says which policies select no pod of the cluster. It must not block.
type Idle interface {
	// PolicyNamespaces returns the namespaces that have policies; "" is of
	// ClusterNetworkPolicies.
	PolicyNamespaces() []string
	// SelectingNothing returns a bounded number of those of a namespace, always the same.
	SelectingNothing(namespace string) []policy.Key
}

// idleLook is what was found of policies that select nothing, and when it is looked for again.
type idleLook struct {
	next time.Time
	in   map[string][]policy.Key // by namespace
}

// lookForIdle looks at all policies when it is time, and reports whether it did. Before the first
// transaction, and while changes wait, pods may be unknown that a policy selects.
func (r *Recorder) lookForIdle(now time.Time, begun bool) bool {
	if r.cfg.Idle == nil || !begun || now.Before(r.idle.next) {
		return false
	}
	if !r.cfg.UpToDate() {
		r.idle.next = now.Add(idlePause)
		return false
	}
	clear(r.idle.in)
	for _, namespace := range r.cfg.Idle.PolicyNamespaces() {
		if found := r.cfg.Idle.SelectingNothing(namespace); len(found) > 0 {
			r.idle.in[namespace] = found
		}
	}
	r.idle.next = now.Add(idleEvery)
	return true
}

// untilIdle returns how long it is until the next look.
func (r *Recorder) untilIdle(now time.Time) time.Duration {
	if r.idle.next.IsZero() { // there was no transaction, which wakes
		return again
	}
	return r.idle.next.Sub(now)
}

// waitsForIdle puts off what is told of policies that select nothing while not all is known.
func (r *Recorder) waitsForIdle(now time.Time) bool {
	if r.cfg.UpToDate() {
		return false
	}
	r.ledger.putOff(now.Add(idlePause))
	return true
}

// stillIdle asks once more about a policy before it is told that it selects nothing: its pods may
// have come since the last look.
func (r *Recorder) stillIdle(f *fact) bool {
	found := r.cfg.Idle.SelectingNothing(f.of.Namespace)
	if slices.Contains(found, f.of) {
		return true
	}
	r.idle.in[f.of.Namespace] = found
	r.mu.Lock()
	r.fresh = true
	r.mu.Unlock()
	return false
}

// note adds the policies that select nothing to the active warnings.
func (l *idleLook) note(s activeWarnings) {
	for _, keys := range l.in {
		for _, key := range keys {
			w := desired.SelectingNothing(key)
			if s.accounts[key] == nil {
				s.accounts[key] = map[topic]account{}
			}
			t := topic{reason: w.Reason}
			s.accounts[key][t] = t.account([]string{w.Message})
		}
	}
}
