package dataplane

import (
	"slices"
	"time"

	"github.com/winnpm/winnpm/pkg/desired"
	"github.com/winnpm/winnpm/pkg/endpoints"
	"github.com/winnpm/winnpm/pkg/ipsets"
	"github.com/winnpm/winnpm/pkg/policy"
	"github.com/winnpm/winnpm/pkg/state"
)

// Snapshot is the state of a Dataplane at one moment. Transactions go on beside it: what
// it points to is replaced when it changes, and what is changed in place was copied.
type Snapshot struct {
	active    activeWarnings
	desired   desired.Copied
	sets      *ipsets.Copy
	now       time.Time
	endpoints endpoints.Copied
	reports   []state.Report
	due       state.Due
	spellings []state.Spelling
	cut       bool
	lookAge   time.Duration
	progress  state.Progress
}

// Snapshot takes the state as it is now. It never waits for HNS. A transaction waits for
// it, milliseconds among 100,000 pods (ADR 26). Order and text come with Dump.
func (d *Dataplane) Snapshot() *Snapshot {
	s := &Snapshot{progress: d.Progress()}
	d.with(s.take)
	return s
}

// Dump returns a snapshot of the whole state, as Snapshot and its Dump do.
func (d *Dataplane) Dump() state.Dump { return d.Snapshot().Dump() }

// take copies the state.
func (s *Snapshot) take(d *core) {
	s.now, s.reports = d.clock, slices.Clone(d.reports)
	s.spellings, s.cut, s.lookAge = d.spellings.All(), d.spellings.OthersCut(), d.lookAge(s.now)
	d.endpoints.DumpDue(&s.due)
	s.active, s.endpoints = d.activeWarnings(), d.endpoints.Copy()
	s.active.endpoints = s.endpoints.View
	s.desired = d.desired.Copy()
	s.sets = d.cache.Copy()
}

// Warnings returns the active warnings, sorted. It never waits for HNS.
func (d *Dataplane) Warnings() (active []state.Warning) {
	d.with(func(c *core) { active = c.activeWarnings().warnings() })
	return active
}

// Selecting returns the policies that select a local pod, sorted. It never waits
// for HNS.
func (d *Dataplane) Selecting(pod desired.PodKey) (keys []policy.Key) {
	d.with(func(c *core) { keys = c.desired.Selecting(pod) })
	return keys
}
