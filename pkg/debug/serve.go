package debug

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"time"

	"golang.org/x/net/netutil"
	"k8s.io/klog/v2"

	"github.com/winnpm/winnpm/pkg/backoff"
	"github.com/winnpm/winnpm/pkg/cli"
)

// connectionsAtOnce limits the connections of a listener.
const connectionsAtOnce = 128

// Serve answers requests on l until ctx is done, and then gives the requests in progress a second
// to end. It closes l. Each connection ends after one answer, so that a client can hold connections
// for some seconds only.
func Serve(ctx context.Context, l net.Listener, h http.Handler) error {
	l, srv := netutil.LimitListener(l, connectionsAtOnce), newServer(ctx, h)
	ended := make(chan error, 1)
	stop := context.AfterFunc(ctx, func() {
		grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		err := srv.Shutdown(grace)
		if err != nil {
			err = srv.Close()
		}
		ended <- err
	})
	err := srv.Serve(l)
	if stop() {
		return fmt.Errorf("serve on %s: %w", l.Addr(), err) // ctx is not why it ended
	}
	return <-ended
}

// newServer returns a server with time limits for clients. A response that takes longer is cut off.
func newServer(ctx context.Context, h http.Handler) *http.Server {
	srv := &http.Server{
		Handler:           h,
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       10 * time.Second,
		WriteTimeout:      5 * time.Minute, // a dump of a large cluster over a slow line, a profile
		MaxHeaderBytes:    64 << 10,
		BaseContext:       func(net.Listener) context.Context { return ctx },
	}
	srv.SetKeepAlivesEnabled(false)
	return srv
}

// Listener serves pages at an address. The agent also works while another process has the address,
// because pods that start without an agent are open.
type Listener struct {
	What, Address, Keys string // Keys name the settings of the address
	// Listen listens at a TCP address. An error of the system is an os.SyscallError; any other error means that
	// the address is invalid.
	Listen func(ctx context.Context, address string) (net.Listener, error)
	Pages  http.Handler
	Logger klog.Logger
	Opened func(addr string) // called when it listens
}

// Run serves until ctx is done. While another process has the address it tries again, with growing
// pauses. It fails if the address is invalid.
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
