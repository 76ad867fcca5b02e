package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/winnpm/winnpm/pkg/doctor"
	"github.com/winnpm/winnpm/pkg/doctor/sockets"
	"github.com/winnpm/winnpm/pkg/simulate"
)

// mostScale is how much of anything npm doctor --scale asks for at most.
const mostScale = 65536

// doctorFlags are what the command line says.
type doctorFlags struct {
	file       string
	readOnly   bool
	l2bridge   bool
	hashNames  bool
	packets    bool
	overHNS    bool // packets are asked about, and not sent
	restartHNS bool
	scale      bool
	hnsTimeout time.Duration
}

func newDoctor(std streams, this host) *cobra.Command {
	var flags doctorFlags
	cmd := &cobra.Command{
		Use:   "doctor [-o FILE]",
		Short: "Record what the HNS of this node does, beside what WinNPM assumes of it",
		Long: `Asks the Host Networking Service of this node some two thousand things, and writes each
request and each answer into one zip file. report.html in it says of every assumption of
WinNPM whether it held, is refuted, or stays unknown.

First it reads what is there. Then it makes a network of its own, winnpm-doctor, and writes
to nothing else; what it made is taken away at the end, or by the next run.
With --read-only it writes nothing. With --packets it sends packets between endpoints of its own, to see what
rules do, and after how long: that takes 10 to 15 minutes. With --scale it makes
sets, members and rules, doubled until HNS refuses them, for up to 20 minutes. With --restart-hns it restarts
the service, to see what survives that: no pod of the node can start meanwhile, and those that
run may lose their network. It needs an Administrator.

In the zip are names and addresses of networks, endpoints, sets and rules of this node;
--hash-names replaces the names. A file that is there is not written over.

Exit code: 0 the file is there, 1 it is not, or something could not be asked or taken away
again, 2 wrong usage.`,
		Example: `  npm doctor -o doctor.zip
  npm doctor --packets -o doctor.zip
  npm doctor --read-only --hash-names`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if flags.hnsTimeout <= 0 {
				return errors.New("--hns-timeout must be above 0")
			}
			if err := flags.run(cmd.Context(), std, this); err != nil {
				return exit{simulate.ExitBadInput, fmt.Errorf("doctor: %w", err)}
			}
			return nil
		},
	}
	f := cmd.Flags()
	f.StringVarP(&flags.file, "output", "o", "", "`FILE` to write (default winnpm-doctor-TIME.zip in this folder)")
	f.BoolVar(&flags.readOnly, "read-only", false, "only read")
	f.BoolVar(&flags.l2bridge, "l2bridge", false, "make an L2Bridge network, as pods have, and no NAT; it may interrupt the node's own connection for seconds")
	f.BoolVar(&flags.packets, "packets", false, "also send packets between endpoints of its own, 10 to 15 minutes")
	f.BoolVar(&flags.overHNS, "packets-over-hns", false, "ask HNS what becomes of packets: that of our tests under Wine answers")
	f.BoolVar(&flags.restartHNS, "restart-hns", false, "also restart the service hns; on a node that you can spare")
	f.BoolVar(&flags.scale, "scale", false, "also double sets, members and rules until HNS refuses them, up to 20 minutes")
	f.BoolVar(&flags.hashNames, "hash-names", false, "replace names by hashes")
	f.DurationVar(&flags.hnsTimeout, "hns-timeout", 2*time.Minute, "`time` after which a call to HNS counts as hanging")
	for _, writes := range []string{"l2bridge", "packets", "scale", "restart-hns"} {
		cmd.MarkFlagsMutuallyExclusive("read-only", writes)
	}
	if err := f.MarkHidden("packets-over-hns"); err != nil {
		panic("BUG: " + err.Error())
	}
	return cmd
}

// run asks HNS, writes the file, and says the worst first.
func (flags doctorFlags) run(ctx context.Context, std streams, this host) error {
	file := flags.file
	if file == "" {
		file = "winnpm-doctor-" + time.Now().UTC().Format("20060102T150405Z") + ".zip"
	}
	if err := vacant(file); err != nil {
		return err
	}
	library, err := this.raw(flags.hnsTimeout)
	if err != nil {
		return err
	}
	defer library.Close()
	busy := errors.New("another doctor is at work on this node")
	waiting, cancel := context.WithTimeoutCause(ctx, lockWait, busy)
	defer cancel()
	unlock, err := this.alone(waiting, func(int) {})
	if err != nil {
		return err
	}
	defer unlock()
	node := this.facts()
	node.Program = version()
	options := doctor.Options{
		Node: node, ReadOnly: flags.readOnly, L2Bridge: flags.l2bridge,
		Wire: flags.wire(library, this), Now: time.Now,
	}
	if flags.scale {
		options.Scale = mostScale
	}
	if flags.restartHNS {
		options.Service = this.restarter()
	}
	result := doctor.Run(ctx, library, options)
	if flags.hashNames {
		result.HashNames([]byte(rand.Text()))
	}
	if err := writeFile(file, result.WriteZip); err != nil {
		return err
	}
	return tellResult(std.out, file, result)
}

// wire is what sends packets; nil: nobody does.
func (flags doctorFlags) wire(library doctor.Library, this host) doctor.Wire {
	switch {
	case !flags.packets:
		return nil
	case flags.overHNS:
		return sockets.Asked(library)
	}
	return this.wire()
}

// tellResult says what was found, and fails when it is not the whole.
func tellResult(out io.Writer, file string, r doctor.Result) error {
	for _, a := range r.Answers {
		if a.Verdict != doctor.Refuted {
			continue
		}
		for _, f := range a.Findings {
			if f.Verdict == doctor.Refuted {
				if _, err := fmt.Fprintf(out, "refuted: %s %s: %s: %s\n", a.ID, a.What, f.Probe, f.Why); err != nil {
					return err
				}
				break // the page has the others
			}
		}
	}
	if _, err := fmt.Fprintf(out, "%s\n%s  %d calls\n", r.Headline(), file, len(r.Records)); err != nil {
		return err
	}
	switch {
	case len(r.Left) > 0:
		return fmt.Errorf("this could not be taken away again: %s", r.Left[0])
	case r.Denied():
		return errors.New("HNS refused the calls: run it as Administrator")
	case r.Broken != "":
		return errors.New("it did not come to its end: " + r.Broken)
	}
	return nil
}

// writeFile writes a file that is there as a whole or not at all.
func writeFile(file string, write func(io.Writer) error) error {
	half, err := os.CreateTemp(filepath.Dir(file), ".winnpm-*.zip")
	if err != nil {
		return err
	}
	defer os.RemoveAll(half.Name()) // in vain when all went well
	defer half.Close()
	if err := write(half); err != nil {
		return err
	}
	if err := half.Close(); err != nil {
		return err
	}
	return os.Rename(half.Name(), file)
}

// rawHNS are single calls of HNS until it is closed.
type rawHNS interface {
	doctor.Library
	Close()
}
