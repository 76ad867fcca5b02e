package debug

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"time"
)

// Serve answers requests on l until ctx is done, then gives those in progress
// a second to end. It closes l.
func Serve(ctx context.Context, l net.Listener, h http.Handler) error {
	return serve(ctx, newCrowd(l), newServer(ctx, h))
}

// ServeProbes is Serve for the kubelet's probes. All of its clients have the same address, so it
// does not bound the connections per address. It closes every connection after one response.
func ServeProbes(ctx context.Context, l net.Listener, h http.Handler) error {
	srv := newServer(ctx, h)
	srv.SetKeepAlivesEnabled(false)
	return serve(ctx, &crowd{Listener: l, most: connectionsAtOnce, ofOne: connectionsAtOnce}, srv)
}

func serve(ctx context.Context, l net.Listener, srv *http.Server) error {
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
	return &http.Server{
		Handler:           busy(h),
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       10 * time.Second,
		WriteTimeout:      5 * time.Minute, // a dump of a large cluster over a slow line, a profile
		IdleTimeout:       time.Minute,
		MaxHeaderBytes:    64 << 10,
		BaseContext:       func(net.Listener) context.Context { return ctx },
		ConnContext:       withConn,
	}
}
