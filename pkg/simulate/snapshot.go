package simulate

import (
	"context"
	"sync"

	"github.com/winnpm/winnpm/pkg/dataplane"
	"github.com/winnpm/winnpm/pkg/explain"
)

// Snapshot runs the program as Run does until the first convergence, and returns
// the dump of that moment and where the manifests have the policies. Of the
// options those count that say what to simulate.
func Snapshot(ctx context.Context, o Options) (dataplane.Dump, explain.Places, error) {
	in, err := open(o)
	if err != nil {
		return dataplane.Dump{}, nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	s := newSession(o, in)
	running.Go(func() { s.controller.Run(ctx) })
	if err := s.settle(ctx, o); err != nil {
		return dataplane.Dump{}, nil, err
	}
	return s.dataplane.Dump(), in.places, nil
}
