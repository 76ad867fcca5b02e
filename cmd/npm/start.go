package main

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/spf13/cobra"

	"github.com/winnpm/winnpm/pkg/cli"
	"github.com/winnpm/winnpm/pkg/hns/hcsadapter"
)

func newStart(std cli.Streams, getenv func(string) string, this host) *cobra.Command {
	var set settings
	cmd := &cobra.Command{
		Use:   "start",
		Short: "Program this node until stopped",
		Long: `Programs this node until stopped. The environment names the node (HOSTNAME) and
the configuration file (` + configEnv + `, JSON). While another agent programs the
node it waits.

With --dry-run it only looks, beside whichever agent programs the node: it writes nothing
to HNS or the cluster, is never ready, and logs what it would write (at level debug, line
by line).

Exit code: 0 stopped by a signal, 1 it cannot work,
2 wrong usage.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return set.run(cmd.Context(), std, getenv, this)
		},
	}
	f := cmd.Flags()
	f.StringVar(&set.kubeconfig, "kubeconfig", "", "`file` with the cluster's address (default: as a pod of the cluster)")
	f.StringVar(&set.Listen, "listen", "", "`address` of the HTTP endpoint (default: the configuration's, "+defaultConfig().address()+")")
	f.StringVar(&set.ListenProbes, "listen-probes", "", "`address` of the endpoint for the kubelet's probes, which answers only this machine (default: the configuration's, "+defaultConfig().probeAddress()+")")
	f.StringVar(&set.level, "log-level", "", "off, error, warn, info or debug (default: the configuration's, "+defaultConfig().LogLevel+"); logs go to stderr")
	f.DurationVar(&set.Reconcile, "reconcile-interval", 5*time.Minute, "how long an unused set stays; each object in HNS is looked at once in this `time`, a minute at most")
	f.BoolVar(&set.DryRun, "dry-run", false, "write nothing; log what would be written")
	f.DurationVar(&set.HNSTimeout, "hns-timeout", 2*time.Minute, "`time` after which a call to HNS counts as hanging")
	return cmd
}

// run programs the node until ctx is done. The command line takes precedence over the
// configuration.
func (set settings) run(ctx context.Context, std cli.Streams, getenv func(string) string, this host) error {
	if set.Reconcile <= 0 || set.HNSTimeout <= 0 {
		return errors.New("--reconcile-interval and --hns-timeout must be above 0")
	}
	cfg, notices, err := loadConfig(getenv(configEnv))
	if err != nil {
		return failed(err)
	}
	logger, err := cli.NewLogger(std.Err, cmp.Or(set.level, cfg.LogLevel))
	if err != nil {
		return err
	}
	for _, n := range notices {
		n.log(logger)
	}
	svc, err := this.connect(hcsadapter.Options{Network: cfg.Network, Deadline: set.HNSTimeout, Now: time.Now})
	if err != nil {
		return failed(err)
	}
	defer svc.Close()
	set.config, set.Node = cfg, getenv("HOSTNAME")
	set.Listen, set.ListenProbes = cmp.Or(set.Listen, cfg.address()), cmp.Or(set.ListenProbes, cfg.probeAddress())
	if set.Node == "" {
		return failed(errors.New("the environment does not name the node: set HOSTNAME to spec.nodeName"))
	}
	if err = runAgent(ctx, set, this, svc, logger); err == nil {
		logger.Info("stopped")
	}
	return failed(err)
}
