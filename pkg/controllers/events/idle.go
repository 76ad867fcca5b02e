package events

import (
	"maps"
	"slices"
	"time"

	"github.com/winnpm/winnpm/pkg/desired"
	"github.com/winnpm/winnpm/pkg/policy"
	"github.com/winnpm/winnpm/pkg/state"
)

const (
	// idleEvery is how often all policies are looked at that select nothing.
	idleEvery = time.Minute
	// idlePause is the pause after which is asked again while not all is known.
	idlePause = time.Second
)

// Idle says which policies select no pod of the cluster. It must not block.
type Idle interface {
	// PolicyNamespaces returns the namespaces that have policies, sorted; "" is of
	// ClusterNetworkPolicies.
	PolicyNamespaces() []string
	// SelectingNothing returns a bounded number of those of a namespace, always the same.
	SelectingNothing(namespace string) []policy.Key
	// MaySelectIn reports whether a ClusterNetworkPolicy may select pods of one of the namespaces.
	MaySelectIn(name string, namespaces []string) bool
}

// idleLook is what was found of policies that select nothing, and when it is looked for again.
type idleLook struct {
	next  time.Time // the next look, at those that are left or at all
	round time.Time // the next look at all
	left  []string  // namespaces that were not looked at in this round
	in    map[string]found
}

// found are the policies of a namespace that select nothing, with what is told of them.
type found map[policy.Key]account

func newFound(keys []policy.Key) found {
	out := make(found, len(keys))
	for _, key := range keys {
		w := desired.SelectingNothing(key)
		out[key] = topic{reason: w.Reason}.account([]string{w.Message})
	}
	return out
}

// lookForIdle looks at all policies when it is time, and reports whether it looked at some. Before
// the first transaction, and while changes of a namespace wait, pods may be unknown that a policy
// selects: such a namespace keeps what was found until its changes are known. Each has its own
// time, so that one whose pods change without a pause does not keep it from the others.
func (r *Recorder) lookForIdle(now time.Time, begun bool) bool {
	x := &r.idle
	if r.cfg.Idle == nil || !begun || now.Before(x.next) {
		return false
	}
	if !now.Before(x.round) {
		x.left, x.round = r.cfg.Idle.PolicyNamespaces(), now.Add(idleEvery)
		maps.DeleteFunc(x.in, func(namespace string, _ found) bool {
			_, has := slices.BinarySearch(x.left, namespace)
			return !has
		})
	}
	looked := false
	x.left = slices.DeleteFunc(x.left, func(namespace string) bool {
		if !r.cfg.UpToDate(namespace) {
			return false
		}
		r.lookIn(namespace)
		looked = true
		return true
	})
	if x.next = x.round; len(x.left) > 0 {
		x.next = now.Add(idlePause)
	}
	return looked
}

// lookIn looks at the policies of a namespace that is up to date. A ClusterNetworkPolicy that may
// select pods of a namespace that is behind is not added in this round; one that was found before
// stays.
func (r *Recorder) lookIn(namespace string) {
	var behind []string
	if namespace == "" {
		behind = r.cfg.Behind()
	}
	was, now := r.idle.in[namespace], newFound(r.cfg.Idle.SelectingNothing(namespace))
	for key := range now {
		if len(behind) > 0 && !is(was, key) && r.cfg.Idle.MaySelectIn(key.Name, behind) {
			delete(now, key)
		}
	}
	if r.idle.in[namespace] = now; len(now) == 0 {
		delete(r.idle.in, namespace)
	}
}

func is(f found, key policy.Key) bool { _, ok := f[key]; return ok }

// untilIdle returns how long it is until the next look.
func (r *Recorder) untilIdle(now time.Time) time.Duration {
	if r.idle.next.IsZero() { // there was no transaction, which wakes
		return again
	}
	return r.idle.next.Sub(now)
}

// waitsForIdle puts off what is told of a policy that selects nothing while not all is known on
// which that depends; with it that of all policies of its namespace.
func (r *Recorder) waitsForIdle(f *fact, now time.Time) bool {
	switch {
	case !r.cfg.UpToDate(f.of.Namespace):
		r.ledger.putOff(f.of.Namespace, now.Add(idlePause))
		return true
	case f.of.Namespace == "" && r.cfg.Idle.MaySelectIn(f.of.Name, r.cfg.Behind()):
		f.due = now.Add(idlePause)
		return true
	}
	return false
}

// stillIdle asks once more about a policy before it is told that it selects nothing: its pods may
// have come since the last look.
func (r *Recorder) stillIdle(f *fact) bool {
	if slices.Contains(r.cfg.Idle.SelectingNothing(f.of.Namespace), f.of) {
		return true
	}
	r.lookIn(f.of.Namespace)
	r.mu.Lock()
	r.fresh = true
	r.mu.Unlock()
	return false
}

// note adds the policies that select nothing to the active warnings.
func (l *idleLook) note(s activeWarnings) {
	t := topic{reason: state.ReasonSelectsNothing}
	for _, keys := range l.in {
		for key, a := range keys {
			if s.accounts[key] == nil {
				s.accounts[key] = make(map[topic]account, 1)
			}
			s.accounts[key][t] = a
		}
	}
}
