package ui

import (
	"context"
	"sync"
	"time"

	"github.com/winnpm/winnpm/pkg/state"
	"github.com/winnpm/winnpm/tool/explain"
)

// snapshots keeps the last dump, and replaces it when a request finds it too old.
type snapshots struct {
	cfg    Config
	turn   chan struct{} // holds an entry while a request uses latest
	latest *snapshot
}

func newSnapshots(cfg Config) *snapshots {
	return &snapshots{cfg: cfg, turn: make(chan struct{}, 1)}
}

// get returns the last snapshot, or a new one if the last one is older than Config.MaxAge. Concurrent
// requests share it.
func (s *snapshots) get(ctx context.Context) (*snapshot, error) {
	select {
	case s.turn <- struct{}{}:
		defer func() { <-s.turn }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if s.latest != nil && (s.cfg.MaxAge == 0 || time.Since(s.latest.taken) < s.cfg.MaxAge) {
		return s.latest, nil
	}
	d, err := s.cfg.Dump(ctx)
	if err != nil {
		return nil, err
	}
	s.latest = newSnapshot(d)
	return s.latest, nil
}

// snapshot is a dump with values that are computed from it on first use. Requests share it and do not
// change the dump.
type snapshot struct {
	dump      state.Dump
	taken     time.Time
	findings  func() *findings
	policies  func() []policyEntry
	workloads func() workloads

	asking chan struct{} // holds an entry while a request uses workloads.cluster or grids
	grids  map[gridKey]grid
}

// workloads are the workloads of a cluster. Only the request that holds snapshot.asking may use the
// cluster.
type workloads struct {
	cluster *explain.Cluster
	all     []workloadEntry
}

func newSnapshot(d state.Dump) *snapshot {
	s := &snapshot{dump: d, taken: time.Now(), asking: make(chan struct{}, 1), grids: map[gridKey]grid{}}
	s.findings = sync.OnceValue(func() *findings { return newFindings(&d) })
	s.policies = sync.OnceValue(s.judge)
	s.workloads = sync.OnceValue(func() workloads {
		c := explain.New(d)
		return workloads{c, entriesOf(c)}
	})
	return s
}

// lock returns the cluster for exclusive use until the caller calls unlock. It fails only if ctx is done.
func (s *snapshot) lock(ctx context.Context) (c *explain.Cluster, unlock func(), err error) {
	select {
	case s.asking <- struct{}{}:
		return s.workloads().cluster, func() { <-s.asking }, nil
	case <-ctx.Done():
		return nil, nil, ctx.Err()
	}
}
