package main

import (
	"context"
	"fmt"
	"net"
	"net/http"

	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"

	"github.com/winnpm/winnpm/pkg/controllers/reviews"
	"github.com/winnpm/winnpm/pkg/debug"
	"github.com/winnpm/winnpm/pkg/debug/access"
)

// exposed is the HTTPS endpoint for other machines; its zero value is none.
type exposed struct {
	listener    net.Listener
	guard       debug.Guard
	certificate access.Certificate
	says        []any // for the log
}

// expose begins to listen, if the configuration says so.
func expose(ctx context.Context, set settings, api *rest.Config, logger klog.Logger) (exposed, error) {
	if !set.ExposeDebug {
		return exposed{guard: debug.Local}, nil
	}
	reviewer, err := reviews.New(api)
	if err != nil {
		return exposed{}, err
	}
	var certificate access.Certificate
	var says []any
	if set.DebugCertFile != "" {
		if certificate, err = access.FromFiles(set.DebugCertFile, set.DebugKeyFile, logger); err != nil {
			return exposed{}, fmt.Errorf("DebugTLSCertFile, DebugTLSKeyFile: %w", err)
		}
		says = []any{"certificate", set.DebugCertFile}
	} else {
		var pin string
		if certificate, pin, err = access.SelfSigned(set.node); err != nil {
			return exposed{}, err
		}
		says = []any{"certificate", "made by itself", "pinnedpubkey", pin}
	}
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", set.listenDebug)
	if err != nil {
		return exposed{}, fmt.Errorf("HTTPS endpoint: %w; another address goes into --listen-debug or DebugListeningAddress and DebugListeningPort", err)
	}
	return exposed{l, access.New(reviewer, logger).Page, certificate, append([]any{"listening", l.Addr().String()}, says...)}, nil
}

// serve answers requests until ctx is done.
func (e exposed) serve(ctx context.Context, h http.Handler) error {
	return debug.ServeTLS(ctx, e.listener, e.certificate, h)
}
