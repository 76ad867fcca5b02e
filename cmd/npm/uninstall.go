package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/winnpm/winnpm/pkg/cli"
	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/pkg/hns/hcsadapter"
)

// lockWait is how long npm uninstall waits for an agent that is stopping.
const lockWait = 15 * time.Second

// uninstallFlags are the flags of npm uninstall.
type uninstallFlags struct {
	yes, stay  bool
	hnsTimeout time.Duration
}

func newUninstall(std cli.Streams, getenv func(string) string, this host) *cobra.Command {
	var flags uninstallFlags
	cmd := &cobra.Command{
		Use:   "uninstall",
		Short: "Take all rules and sets of WinNPM and Azure NPM off this node",
		Long: `Takes all rules and sets of WinNPM and Azure NPM off this node, and leaves what others
have in HNS. Without --yes it only says what there is. Every pod of the node is open
afterwards, so delete the DaemonSet first, and the policies when nobody needs them.

It may be ended at any time and begun anew. It takes the configuration file of the agent
(` + configEnv + `), which names the network of HNS.

Exit code: 0 nothing is left, or without --yes nothing was written, 1 something is left
or cannot be read, 2 wrong usage.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return flags.run(cmd.Context(), std, getenv, this)
		},
	}
	f := cmd.Flags()
	f.BoolVar(&flags.yes, "yes", false, "do it")
	f.BoolVar(&flags.stay, "stay", false, "when that went well, wait until stopped, as a DaemonSet does")
	f.DurationVar(&flags.hnsTimeout, "hns-timeout", 2*time.Minute, "`time` after which a call to HNS counts as hanging")
	return cmd
}

// run removes our objects from the node, or prints them.
func (flags uninstallFlags) run(ctx context.Context, std cli.Streams, getenv func(string) string, this host) error {
	if flags.hnsTimeout <= 0 {
		return errors.New("--hns-timeout must be above 0")
	}
	cfg, _, err := loadConfig(getenv(configEnv))
	if err != nil {
		return failed(err)
	}
	svc, err := this.connect(hcsadapter.Options{Network: cfg.Network, Deadline: flags.hnsTimeout, Now: time.Now})
	if err != nil {
		return failed(err)
	}
	defer svc.Close()
	if flags.yes {
		err = removeAll(ctx, std.Out, svc, this)
	} else {
		err = printFound(ctx, std.Out, svc)
	}
	switch {
	case ctx.Err() != nil:
		return failed(context.Cause(ctx))
	case errors.Is(err, hns.ErrNotFound):
		return failed(fmt.Errorf("there is no %s: name the network of this node in WindowsNetworkName: %w", networkText(cfg.Network), err))
	case err != nil:
		return failed(err)
	}
	if flags.stay {
		<-ctx.Done()
	}
	return nil
}

// printFound prints our objects: a line for each endpoint, and one for the sets.
func printFound(ctx context.Context, out io.Writer, client hns.Client) error {
	found, err := lookForOurs(ctx, client)
	if err != nil {
		return err
	}
	if found.empty() {
		_, err = fmt.Fprintln(out, "nothing of WinNPM or Azure NPM is in HNS")
		return err
	}
	var text cli.Page
	for _, e := range found.endpoints {
		ours, _ := e.Split()
		text.Line(0, "endpoint %s %v: our rules: %d", e.ID, e.Addrs, len(ours))
	}
	for _, err := range found.unread {
		text.Line(0, "%v", err)
	}
	text.Line(0, "in all: our rules: %d, endpoints with some: %d, our sets: %d, nested ones of them: %d",
		found.rules, len(found.endpoints), len(found.sets)+len(found.nested), len(found.nested))
	text.Line(0, "nothing was written: --yes takes this away, and every pod of this node is open then")
	_, err = io.WriteString(out, text.String())
	return err
}

// removeAll removes our objects while it holds the node's lock. It succeeds if a read at the end
// finds none, whatever HNS answered to the writes.
func removeAll(ctx context.Context, out io.Writer, client hns.Client, this host) error {
	busy := errors.New("an agent programs this node: delete its DaemonSet first")
	waiting, cancel := context.WithTimeoutCause(ctx, lockWait, busy)
	defer cancel()
	unlock, err := this.lock(waiting, func() {})
	if err != nil {
		return err
	}
	defer unlock()
	found, err := lookForOurs(ctx, client)
	if err != nil {
		return err
	}
	if !found.empty() {
		failed := found.remove(ctx, client)
		if found, err = lookForOurs(ctx, client); err != nil {
			return err
		}
		if !found.empty() {
			return fmt.Errorf("something is left, run it again: our rules: %d, our sets: %d%s", found.rules, len(found.sets)+len(found.nested), because(failed))
		}
	}
	_, err = fmt.Fprintln(out, "nothing of WinNPM or Azure NPM is left in HNS; every pod of this node is open")
	return err
}

// because returns the end of a line with a reason, or "" for nil.
func because(err error) string {
	if err == nil {
		return ""
	}
	return ": " + cli.Line(err)
}
