package debug

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
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

// Listener serves pages at an address. The agent works also when another process has the address: pods that start
// without an agent are open.
type Listener struct {
	What, Address, Keys string // Keys name the settings of the address
	// Listen listens at a TCP address. An error of the system is an os.SyscallError; any other error means that
	// the address is invalid.
	Listen func(ctx context.Context, address string) (net.Listener, error)
	Pages  http.Handler
	Logger klog.Logger
	Opened func(addr string) // called when it listens

	listener net.Listener // nil while another process has the address
	taken    error        // of the last try
}

// Open tries once. An error says that the address is invalid.
func (d *Listener) Open(ctx context.Context) error {
	l, err := d.Listen(ctx, d.Address)
	if system := (*os.SyscallError)(nil); err != nil && !errors.As(err, &system) {
		return fmt.Errorf("%s: %w; another address goes into %s", d.What, err, d.Keys)
	}
	if d.listener, d.taken = l, err; err == nil {
		d.Opened(l.Addr().String())
	}
	return nil
}

// Run answers until ctx is done, after Open was called. While the address is taken it is tried again.
func (d *Listener) Run(ctx context.Context) error {
	if d.listener == nil {
		if err := d.wait(ctx); err != nil || d.listener == nil {
			return err
		}
	}
	return Serve(ctx, d.listener, d.Pages)
}

// wait tries until the address is free or ctx is done.
func (d *Listener) wait(ctx context.Context) error {
	began := time.Now()
	cli.Warn(d.Logger, "cannot listen, working without it and trying again", "endpoint", d.What, "address", d.Address, "err", d.taken.Error(), "otherAddress", d.Keys)
	for pause := firstRetry; ; pause = min(2*pause, lastRetry) {
		timer := time.NewTimer(pause)
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil
		case <-timer.C:
		}
		switch err := d.Open(ctx); {
		case ctx.Err() != nil && d.listener == nil:
			return nil
		case err != nil:
			return err
		case d.listener != nil:
			d.Logger.Info("listening after all", "endpoint", d.What, "address", d.Address, "waited", time.Since(began))
			return nil
		}
	}
}

// Close closes a Listener for which Run was not called.
func (d *Listener) Close() error {
	if d.listener == nil {
		return nil
	}
	return d.listener.Close()
}
