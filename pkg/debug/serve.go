package debug

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"time"

	"golang.org/x/net/netutil"
)

// connectionsAtOnce bounds the connections of a listener.
const connectionsAtOnce = 128

// Serve answers requests on l until ctx is done, then gives those in progress
// a second to end. It closes l. Each connection ends after one answer, so that a client that holds
// connections open keeps them for some seconds only.
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

// newServer returns a server whose clients cannot be slower than its times. A
// response that takes longer is cut.
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
