package main

import (
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/winnpm/winnpm/pkg/controllers"
	"github.com/winnpm/winnpm/pkg/dataplane"
	"github.com/winnpm/winnpm/pkg/debug"
	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/pkg/simulate"
)

// reconcileInterval is also how long an unused set stays.
const reconcileInterval = 5 * time.Minute

func newStart(std streams, getenv func(string) string, connect func() (hns.Client, error)) *cobra.Command {
	var kubeconfig, listen, level string
	cmd := &cobra.Command{
		Use:   "start",
		Short: "Program this node until stopped",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			fail := func(err error) error { return exit{code: simulate.ExitBadInput, err: err} }
			logger, err := newLogger(std.err, level)
			if err != nil {
				return err
			}
			client, err := connect()
			if err != nil {
				return fail(err)
			}
			node := getenv("HOSTNAME")
			if node == "" {
				return fail(errors.New("the environment does not name the node: set HOSTNAME to spec.nodeName"))
			}
			cfg, err := controllers.RESTConfig(kubeconfig)
			if err != nil {
				return fail(err)
			}
			source, err := controllers.ClusterSource(cfg, node)
			if err != nil {
				return fail(err)
			}
			ctx := cmd.Context()
			l, err := new(net.ListenConfig).Listen(ctx, "tcp", listen)
			if err != nil {
				return fail(fmt.Errorf("debug endpoint: %w", err))
			}
			logger.Info("starting", "node", node, "server", cfg.Host, "listening", l.Addr().String())

			dp := dataplane.New(dataplane.Config{
				Client: client, Node: node, Now: time.Now,
				GracePeriod: reconcileInterval,
			})
			ctl := controllers.New(controllers.Config{
				Source: source, Applier: dp, Observer: dp, Node: node, RequireNodeAddr: true,
				ReconcileInterval: reconcileInterval, Logger: logger,
			})
			var running sync.WaitGroup
			defer running.Wait()
			running.Go(func() { ctl.Run(ctx) })
			handler := debug.Handler(debug.Config{Dump: dp.Dump, Healthy: ctl.Healthy, Ready: ctl.Ready})
			if err := debug.Serve(ctx, l, handler); err != nil {
				return fail(err)
			}
			return nil
		},
	}
	f := cmd.Flags()
	f.StringVar(&kubeconfig, "kubeconfig", "", "`file` with the cluster's address (default: as a pod of the cluster)")
	f.StringVar(&listen, "listen", simulate.DefaultServe, "`address` of the debug endpoint")
	f.StringVar(&level, "log-level", "info", "off, error, info or debug; logs go to stderr")
	return cmd
}
