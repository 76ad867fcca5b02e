package simulate

import (
	"context"
	"io"
	"sync"

	"github.com/winnpm/winnpm/pkg/debug"
	"github.com/winnpm/winnpm/pkg/state"
	"github.com/winnpm/winnpm/tool/explain"
)

// Snapshot runs the program as Run does until the first convergence, and returns the dump
// of that moment and where the manifests have the policies. It uses only the options that
// say what to simulate.
func Snapshot(ctx context.Context, o Options) (state.Dump, explain.Places, error) {
	m, err := converged(ctx, o, settling{allMakers: true})
	if err != nil {
		return state.Dump{}, nil, err
	}
	return m.state.Dump(), m.places, nil
}

// converged runs the program until its first convergence, and ends it. Of what it knew
// there are only HNS and a snapshot then.
func converged(ctx context.Context, o Options, how settling) (moment, error) {
	in, err := open(o, how.allMakers)
	if err != nil {
		return moment{}, err
	}
	return convergedOn(ctx, o, in, how)
}

// convergedOn does it with what was read.
func convergedOn(ctx context.Context, o Options, in *input, how settling) (m moment, err error) {
	err = settledOn(ctx, o, in, how, func(s *session) error {
		if how.older {
			s.findOlder(ctx)
		}
		m = s.last()
		return nil
	})
	return m, err
}

// Bundle runs the program as Snapshot does, and writes the support bundle of that
// moment.
func Bundle(ctx context.Context, o Options, w io.Writer) error {
	return settled(ctx, o, settling{allMakers: true, recording: true}, func(s *session) error { return debug.WriteBundle(w, s.pages()) })
}

// pages is what the agent's HTTP endpoint shows.
func (s *session) pages() debug.Config {
	return debug.Config{
		Dump: s.dataplane.Dump, Healthy: s.controller.Healthy, Ready: s.controller.Ready,
		Recording: s.recorder.Write, Version: s.version,
		Settings: map[string]any{"simulated": true, "node": s.node},
	}
}

// settling says how a simulation comes to its first convergence.
type settling struct {
	allMakers bool // as open reads them
	recording bool
	older     bool // look for policies of older versions
}

// settled lets use see the program at its first convergence, and ends it.
func settled(ctx context.Context, o Options, how settling, use func(*session) error) error {
	in, err := open(o, how.allMakers)
	if err != nil {
		return err
	}
	return settledOn(ctx, o, in, how, use)
}

// settledOn does it with what was read.
func settledOn(ctx context.Context, o Options, in *input, how settling, use func(*session) error) error {
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	s := newSession(o, in, how.recording)
	running.Go(func() { s.controller.Run(ctx) })
	if err := s.settle(ctx, o); err != nil {
		return err
	}
	return use(s)
}
