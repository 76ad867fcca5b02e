package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/containernetworking/cni/pkg/skel"
	"github.com/containernetworking/cni/pkg/types"

	"github.com/winnpm/winnpm/pkg/node"
)

// statusTime is how long STATUS waits for an agent.
const statusTime = time.Second

// add implements ADD.
func (p plugin) add(args *skel.CmdArgs) error {
	c, err := parse(args.StdinData)
	if err != nil {
		return err
	}
	if err := c.chained(); err != nil {
		return err
	}
	if c.Mode != node.ModeOff {
		r, err := c.result()
		if err != nil {
			return err
		}
		if err := p.claim(args, c, r); err != nil {
			return err
		}
	}
	if _, err := p.stdout.Write(c.PrevResult); err != nil {
		return types.NewError(types.ErrIOFailure, "winnpm-cni: write the result: "+err.Error(), "")
	}
	return nil
}

// claim returns nil if the container may start. A container that is not a pod may always start.
func (p plugin) claim(args *skel.CmdArgs, c config, r prevResult) error {
	claim, err := claimOf(args, r)
	if err != nil {
		return err
	}
	if claim.Name == "" {
		return nil
	}
	claim.Wait, claim.Strict = time.Duration(c.WaitSeconds)*time.Second, c.Mode == node.ModeStrict
	_, err = node.Ask(context.Background(), p.dialing(c), claim)
	if err == nil {
		return nil
	}
	why := node.Printable(fmt.Sprintf("pod %s/%s: %v; %s", claim.Namespace, claim.Name, err, advice(err, c)))
	if c.Mode == node.ModeStrict {
		return types.NewError(types.ErrTryAgainLater, "winnpm-cni: not started, the kubelet tries again: "+why, "")
	}
	// The pod starts even if this line cannot be written.
	_, _ = fmt.Fprintf(p.stderr, "winnpm-cni: started without its policies: %s\n", why)
	return nil
}

// advice returns what to do about an error of node.Ask.
func advice(err error, c config) string {
	if errors.Is(err, node.ErrNoAgent) {
		return "see that the agent of WinNPM runs on this node and listens on " + c.Pipe
	}
	return "see the log of the agent of WinNPM on this node"
}

// status implements STATUS. It fails if pods cannot start on this node.
func (p plugin) status(args *skel.CmdArgs) error {
	c, err := parse(args.StdinData)
	if err != nil {
		return err
	}
	if c.Mode != node.ModeStrict {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), statusTime)
	defer cancel()
	if err := node.Reach(ctx, p.dialing(c)); err != nil {
		return types.NewError(types.ErrPluginNotAvailable, node.Printable(fmt.Sprintf("winnpm-cni: no pod starts here: %v; %s", err, advice(err, c))), "")
	}
	return nil
}
