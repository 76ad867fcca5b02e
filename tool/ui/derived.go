package ui

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/winnpm/winnpm/pkg/state"
	"github.com/winnpm/winnpm/tool/matrix"
)

// derived is what is made from a dump when it is first asked for.
type derived struct {
	dump state.Dump
	pace *pace // of grids, whatever the dump

	namesOnce sync.Once
	named     *names

	listing chan struct{} // who is in it has what follows
	judging *pace         // of judging policies, whatever the dump
	judged  []policyEntry // nil: nobody asked yet

	place  chan struct{} // who is in it has what follows
	matrix *matrix.Matrix
	grids  map[gridKey]grid

	workloads atomic.Pointer[[]workloadEntry] // once there is a matrix; nobody changes them
}

// entries returns the workloads. It waits for a matrix only when there was none yet.
func (d *derived) entries(ctx context.Context) ([]workloadEntry, error) {
	if all := d.workloads.Load(); all != nil {
		return *all, nil
	}
	m, unlock, err := d.lock(ctx)
	if err != nil {
		return nil, err
	}
	defer unlock()
	return entries(m), nil
}

func newDerived(dump state.Dump, grids, judging *pace) *derived {
	return &derived{dump: dump, pace: grids, judging: judging, listing: make(chan struct{}, 1), place: make(chan struct{}, 1), grids: map[gridKey]grid{}}
}

func (d *derived) names() *names {
	d.namesOnce.Do(func() { d.named = newNames(d.dump) })
	return d.named
}

// lock returns the matrix, which is the caller's until unlock is called. It fails
// only when ctx is done.
func (d *derived) lock(ctx context.Context) (m *matrix.Matrix, unlock func(), err error) {
	select {
	case d.place <- struct{}{}:
	case <-ctx.Done():
		return nil, nil, ctx.Err()
	}
	if d.matrix == nil {
		d.matrix = matrix.New(d.dump)
		all := entries(d.matrix)
		d.workloads.Store(&all)
	}
	return d.matrix, func() { <-d.place }, nil
}
