package main

import (
	"context"
	"errors"
	"time"

	"github.com/winnpm/winnpm/pkg/cli"
	"github.com/winnpm/winnpm/pkg/debug"
	"github.com/winnpm/winnpm/pkg/node"
)

// pipeAgain is the pause between two attempts to create the pipe of the CNI plugin while another
// process has it.
const pipeAgain = 5 * time.Second

var _ node.Claimer = (*agent)(nil)

// answerClaims answers the CNI plugin until ctx is done. Without the pipe the agent works anyway,
// and the plugin's mode decides whether pods start.
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

// Claim implements node.Claimer. It calls the controller's Claim, measures it, and logs pods that
// start without their rules.
func (a *agent) Claim(ctx context.Context, c node.Claim) error {
	began := time.Now()
	err := a.ctl.Claim(ctx, c)
	logger := a.logger.WithValues("pod", c.Namespace+"/"+c.Name, "waited", time.Since(began))
	result := debug.ClaimFailed
	switch cause := context.Cause(ctx); {
	case err == nil:
		a.metrics.Claimed(debug.ClaimReady)
		logger.V(1).Info("a pod starts with its rules")
		return nil
	case errors.Is(cause, node.ErrHungUp):
		a.metrics.Claimed(debug.ClaimHungUp)
		return err
	case errors.Is(cause, node.ErrLate):
		result = debug.ClaimLate
	case cause != nil: // this agent ends, and the plugin asks the next one
		return err
	}
	a.metrics.Claimed(result)
	msg := "a pod started without its rules"
	if c.Strict {
		msg = "a pod does not start, as it has not its rules"
	}
	logger.Info(msg, "why", cli.Printable(err.Error()))
	return err
}
