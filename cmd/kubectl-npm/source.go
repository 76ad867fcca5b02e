package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"
	"k8s.io/klog/v2"

	"github.com/winnpm/winnpm/pkg/cli"
	"github.com/winnpm/winnpm/pkg/state"
	"github.com/winnpm/winnpm/tool/bounded"
	"github.com/winnpm/winnpm/tool/bundle"
	"github.com/winnpm/winnpm/tool/explain"
	"github.com/winnpm/winnpm/tool/simulate"
	"github.com/winnpm/winnpm/tool/whatif"
)

// source holds the flags that say where a command reads its state.
type source struct {
	manifests    []string
	recursive    bool
	node         string
	dump         string
	cluster      clusterOptions
	listsObjects bool           // the command lists the objects of a cluster instead of asking its agents
	inputs       bounded.Inputs // shared by the two sets of manifests that plan reads
}

// flags adds the flags of manifests and of a saved dump to a command.
func (s *source) flags(cmd *cobra.Command) {
	s.manifestFlags(cmd)
	cmd.Flags().StringVar(&s.dump, "dump", "", "a saved dump or support bundle, a `file`; - is a dump on stdin")
	cmd.MarkFlagsMutuallyExclusive("manifests", "dump")
}

// manifestFlags adds the flags for a simulated agent.
func (s *source) manifestFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringArrayVar(&s.manifests, "manifests", nil, "simulate the `manifests` of a folder or file; may be repeated")
	f.BoolVarP(&s.recursive, "recursive", "R", false, "read also the folders below a folder")
	f.StringVar(&s.node, "node", "", "with --manifests: only the pods of this `node` have endpoints (default: every pod is local)")
}

// listFlags adds the flags of a live cluster to a command that lists its objects instead of asking agents.
func (s *source) listFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	s.cluster.kubectlFlags(cmd)
	f.Lookup("node").Usage = "with --manifests or a cluster: this `node` alone is of interest (default: all that run Windows)"
	clustersAlone(cmd)
	s.listsObjects = true
}

func (s *source) validate() error {
	if s.live() {
		return nil
	}
	if s.node != "" && len(s.manifests) == 0 && s.listed() == "" {
		return errors.New("--node is for --manifests and clusters: a dump is of its own node")
	}
	if !s.listsObjects && s.cluster.moved() {
		return errors.New("--agent-namespace and --selector are for the agents of a cluster, which are not asked here")
	}
	return nil
}

// listed returns the kubeconfig of the cluster whose objects are the source, ""
// for another source.
func (s *source) listed() string {
	if s.listsObjects && s.bare() {
		return s.cluster.loading.GetDefaultFilename()
	}
	return ""
}

// read returns a saved dump, or that of a simulation with the places of its policies.
func (s *source) read(ctx context.Context, std cli.Streams) (state.Dump, explain.Places, error) {
	switch {
	case len(s.manifests) > 0:
		return simulate.Snapshot(ctx, s.simulation(std))
	case s.dump == "-":
		var d state.Dump
		err := readAll(intoDump(&d))(std.In)
		if errors.Is(err, bounded.ErrTooLarge) {
			err = fmt.Errorf("stdin: %w", err)
		}
		return d, nil, err
	}
	d, err := openDump(s.dump)
	if err != nil {
		err = fmt.Errorf("%s: %w", s.dump, err)
	}
	return d, nil, err
}

// openDump reads the dump in a file, or in the support bundle that the file is.
func openDump(file string) (d state.Dump, err error) {
	b, err := openBundle(file, intoDump(&d))
	if b != nil {
		d = b.Dump
	}
	return d, err
}

// openBundle reads the support bundle in a file. When the file is no zip file,
// openBundle returns nil and the result of other, which reads the file instead.
func openBundle(file string, other func(io.Reader) error) (*bundle.Bundle, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	head := make([]byte, 2) // of a zip file
	if _, err := f.ReadAt(head, 0); err != nil || string(head) != "PK" {
		return nil, readAll(other)(f)
	}
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	b, err := bundle.Read(f, info.Size())
	return &b, err
}

// readAll returns a function that reads an input to its end, within the limits of bounded.Inputs, and
// then passes it to use. It is for files and standard input, not for responses of an agent.
func readAll(use func(io.Reader) error) func(io.Reader) error {
	return func(r io.Reader) error {
		text, err := (&bounded.Inputs{}).Read(r)
		if err != nil {
			return err
		}
		return use(bytes.NewReader(text))
	}
}

// intoDump returns a function that reads a response of debug.ManagerPath into d.
func intoDump(d *state.Dump) func(io.Reader) error {
	return func(body io.Reader) (err error) {
		*d, err = bounded.ReadDump(body)
		return err
	}
}

// simulation returns the options of the simulation that --manifests asks for.
func (s *source) simulation(std cli.Streams) simulate.Options {
	return simulate.Options{Manifests: s.manifests, Namespace: s.cluster.overrides.Context.Namespace, Recursive: s.recursive, Node: s.node, Stdin: std.In, Logger: klog.Logger{}, Version: cli.Version()}
}

// world returns the cluster of the source before the planned change.
func (s *source) world(ctx context.Context, std cli.Streams) (whatif.World, error) {
	if kubeconfig := s.listed(); len(s.manifests) > 0 || kubeconfig != "" {
		return simulate.World(ctx, simulate.Options{Manifests: s.manifests, Namespace: s.cluster.overrides.Context.Namespace, Recursive: s.recursive, Kubeconfig: kubeconfig, Connect: s.cluster.config, Node: s.node, Stdin: std.In, Inputs: &s.inputs})
	}
	d, _, err := s.read(ctx, std)
	if err != nil {
		return whatif.World{}, err
	}
	return whatif.FromDump(d)
}

// fetch sends a GET of path to the agent on the node and passes the body of the response to use.
func (s *source) fetch(ctx context.Context, path string, use func(io.Reader) error) error {
	cluster, err := s.cluster.open()
	if err != nil {
		return err
	}
	agent, err := cluster.Find(ctx, s.node)
	if err != nil {
		return s.cluster.advise(err)
	}
	return cluster.Get(ctx, agent, path, use)
}
