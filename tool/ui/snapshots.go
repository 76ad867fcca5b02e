package ui

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"hash"
	"sync"
	"time"

	"github.com/winnpm/winnpm/pkg/state"
)

// interval is how long a dump is good for, at least: one that took long is used
// for longer.
const interval = time.Second

// snapshots takes dumps, one at a time and one for all who ask meanwhile.
type snapshots struct {
	dump func() state.Dump
	now  func() time.Time

	grids, judging *pace

	mu     sync.Mutex
	latest *snapshot
	flight chan struct{} // closed when the dump being taken is there; nil when none is
}

// snapshot is a dump that is not changed any more. Handlers share it.
type snapshot struct {
	dump    state.Dump
	taken   time.Time
	took    time.Duration
	digest  [8]byte // of all of the dump but times and reports
	derived *derived
}

// get returns a snapshot that is at most an interval old, or a rest after it was
// taken. It fails only when ctx is done.
func (s *snapshots) get(ctx context.Context) (*snapshot, error) {
	for {
		s.mu.Lock()
		latest, flight := s.latest, s.flight
		fresh := latest != nil && s.now().Sub(latest.taken) < max(interval, rest(latest.took))
		if !fresh && flight == nil {
			s.flight = make(chan struct{})
		}
		s.mu.Unlock()
		switch {
		case fresh:
			return latest, nil
		case flight == nil:
			return s.take(latest), nil
		}
		select {
		case <-flight:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// take takes the dump that others wait for. What was derived from the one
// before still holds when nothing has changed.
func (s *snapshots) take(before *snapshot) *snapshot {
	next := before
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.latest = next
		close(s.flight)
		s.flight = nil
	}()
	began := s.now()
	taken := &snapshot{dump: s.dump()}
	taken.digest = digest(taken.dump)
	taken.taken = s.now()
	taken.took = taken.taken.Sub(began)
	if before != nil && before.digest == taken.digest {
		taken.derived = before.derived
	} else {
		taken.derived = newDerived(taken.dump, s.grids, s.judging)
	}
	next = taken
	return next
}

// digest tells dumps apart that say different things.
func digest(d state.Dump) [8]byte {
	sum := sha256.New()
	out := json.NewEncoder(sum)
	_ = out.Encode([]any{d.Node, d.NodeAddrs, d.Warnings, d.Pending}) // a hash takes everything
	each(out, d.Sets)
	each(out, d.Endpoints)
	each(out, d.Policies)
	each(out, d.ClusterPolicies)
	each(out, d.Nodes)
	each(out, d.Pods)
	each(out, d.Namespaces)
	return first8(sum)
}

// each encodes a list entry by entry, so that a long one is never in memory
// twice.
func each[T any](out *json.Encoder, list []T) {
	_ = out.Encode(len(list))
	for _, v := range list {
		_ = out.Encode(v)
	}
}

func first8(sum hash.Hash) (out [8]byte) {
	copy(out[:], sum.Sum(nil))
	return out
}
