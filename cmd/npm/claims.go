package main

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/winnpm/winnpm/pkg/cli"
	"github.com/winnpm/winnpm/pkg/debug"
	"github.com/winnpm/winnpm/pkg/node"
)

// pipeAgain is between two tries to make the pipe of the CNI plugin, while somebody else has
// it.
const pipeAgain = 5 * time.Second

var _ node.Claimer = (*agent)(nil)

// gate begins to answer the CNI plugin, if it is to. A claim waits until the cluster is known,
// so this comes first: the first pod of a node may be what makes its network. end ends it, and
// waits.
func (a *agent) gate(ctx context.Context) (end func()) {
	if a.dry != nil || a.set.CNIPipe == "" {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	running.Go(func() { a.answerClaims(ctx) })
	return func() {
		cancel()
		running.Wait()
	}
}

// answerClaims answers the CNI plugin until ctx is done. Without its pipe the agent works all
// the same, and pods start as the plugin's mode says.
func (a *agent) answerClaims(ctx context.Context) {
	last := ""
	for ctx.Err() == nil {
		l, err := a.host.pipe(a.set.CNIPipe)
		if err == nil {
			last = ""
			a.logger.Info("answering the CNI plugin", "pipe", a.set.CNIPipe)
			err = node.Serve(ctx, l, a, a.logger)
		}
		if err == nil {
			return
		}
		if text := cli.Printable(err.Error()); text != last {
			last = text
			cli.Warn(a.logger, "the CNI plugin gets no answers, trying again", "pipe", a.set.CNIPipe, "err", text, "every", pipeAgain)
		}
		_ = sleep(ctx, pipeAgain) // the loop looks at ctx
	}
}

// Claim implements node.Claimer: it measures the controller's, and tells of pods that start
// without their rules.
func (a *agent) Claim(ctx context.Context, c node.Claim) error {
	began := time.Now()
	err := a.ctl.Claim(ctx, c)
	took, cause := time.Since(began), context.Cause(ctx)
	pod := c.Namespace + "/" + c.Name
	switch {
	case err == nil:
		a.metrics.Claimed(debug.ClaimReady)
		a.logger.V(1).Info("a pod starts with its rules", "pod", pod, "waited", took)
		return nil
	case errors.Is(cause, node.ErrHungUp):
		a.metrics.Claimed(debug.ClaimHungUp)
		return err
	case cause != nil && !errors.Is(cause, node.ErrLate): // this agent ends, and the plugin asks the next one
		return err
	case cause != nil:
		a.metrics.Claimed(debug.ClaimLate)
	default:
		a.metrics.Claimed(debug.ClaimFailed)
	}
	why := cli.Printable(err.Error())
	if c.Strict {
		a.logger.Info("a pod does not start, as it has not its rules", "pod", pod, "waited", took, "why", why)
		return err
	}
	a.logger.Info("a pod started without its rules", "pod", pod, "waited", took, "why", why)
	return err
}
