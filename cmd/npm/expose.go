package main

import (
	"fmt"

	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"

	"github.com/winnpm/winnpm/pkg/controllers/reviews"
	"github.com/winnpm/winnpm/pkg/debug"
	"github.com/winnpm/winnpm/pkg/debug/access"
)

// exposed is the HTTPS endpoint for other machines.
type exposed struct {
	guard       debug.Guard
	certificate access.Certificate // nil: there is no such endpoint
	says        []any              // for the log
}

// expose reads what the endpoint needs, if the configuration asks for it.
func expose(set settings, api *rest.Config, logger klog.Logger) (exposed, error) {
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
	return exposed{access.New(reviewer, logger).Page, certificate, says}, nil
}
