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

// startFlags are what the command line says; it goes before the configuration.
type startFlags struct {
	kubeconfig, listen, listenProbes, level string
	reconcile, hnsTimeout                   time.Duration
	dryRun                                  bool
}

func newStart(std cli.Streams, getenv func(string) string, this host) *cobra.Command {
	var flags startFlags
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
			return flags.run(cmd.Context(), std, getenv, this)
		},
	}
	f := cmd.Flags()
	f.StringVar(&flags.kubeconfig, "kubeconfig", "", "`file` with the cluster's address (default: as a pod of the cluster)")
	f.StringVar(&flags.listen, "listen", "", "`address` of the HTTP endpoint (default: the configuration's, "+defaultConfig().address()+")")
	f.StringVar(&flags.listenProbes, "listen-probes", "", "`address` of the endpoint for the kubelet's probes, which answers only this machine (default: the configuration's, "+defaultConfig().probeAddress()+")")
	f.StringVar(&flags.level, "log-level", "", "off, error, warn, info or debug (default: the configuration's, "+defaultConfig().LogLevel+"); logs go to stderr")
	f.DurationVar(&flags.reconcile, "reconcile-interval", 5*time.Minute, "how long an unused set stays; each object in HNS is looked at once in this `time`, a minute at most")
	f.BoolVar(&flags.dryRun, "dry-run", false, "write nothing; log what would be written")
	f.DurationVar(&flags.hnsTimeout, "hns-timeout", 2*time.Minute, "`time` after which a call to HNS counts as hanging")
	return cmd
}

// run programs the node until ctx is done.
func (flags startFlags) run(ctx context.Context, std cli.Streams, getenv func(string) string, this host) error {
	if flags.reconcile <= 0 || flags.hnsTimeout <= 0 {
		return errors.New("--reconcile-interval and --hns-timeout must be above 0")
	}
	fail := func(err error) error { return cli.Exit{Code: cli.ExitBadInput, Err: err} }
	cfg, notices, err := loadConfig(getenv(configEnv))
	if err != nil {
		return fail(err)
	}
	logger, err := cli.NewLogger(std.Err, cmp.Or(flags.level, cfg.LogLevel))
	if err != nil {
		return err
	}
	for _, n := range notices {
		n.log(logger)
	}
	svc, err := this.connect(hcsadapter.Options{Network: cfg.Network, Deadline: flags.hnsTimeout, Now: time.Now})
	if err != nil {
		return fail(needs("npm start", err))
	}
	defer svc.Close()
	node := getenv("HOSTNAME")
	if node == "" {
		return fail(errors.New("the environment does not name the node: set HOSTNAME to spec.nodeName"))
	}
	set := settings{
		config: cfg, Node: node, kubeconfig: flags.kubeconfig, Reconcile: flags.reconcile, DryRun: flags.dryRun,
		Listen: cmp.Or(flags.listen, cfg.address()), ListenProbes: cmp.Or(flags.listenProbes, cfg.probeAddress()),
	}
	if err := runAgent(ctx, set, this, svc, logger); err != nil {
		return fail(err)
	}
	logger.Info("stopped")
	return nil
}
