package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	"k8s.io/klog/v2"

	"github.com/winnpm/winnpm/pkg/cli"
)

// The pauses before a taken address is tried again: the first, and the longest. Each is
// twice as long as the one before.
const (
	firstRetry = time.Second
	lastRetry  = 30 * time.Second
)

// listener is an address at which the agent answers. The agent works also when another process
// has the address: pods that start without an agent are open.
type listener struct {
	what, address, keys string // keys name the settings of the address
	host                host
	logger              klog.Logger
	opened              func(addr string)        // called when it listens
	serve               func(net.Listener) error // until the end of its context
	listener            net.Listener             // nil while the address is taken
	taken               error                    // why
}

// open tries once. An error says that the address is invalid.
func (d *listener) open(ctx context.Context) error {
	l, err := d.host.listen(ctx, d.address)
	if system := (*os.SyscallError)(nil); err != nil && !errors.As(err, &system) {
		return fmt.Errorf("%s: %w; another address goes into %s", d.what, err, d.keys)
	}
	if d.listener, d.taken = l, err; err == nil {
		d.opened(l.Addr().String())
	}
	return nil
}

// run answers until ctx is done, after open was called. While the address is
// taken it is tried again.
func (d *listener) run(ctx context.Context) error {
	if d.listener == nil {
		if err := d.wait(ctx); err != nil || d.listener == nil {
			return err
		}
	}
	return d.serve(d.listener)
}

// wait tries until the address is free or ctx is done.
func (d *listener) wait(ctx context.Context) error {
	began := time.Now()
	cli.Warn(d.logger, "cannot listen, working without it and trying again", "endpoint", d.what, "address", d.address, "err", d.taken.Error(), "otherAddress", d.keys)
	for pause := firstRetry; ; pause = min(2*pause, lastRetry) {
		timer := time.NewTimer(pause)
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil
		case <-timer.C:
		}
		switch err := d.open(ctx); {
		case ctx.Err() != nil && d.listener == nil:
			return nil
		case err != nil:
			return err
		case d.listener != nil:
			d.logger.Info("listening after all", "endpoint", d.what, "address", d.address, "waited", time.Since(began))
			return nil
		}
	}
}

// close gives up a listener that run was not called for.
func (d *listener) close() error {
	if d.listener == nil {
		return nil
	}
	return d.listener.Close()
}
