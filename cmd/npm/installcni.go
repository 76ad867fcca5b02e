package main

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/klog/v2"

	"github.com/winnpm/winnpm/pkg/backoff"
	"github.com/winnpm/winnpm/pkg/cli"
	"github.com/winnpm/winnpm/pkg/node"
)

// installOptions are the command line of `npm install-cni` and `npm uninstall-cni`.
type installOptions struct {
	confDir, confFile, binDir string
	mode, pipe                string
	wait                      time.Duration
	watch                     bool
}

func (o *installOptions) flags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&o.confDir, "conf-dir", `C:\etc\cni\net.d`, "`FOLDER` of CNI's configurations, as containerd's conf_dir (AKS: C:\\k\\azurecni\\netconf)")
	f.StringVar(&o.confFile, "conf-file", "", "`NAME` of the .conflist in it (default: the one that containerd takes)")
	f.StringVar(&o.binDir, "bin-dir", `C:\opt\cni\bin`, "`FOLDER` of CNI's programs, as containerd's bin_dir (AKS: C:\\k\\azurecni\\bin)")
}

func newInstallCNI(std cli.Streams) *cobra.Command {
	o := installOptions{}
	cmd := &cobra.Command{
		Use:   "install-cni",
		Short: "Have pods start only when their policies are in force",
		Long: `Copies ` + node.PluginFile + ` from beside this program into the folder of CNI's programs,
then adds it to the list of plugins that containerd runs for each pod. Everything else
in that file stays as it is. A second time changes nothing.

Exit code: 0 done, 1 not done, 2 wrong usage.`,
		Example: `  npm install-cni --conf-dir C:\k\azurecni\netconf --bin-dir C:\k\azurecni\bin`,
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return o.run(cmd.Context(), std) },
	}
	o.flags(cmd)
	f := cmd.Flags()
	f.StringVar(&o.mode, "mode", node.ModeWait, "what a pod does without an agent's answer: wait, then start; strict: not start; off: never ask")
	f.DurationVar(&o.wait, "wait", node.DefaultWait, "how long a pod waits, in whole seconds")
	f.StringVar(&o.pipe, "pipe", "", "`PATH` of the agent's CNIPipe (default: "+node.DefaultPipe+")")
	f.BoolVar(&o.watch, "watch", false, "stay, and put the plugin back when another program replaced the file")
	return cmd
}

func newUninstallCNI(std cli.Streams) *cobra.Command {
	o := installOptions{}
	cmd := &cobra.Command{
		Use:   "uninstall-cni",
		Short: "Undo install-cni: the list of CNI plugins as it was, to the byte",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			if err := o.validateFile(); err != nil {
				return err
			}
			err := o.plugin().Uninstall()
			if err == nil {
				_, err = fmt.Fprintln(std.Out, o.confDir+": no list names "+node.PluginType+" any more")
			}
			return failed(err)
		},
	}
	o.flags(cmd)
	return cmd
}

func (o *installOptions) validateFile() error {
	if o.confFile != "" && (filepath.Base(o.confFile) != o.confFile || filepath.Ext(o.confFile) != ".conflist") {
		return fmt.Errorf("--conf-file %q: give the name of a .conflist in --conf-dir", o.confFile)
	}
	return nil
}

func (o *installOptions) validate() error {
	switch {
	case !slices.Contains([]string{node.ModeStrict, node.ModeWait, node.ModeOff}, o.mode):
		return fmt.Errorf("--mode %q: strict, wait and off are modes", o.mode)
	case o.wait < time.Second || o.wait > node.MaxWait || o.wait%time.Second != 0:
		return fmt.Errorf("--wait %s: give whole seconds, 1s to 5m", o.wait)
	}
	return o.validateFile()
}

// plugin returns the installation that the flags describe.
func (o *installOptions) plugin() *node.Plugin {
	return &node.Plugin{
		ConfDir: o.confDir, ConfFile: o.confFile, BinDir: o.binDir,
		Entry: node.PluginEntry{Mode: o.mode, WaitSeconds: int(o.wait / time.Second), Pipe: o.pipe},
	}
}

// run installs the plugin.
func (o *installOptions) run(ctx context.Context, std cli.Streams) error {
	if err := o.validate(); err != nil {
		return err
	}
	if o.watch {
		logger, err := cli.NewLogger(std.Err, "info")
		if err != nil {
			return err
		}
		keep(ctx, logger, o.plugin().Install)
		return nil
	}
	_, err := o.plugin().Install()
	if err == nil {
		_, err = fmt.Fprintln(std.Out, o.confDir+": pods wait for their policies, mode "+o.mode)
	}
	return failed(err)
}

// watchEvery is the interval at which the list of plugins is checked, so the longest time that a
// file of another program stays without our entry. A check reads the list and the names of the
// files beside it and beside the program.
const watchEvery = time.Second

// keep installs again and again until ctx ends. After a write or a failure it pauses for 1, 2, 4 … 30 s, so if
// another program undoes each write, both write the file six times in the first minute and twice in each further
// one. A minute without a write or failure ends that.
func keep(ctx context.Context, logger klog.Logger, install func() (bool, error)) {
	var (
		tries    int       // writes and failures
		again    time.Time // the end of the pause after the last one
		reported string    // the last failure
	)
	for {
		changed, err := install()
		switch now := time.Now(); {
		case err != nil || changed:
			tries++
			again = now.Add(backoff.Pause(tries))
		case now.Sub(again) >= time.Minute:
			tries = 0
		}
		switch {
		case changed:
			logger.Info("Put the plugin into the list of CNI plugins", "plugin", node.PluginType, "pause", backoff.Pause(tries))
		case err != nil && err.Error() != reported:
			logger.Error(err, "The plugin is not installed; trying again", "plugin", node.PluginType)
			reported = err.Error()
		case err == nil:
			reported = ""
		}
		if sleep(ctx, max(watchEvery, time.Until(again))) != nil {
			return
		}
	}
}
