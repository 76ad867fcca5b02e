package dataplane

import (
	"time"

	"github.com/winnpm/winnpm/pkg/backoff"
	"github.com/winnpm/winnpm/pkg/desired"
	"github.com/winnpm/winnpm/pkg/drift"
	"github.com/winnpm/winnpm/pkg/endpoints"
	"github.com/winnpm/winnpm/pkg/ipsets"
	"github.com/winnpm/winnpm/pkg/state"
)

// core is all state that Dataplane.mu guards: what should be on the node, and what is known
// to be there. Its methods neither call HNS nor read a clock.
type core struct {
	cfg      Config
	progress *progress // of the transaction that runs; read without a lock
	clock    time.Time // when the lock was taken last; it does not go on meanwhile

	cache      *ipsets.Cache        // desired and actual sets
	desired    *desired.State       // what should be
	endpoints  *endpoints.State     // what is known of endpoints, and what they wait for
	leftOut    map[ipsets.Name]bool // sets that HNS refused
	lacking    map[ipsets.Name]bool // nested deny twins that lack one of these
	generation uint64               // of transactions
	looks      looks
	spellings  drift.Spellings
	sets       backoff.Retry
	setWork    setWork
	fresh      bool // our sets were not read yet
	reports    []state.Report
	now        time.Time // when the last transaction began
	drift      drift.Log
}

// newCore returns the state of a node of which nothing is known yet.
func newCore(cfg Config, now time.Time, notes *progress) *core {
	cache := ipsets.NewCache()
	d := &core{
		cfg:      cfg,
		progress: notes,
		cache:    cache,
		desired:  desired.New(desired.Settings{Budgets: cfg.Budgets, BaseACLs: cfg.BaseACLs}, cache, notes.Note),
		leftOut:  map[ipsets.Name]bool{},
		drift:    drift.NewLog(),
		setWork:  setWork{refused: map[ipsets.Name]*backoff.Again{}, removals: map[ipsets.Name]*removal{}},
		fresh:    true,
	}
	d.endpoints = endpoints.New(
		endpoints.Settings{MaxBatchedACLs: cfg.MaxBatchedACLs, MaxRepairs: cfg.MaxRepairs, LookPeriod: cfg.LookPeriod},
		endpoints.Dependencies{
			Cache: cache, Desired: d.desired, Drift: &d.drift, Spellings: &d.spellings,
		})
	d.tick(now)
	return d
}

// tick sets the clock.
func (d *core) tick(now time.Time) {
	d.clock = now
	d.endpoints.Tick(now)
}
