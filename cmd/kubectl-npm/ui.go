package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/spf13/cobra"

	"github.com/winnpm/winnpm/pkg/cli"
	"github.com/winnpm/winnpm/pkg/debug"
	"github.com/winnpm/winnpm/tool/ui"
)

// readHeaderTimeout limits the time in which a browser must send a request's headers.
const readHeaderTimeout = 10 * time.Second

func newUI(std cli.Streams) *cobra.Command {
	var s source
	var listen string
	cmd := &cobra.Command{
		Use:   "ui [(--manifests PATH)... | --dump FILE]",
		Short: "Show the agents of a cluster, manifests or a saved dump in a browser",
		Long: `Serves web pages on this machine until Ctrl-C. They show every node of the cluster:
its health, pending work and warnings, who may connect to whom and why, its policies,
pods and sets. The agents are asked through the API server, with your own rights.
With --manifests the pages show a simulated node, with --dump a saved dump.

The pages have names and addresses of the whole cluster. Whoever can connect to the
address of --listen can read them.

Exit code: 0 it was interrupted, 1 bad input or an address that is in use, 2 wrong usage.`,
		Example: `  kubectl npm ui
  kubectl npm ui --manifests examples/shop
  kubectl npm ui --dump bundle.zip --listen 127.0.0.1:8080`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if s.live() && s.node != "" {
				return errors.New("--node is for --manifests: the pages of a cluster list all nodes")
			}
			if err := s.validate(); err != nil {
				return err
			}
			if _, _, err := net.SplitHostPort(listen); err != nil {
				return fmt.Errorf("--listen %q: %w; write it like %s", listen, err, ui.DefaultListen)
			}
			if err := s.serve(cmd.Context(), std, listen); err != nil {
				return cli.Exit{Code: cli.ExitBadInput, Err: fmt.Errorf("ui: %w", err)}
			}
			return nil
		},
	}
	f := cmd.Flags()
	f.StringVar(&listen, "listen", ui.DefaultListen, "`address` of the pages")
	s.flags(cmd)
	s.clusterFlags(cmd)
	f.Lookup("node").Usage = "with --manifests: only the pods of this `node` have endpoints (default: every pod is local)"
	return cmd
}

// serve serves the pages of the source until ctx is done.
func (s *source) serve(ctx context.Context, std cli.Streams, address string) error {
	pages, err := s.pages(ctx, std)
	if err != nil {
		return err
	}
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	if err != nil {
		return fmt.Errorf("%w; choose another address with --listen", err)
	}
	if _, err := fmt.Fprintf(std.Err, "serving on http://%s\n", l.Addr()); err != nil {
		return errors.Join(err, l.Close())
	}
	server := &http.Server{
		Handler: ui.OwnSite(debug.ByAddress(pages)), ReadHeaderTimeout: readHeaderTimeout,
		BaseContext: func(net.Listener) context.Context { return ctx },
	}
	defer context.AfterFunc(ctx, func() { _ = server.Close() })() // errors do not matter after the end
	if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

func (s *source) pages(ctx context.Context, std cli.Streams) (http.Handler, error) {
	if !s.live() {
		d, places, err := s.read(ctx, std)
		if err != nil {
			return nil, err
		}
		origin := "a saved dump"
		if len(s.manifests) > 0 {
			origin = "a simulation"
		}
		return ui.Handler(ui.Fixed(d, places, origin)), nil
	}
	cluster, err := s.cluster.open()
	if err != nil {
		return nil, err
	}
	return ui.ClusterHandler(cluster), nil
}
