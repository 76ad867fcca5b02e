// Package debug answers over HTTP what the agent knows and how it is. It works
// on snapshots and never waits for HNS.
package debug

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/winnpm/winnpm/pkg/dataplane"
)

// ManagerPath is where the dump is, as it was with the predecessor.
const ManagerPath = "/npm/v1/debug/manager"

// Config is what the endpoint shows. No function may wait for HNS.
type Config struct {
	Dump    func() dataplane.Dump
	Healthy func() error // nil: no reason to restart the process
	Ready   func() error // nil: everything known is programmed
}

// Handler returns the endpoint: the dump, /healthz and /readyz, GET only.
func Handler(cfg Config) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+ManagerPath, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		// An error means that the client has gone: nobody is left to tell.
		_ = writeManager(w, cfg.Dump())
	})
	mux.Handle("GET /healthz", check(cfg.Healthy))
	mux.Handle("GET /readyz", check(cfg.Ready))
	return mux
}

// check answers 200 "ok", or 503 with the reason.
func check(state func() error) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if err := state(); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		_, _ = io.WriteString(w, "ok\n") // a client that has gone is no concern
	})
}

// Serve answers requests on l until ctx is done, then gives those in progress
// a second to end. It closes l.
func Serve(ctx context.Context, l net.Listener, h http.Handler) error {
	srv := &http.Server{
		Handler:           h,
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       10 * time.Second,
		WriteTimeout:      5 * time.Minute, // a dump of a large cluster over a slow line
		IdleTimeout:       time.Minute,
		MaxHeaderBytes:    64 << 10,
		BaseContext:       func(net.Listener) context.Context { return ctx },
	}
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
