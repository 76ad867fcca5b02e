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

	"github.com/winnpm/winnpm/pkg/backoff"
	"github.com/winnpm/winnpm/pkg/cli"
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
}

// Run answers until ctx is done. While another process has the address it tries again, less and less often. It fails if
// the address is invalid.
func (d Listener) Run(ctx context.Context) error {
	for tries := 1; ; tries++ {
		l, err := d.Listen(ctx, d.Address)
		switch system := (*os.SyscallError)(nil); {
		case err == nil:
			d.Opened(l.Addr().String())
			return Serve(ctx, l, d.Pages)
		case ctx.Err() != nil:
			return nil
		case !errors.As(err, &system):
			return fmt.Errorf("%s: %w; another address goes into %s", d.What, err, d.Keys)
		case tries == 1:
			cli.Warn(d.Logger, "cannot listen, working without it and trying again", "endpoint", d.What, "address", d.Address, "err", err.Error(), "otherAddress", d.Keys)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(backoff.Pause(tries)):
		}
	}
}
