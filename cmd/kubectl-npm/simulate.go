package main

import (
	"github.com/spf13/cobra"

	"github.com/winnpm/winnpm/pkg/cli"
	"github.com/winnpm/winnpm/tool/cluster"
	"github.com/winnpm/winnpm/tool/simulate"
)

func newSimulate(std cli.Streams) *cobra.Command {
	o := simulate.Options{Options: cluster.Options{Stdin: std.In}, Stdout: std.Out}
	var live clusterOptions
	var level string
	cmd := &cobra.Command{
		Use:   "simulate (--manifests PATH)... | --kubeconfig FILE",
		Short: "Run the dataplane on a simulated node and show what it would program",
		Long: `Runs the dataplane of the agent on a simulator instead of HNS, fed by manifests or
read-only by a live cluster, and prints the sets and ACLs that it programs.
"ui --manifests" shows the same node in a browser.

Exit code: 0 everything is programmed, 3 something was left out (see warnings),
1 bad input, 2 wrong usage.`,
		Example: `  kubectl npm simulate --manifests examples/shop --once --matrix 80/TCP
  kubectl npm simulate --manifests app.yaml --once -o json --trace 'shop/web->shop/db:5432/TCP'
  kubectl npm simulate --kubeconfig ~/.kube/config --node win-1`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			logger, err := cli.NewLogger(std.Err, level)
			if err != nil {
				return err
			}
			o.Logger = logger
			o.Kubeconfig, o.Namespace, o.Connect = live.loading.ExplicitPath, live.overrides.Context.Namespace, live.config
			return simulate.Run(cmd.Context(), o)
		},
	}
	f := cmd.Flags()
	f.StringArrayVar(&o.Manifests, "manifests", nil, "folder, file or - (stdin) of `manifests`; may be repeated")
	f.BoolVarP(&o.Recursive, "recursive", "R", false, "read also the folders below a folder")
	live.kubectlFlags(cmd)
	clustersAlone(cmd)
	f.StringVar(&o.Node, "node", "", "only the pods of this `node` have endpoints (default: every pod is local)")
	f.Bool("once", true, "converge, print and exit, which simulate always does")
	f.StringVarP(&o.Output, "output", "o", "text", "text or json")
	f.StringArrayVar(&o.Matrix, "matrix", nil, "`PORT/PROTO`: who may connect to whom; may be repeated")
	f.BoolVar(&o.All, "all", false, "the matrix is of every pod, not of workloads: of pods that nothing tells apart")
	f.StringArrayVar(&o.Trace, "trace", nil, "`FROM->TO:PORT/PROTO`: which rule decides; an end is namespace/pod or an IP; may be repeated")
	f.StringVar(&level, "log-level", cli.LogOff, "off, error, info or debug; logs go to stderr")
	return cmd
}
